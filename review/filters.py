"""Which questions a list shows: the filters of an address."""

import math
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from flows.review_terms import Filters

_NUMBERS = ("min_confidence", "max_confidence", "min_similarity", "max_similarity")
_WORDS = ("scope", "relation", "source", "text")
_LONGEST, _LONGEST_DAYS = 400, 5
AGES = {1: "a day", 7: "a week", 30: "a month", 90: "three months"}


@dataclass(frozen=True)
class Asked:
    """The filters of an address, the part of the address that sets them, and what of it makes no sense."""

    filters: Filters
    query: dict[str, str]
    faults: list[str]

    def without(self, key: str) -> dict[str, str]:
        return {name: value for name, value in self.query.items() if name != key}

    def with_(self, **more: str | None) -> dict[str, str]:
        """The address with more in it; what is None is left out."""
        return self.query | {name: value for name, value in more.items() if value is not None}


def asked(query: dict[str, str]) -> Asked:
    """The filters that an address, or a hidden field of a form, asks for."""
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    faults = []
    kept: dict[str, str] = {name: given[name][:_LONGEST] for name in _WORDS if name in given}
    found: dict[str, str | float | int | None] = dict(kept)
    for name in _NUMBERS:
        if name in given:
            number = _number(given[name])
            if number is None:
                faults.append(f"{name.replace('_', ' ')}: a number from 0 to 1")
            else:
                kept[name], found[name] = given[name], number
    if "older_than_days" in given:
        days = given["older_than_days"]
        if days.isascii() and days.isdecimal() and len(days) <= _LONGEST_DAYS and int(days) > 0:
            kept["older_than_days"], found["older_than_days"] = days, int(days)
        else:
            faults.append("age: whole days")
    return Asked(Filters(**{each.name: found.get(each.name) for each in fields(Filters)}), kept, faults)  # type: ignore[arg-type]


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) and 0 <= number <= 1 else None


def age(when: datetime | None, *, now: datetime | None = None) -> str:
    """How long ago, in words."""
    if when is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    for name, length in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        n = int(seconds // length)
        if n >= 1:
            return f"{n} {name}{'' if n == 1 else 's'} ago"
    return "just now"
