"""The application: which address is which page."""

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from flows.review_terms import Shown
from flows.reviews import Reviews
from flows.settings import Settings
from review import contradictions, entrance, questions, words
from review.access import Access
from review.applying import Applier
from review.doors import Address, Doors
from review.filters import AGES, age
from review.visit import Handler, Needs, Refused, Site, Visit, endpoint, error_page, located, not_found
from schemas.rows import SPEC_FIELDS
from schemas.terms import SPEC_ROW

_HERE = Path(__file__).parent
_LONGEST_VALUE = 2_000
_PAGES: tuple[tuple[str, str, Handler, Needs], ...] = (
    ("GET", "/", questions.questions, "session"),
    ("GET", "/questions/{review_id}", questions.question, "session"),
    ("POST", "/questions/{review_id}", questions.decide, "admin"),
    ("POST", "/undo", questions.undo, "admin"),
    ("GET", "/bulk/{what}", questions.bulk_preview, "admin"),
    ("POST", "/bulk/{what}", questions.bulk, "admin"),
    ("GET", "/history", questions.history, "session"),
    ("GET", "/chunks/{chunk_id}", questions.occurrences, "session"),
    ("GET", "/contradictions", contradictions.contradictions, "session"),
    ("GET", "/contradictions/{pair_id}", contradictions.contradiction, "session"),
    ("POST", "/contradictions/{pair_id}", contradictions.resolve, "admin"),
    ("GET", "/help", entrance.help_page, "session"),
    ("GET", "/sign-in", entrance.sign_in_form, "nothing"),
    ("POST", "/sign-in", entrance.sign_in, "nothing"),
    ("POST", "/sign-out", entrance.sign_out, "session"),
)


def review_app(settings: Settings, *, address: Address, access: Access | None = None) -> ASGIApp:
    """The page over the warehouse of these settings."""
    reviews = Reviews(settings)
    applier = Applier(reviews)
    site = Site(
        reviews=reviews,
        access=access or open_access(settings),
        applier=applier,
        templates=_templates(),
        page_size=settings.review.page_size,
        is_secure=address.is_secure,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        reviews.audit("", "serve", ", ".join(sorted(address.origins)), allowed=True)
        applier.start()
        try:
            yield
        finally:
            await run_in_threadpool(applier.close)
            reviews.close()

    def failed(status: int, title: str, remedy: str) -> Any:
        async def answer(request: Request, _error: Exception) -> Response:
            return await run_in_threadpool(error_page, Visit(site, request, None), Refused(status, title, remedy))

        return answer

    async def not_served(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        refused = not_found() if status == 404 else Refused(status, "This cannot be done here", "Open the first page.")
        return await run_in_threadpool(error_page, Visit(site, request, None), refused)

    app = Starlette(
        routes=[
            *(Route(path, endpoint(site, page, needs=needs), methods=[how]) for how, path, page, needs in _PAGES),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        exception_handlers={
            HTTPException: not_served,
            Exception: failed(
                500, "Something went wrong", "Nothing was decided by this. The terminal says what it was."
            ),
        },
        lifespan=lifespan,
    )

    def refused(path: str, why: str) -> None:
        reviews.audit("", "form", path, allowed=False, detail=why)

    # Outside of all, so that the page of an error carries the same headers.
    return Doors(app, address=address, refused=refused)


def give_token(
    settings: Settings, name: str, *, role: str, scopes: list[str] | None, expires_days: float | None
) -> str:
    """A new token, with its line in the audit record."""
    token = open_access(settings).create_token(name, role=role, scopes=scopes, expires_days=expires_days)
    opens = "every scope" if scopes is None else ", ".join(sorted(scopes))
    Reviews(settings).audit("", "give_token", name, allowed=True, detail=f"{role} of {opens}")
    return token


def revoke_token(settings: Settings, name: str) -> None:
    """Takes a token back, with its line in the audit record."""
    open_access(settings).revoke(name)
    Reviews(settings).audit("", "revoke_token", name, allowed=True)


def open_access(settings: Settings) -> Access:
    """The tokens and sessions of the warehouse of these settings."""
    return Access(
        Path(settings.warehouse.path).expanduser(),
        session_hours=settings.review.session_hours,
        idle_minutes=settings.review.idle_minutes,
    )


def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["capitalised"] = lambda text: text[:1].upper() + text[1:]
    named = {name: getattr(words, name) for name in vars(words) if name.isupper() and name in _SHOWN_WORDS}
    templates.globals |= {**named, "AGES": AGES, "age": _age, "located": located, "other_columns": _other_columns}
    return templates


_SHOWN_WORDS = ("SIGNS", "KINDS", "KIND_OF", "OFFERED", "NEEDS_TARGET", "STANDS", "DECIDED", "HEARD")


def _age(when: datetime | None) -> str:
    return age(when)


def _other_columns(chunk: Shown) -> list[tuple[str, str]]:
    """The columns of a row that the page does not show elsewhere."""
    is_spec = chunk.kind == SPEC_ROW
    values = [
        (name, value)
        for name, value in chunk.metadata.items()
        # The fields of a spec row stand in the table above, and its raw columns say the same once more.
        if value is not None and not (is_spec and (name in SPEC_FIELDS or name.startswith("table_column_")))
    ]
    return [(name, str(value)[:_LONGEST_VALUE]) for name, value in values]
