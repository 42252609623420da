"""The page in a real browser: by keyboard alone, and as axe-core sees it."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Browser, Locator, Page, expect

from tests.judged import word_endpoint
from tests.review.asked import HIGH, LOW, Asked, another_night

pytestmark = pytest.mark.xdist_group("browser")

Serves = Callable[..., AbstractContextManager[Any]]
WIDE, NARROW = 1280, 390
AXE = AXE_FILE_PATH.read_text(encoding="utf-8")


@contextmanager
def opened(chromium: Browser, url: str, *, script: bool = True) -> Iterator[Page]:
    """A browser window that nobody is signed in at. Whatever goes wrong in a page fails the test."""
    with chromium.new_context(
        base_url=url,
        color_scheme="light",
        reduced_motion="reduce",
        viewport={"width": WIDE, "height": 900},
        java_script_enabled=script,
    ) as context:
        page = context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("dialog", lambda dialog: faults.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: faults.append(request.url) if not request.url.startswith(url) else None)
        yield page
    assert not faults


def sign_in(page: Page, token: str) -> None:
    page.goto("/")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/")


def is_said(page: Page, text: str) -> None:
    """The page says so, where a screen reader hears it."""
    expect(page.get_by_role("status")).to_contain_text(text)


def heading(page: Page) -> str:
    return page.get_by_role("heading", level=1).inner_text()


def subject(page: Page) -> str:
    """The row that the question on this page is about."""
    return page.locator(".side-new .about dd").nth(1).inner_text()


def press(page: Page, key: str) -> None:
    """A key that leads to another page."""
    with page.expect_navigation():
        page.keyboard.press(key)


def click(page: Page, what: Locator) -> None:
    """A link or button that leads to another page."""
    with page.expect_navigation():
        what.click()


def test_a_reviewer_decides_by_keyboard_alone_and_the_next_night_obeys(
    chromium: Browser, served: Serves, asked: Asked
) -> None:
    with served(asked) as here, opened(chromium, here.url) as page:
        sign_in(page, here.access.create_token("ana", role="admin"))
        at_first = open_count(page)
        search(page, "loading bay")
        # j and k move through the list, Enter opens, Escape leads back.
        page.keyboard.press("j")
        first = focused(page)
        page.keyboard.press("j")
        assert focused(page) != first
        page.keyboard.press("k")
        assert focused(page) == first
        press(page, "Enter")
        press(page, "Escape")
        page.keyboard.press("j")
        press(page, "Enter")
        # Ten questions one after the other, and ten different ones.
        walked = [subject(page)]
        for _ in range(9):
            press(page, "j")
            walked.append(subject(page))
        assert len(set(walked)) == 10
        for _ in range(9):
            press(page, "k")
        assert subject(page) == walked[0]
        # Each of the five decisions; each leads to the next question and says what happened.
        told = ("Merged", "Kept separate", "Linked", "Flagged as a contradiction", "Deleted")
        for key, word, following in zip("12345", told, walked[1:], strict=False):
            press(page, key)
            is_said(page, word)
            assert subject(page) == following
            assert page.evaluate("document.activeElement.id") == "question"
        # One more, which is undone: its question is open again.
        press(page, "2")
        press(page, "u")
        is_said(page, "Undone")
        assert subject(page) == walked[5]
        expect(page.get_by_role("button", name="Delete")).to_be_visible()
        page.goto("/")
        assert open_count(page) == at_first - 5
        # Many at once: seen before it is done, and taken back as one.
        for link, does, n in (("Accept all", "Merge", len(HIGH)), ("Dismiss all", "Keep separate", len(LOW))):
            bulk(page, link, does, n)
            press(page, "u")
            is_said(page, f"Undone: {n} questions are open again.")
            bulk(page, link, does, n)
        at_last = open_count(page)
        assert at_last == at_first - 5 - len(HIGH) - len(LOW)
        # A contradiction is settled.
        page.goto("/contradictions")
        click(page, page.locator("[data-item]", has_text="negation"))
        press(page, "3")
        is_said(page, "Settled: both stand.")
    # What was decided is in the tables once the page has ended, if not before.
    decided = decisions_in(asked)
    names = dict(zip(walked, ("merge", "keep_separate", "link", "flag_contradiction", "delete"), strict=False))
    names |= {f"new-{name}": "merge" for name in HIGH} | {f"new-{name}": "keep_separate" for name in LOW}
    assert {name: decision for name, decision in decided.items() if decision} == names
    with duckdb.connect(str(asked.warehouse / "mart.duckdb"), read_only=True) as mart:
        merged = {row for (row,) in mart.execute("select merged_row from merged").fetchall()}
        deleted = mart.execute("select source_row_id from chunks where deleted_at is not null").fetchall()
        flagged = mart.execute("select left_row, right_row from open_contradictions").fetchall()
    assert merged == {walked[0], *(f"new-{name}" for name in HIGH)}
    assert deleted == [(walked[4],)]
    assert walked[3] in {row for pair in flagged for row in pair}
    assert "said-no" not in {row for pair in flagged for row in pair}
    with word_endpoint() as endpoint:
        another_night(asked, endpoint)
    assert {name: decision for name, decision in decisions_in(asked).items() if decision} == names
    with served(asked) as here, opened(chromium, here.url) as page:
        sign_in(page, here.access.create_token("ben"))
        assert open_count(page) == at_last


def search(page: Page, text: str) -> None:
    page.get_by_label("Text").fill(text)
    press(page, "Enter")


def open_count(page: Page) -> int:
    return int(page.locator("h1 .count").inner_text().split()[0])


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.getAttribute('href')"))


def bulk(page: Page, link: str, does: str, n: int) -> None:
    click(page, page.get_by_role("link", name=link))
    expect(page.get_by_role("listitem").filter(has=page.locator("[data-item]"))).to_have_count(n)
    click(page, page.get_by_role("button", name=f"{does} {n} questions"))
    is_said(page, f"{n} questions answered")


def decisions_in(asked: Asked) -> dict[str, str | None]:
    """By the row that each question in the mart is about, how it is answered."""
    with duckdb.connect(str(asked.warehouse / "mart.duckdb"), read_only=True) as mart:
        rows = mart.execute(
            "select k.source_row_id, q.decision from pending_reviews q join chunks k using (chunk_id)"
        ).fetchall()
    return dict(rows)


def test_the_keys_are_shown_and_can_be_turned_off(chromium: Browser, served: Serves, asked: Asked) -> None:
    with served(asked) as here, opened(chromium, here.url) as page:
        sign_in(page, here.access.create_token("keys", role="admin"))
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        expect(dialog).to_be_visible()
        page.keyboard.press("j")  # nothing moves behind it
        page.get_by_label("Single keys are on").press("Space")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.hasAttribute('data-item')") is False
        page.reload()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.hasAttribute('data-item')") is False


def test_no_key_decides_while_a_note_is_written(chromium: Browser, served: Serves, asked: Asked) -> None:
    with served(asked) as here, opened(chromium, here.url) as page:
        sign_in(page, here.access.create_token("ana", role="admin"))
        page.keyboard.press("j")
        press(page, "Enter")
        page.keyboard.press("n")
        page.keyboard.type("12345 uj?k")
        assert page.get_by_label("Note").input_value() == "12345 uj?k"
        page.keyboard.press("Escape")
        press(page, "2")
        page.goto("/history")
        expect(page.get_by_text("12345 uj?k")).to_be_visible()


def test_everything_can_be_done_without_scripts(chromium: Browser, served: Serves, asked: Asked) -> None:
    with served(asked) as here, opened(chromium, here.url, script=False) as page:
        page.goto("/")
        page.get_by_label("Your personal token").fill(here.access.create_token("ana", role="admin"))
        page.get_by_role("button", name="Sign in").click()
        page.locator("[data-item]").first.click()
        page.get_by_role("button", name="Keep separate").click()
        expect(page.get_by_role("status")).to_contain_text("Kept separate")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("status")).to_contain_text("Undone")
        page.get_by_role("link", name="Keys").click()
        assert heading(page) == "Keys"
        page.get_by_role("button", name="Sign out").click()
        assert heading(page) == "Sign in"


# ---- what axe-core says


def pages_of(page: Page) -> Iterator[tuple[str, str]]:
    """Every page there is, by name."""
    page.goto("/")
    yield "list", "/"
    for name in ("two", "kg-new", "bad-new", "rtl-new", "long-new"):
        page.goto(f"/?text={name}")
        href = page.locator("[data-item]").first.get_attribute("href")
        assert href
        yield f"item {name}", href
    yield "empty list", "/?text=nobody-says-this"
    yield "faulty filter", "/?min_confidence=abc"
    page.goto("/contradictions")
    href = page.locator("[data-item]").first.get_attribute("href")
    assert href
    yield "contradictions", "/contradictions"
    yield "contradiction", href
    yield "no contradictions", "/contradictions?status=resolved"
    yield "bulk", "/bulk/accept_high_confidence"
    yield "empty bulk", "/bulk/dismiss_low_similarity?text=nobody-says-this"
    yield "history", "/history?whose=all"
    yield "help", "/help"
    yield "not found", "/questions/nothing"


def faults_of(page: Page, name: str, *, only: str | None = None) -> list[str]:
    """What axe-core finds that is serious or critical."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    run = {"runOnly": [only]} if only else {}
    found = cast("dict[str, Any]", page.evaluate("options => axe.run(document, options)", run))
    assert any(each["id"] == "color-contrast" for each in found["passes"]), f"{name}: axe has looked at nothing"
    return [
        f"{name}: {each['id']}: {node['target']}: {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def looked_at(page: Page, name: str) -> list[str]:
    """What is wrong with this page as it stands: in light and in dark, and 390 pixels wide."""
    faults = faults_of(page, name)
    photograph(page, f"{name} light")
    page.emulate_media(color_scheme="dark")
    faults += faults_of(page, f"{name} in dark", only="color-contrast")
    photograph(page, f"{name} dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": NARROW, "height": 844})
    photograph(page, f"{name} narrow")
    if page.evaluate("document.documentElement.scrollWidth") > NARROW:
        faults.append(f"{name}: wider than the window")
    page.set_viewport_size({"width": WIDE, "height": 900})
    if page.locator("h1").count() != 1:
        faults.append(f"{name}: not one h1")
    return faults


def photograph(page: Page, name: str) -> None:
    """Keeps a picture of the page, where a folder for them is named."""
    folder = os.environ.get("PICTURES_OF_PAGES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name.replace(' ', '_')}.png", full_page=True)


def test_axe_finds_nothing_serious_on_any_page(chromium: Browser, served: Serves, asked: Asked) -> None:
    with served(asked) as here, opened(chromium, here.url) as page:
        page.goto("/")
        faults = looked_at(page, "sign in")
        page.get_by_label("Your personal token").fill("nf_mistyped")
        page.get_by_role("button", name="Sign in").click()
        faults += looked_at(page, "sign in again")
        sign_in(page, here.access.create_token("ana", role="admin"))
        # A decision, so that history and messages have something to show.
        page.locator("[data-item]").first.click()
        page.get_by_role("button", name="Link").click()
        faults += looked_at(page, "after a decision")
        for name, path in list(pages_of(page)):
            page.goto(path)
            faults += looked_at(page, name)
        page.keyboard.press("?")
        faults += looked_at(page, "keys")
        assert not faults, "\n".join(faults)
