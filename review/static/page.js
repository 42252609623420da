// Keys, and what a screen reader is told. Every page works without this file.
"use strict";

const kind = document.body.dataset.page;
const dialog = document.getElementById("keys");
const keysOn = document.getElementById("keys-on");
const KEYS_OFF = "nightfold-keys-off";

function remembered() {
  try {
    return localStorage.getItem(KEYS_OFF) === "1";
  } catch {
    return false;
  }
}

function remember(off) {
  try {
    localStorage.setItem(KEYS_OFF, off ? "1" : "0");
  } catch {
    // The choice holds for this page alone.
  }
}

let isOff = remembered();
if (keysOn) {
  keysOn.checked = !isOff;
  keysOn.addEventListener("change", () => {
    isOff = !keysOn.checked;
    remember(isOff);
  });
}

// A live region is read when it changes, so what the page came with is put there once more.
const said = document.getElementById("said");
if (said && said.textContent.trim()) {
  const text = said.textContent;
  said.textContent = "";
  setTimeout(() => {
    said.textContent = text;
  }, 150);
}

// After a decision the next question has the focus.
const question = document.getElementById("question");
if (question && location.hash === "#question") {
  question.focus({ preventScroll: true });
  scrollTo(0, 0);
}

// On a narrow screen the filters stand above the list: closed, unless some are set.
const fold = document.getElementById("filter-fold");
if (fold && !("set" in fold.dataset) && !matchMedia("(min-width: 60rem)").matches) {
  fold.open = false;
}

function openHelp() {
  if (dialog && !dialog.open) {
    dialog.showModal();
  }
}

document.querySelector("[data-help]")?.addEventListener("click", (event) => {
  if (dialog && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openHelp();
  }
});

// Two presses are one decision.
for (const form of document.forms) {
  if (form.method !== "post") {
    continue;
  }
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
    }
    form.dataset.sent = "1";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.forms) {
    delete form.dataset.sent;
  }
});

function step(by) {
  const items = [...document.querySelectorAll("[data-item]")];
  if (items.length) {
    const at = items.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + by, 0), items.length - 1);
    items[to].focus();
    items[to].closest("li").scrollIntoView({ block: "nearest" });
    return;
  }
  const link = document.querySelector(by > 0 ? 'a[rel="next"]' : 'a[rel="prev"]');
  if (link) {
    // To its heading: there reading begins.
    location.assign(`${link.href}#question`);
  }
}

function isWriting(element) {
  return element.matches("textarea, select, input:not([type=checkbox])") || element.isContentEditable;
}

const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  c: () => document.querySelector("[data-next-candidate]")?.click(),
  n: () => document.getElementById("note")?.focus(),
  u: () => document.getElementById("undo-last")?.requestSubmit(),
  "?": openHelp,
  Escape: () => document.querySelector("[data-back]")?.click(),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || (dialog && dialog.open)) {
    return;
  }
  if (isWriting(event.target)) {
    if (event.key === "Escape" && event.target.id === "note") {
      event.target.blur();
    }
    return;
  }
  if (isOff && event.key !== "Escape") {
    return;
  }
  const button = /^[1-5]$/.test(event.key) && document.querySelector(`[data-key="${event.key}"]`);
  const act = button ? () => button.click() : ACTIONS[event.key];
  const isStep = event.key === "j" || event.key === "k";
  if (act && (isStep || !event.repeat)) {
    event.preventDefault();
    act();
  }
});
