"""A visit: one request of one person, what they may see, and how they are answered."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from flows.errors import NightfoldError
from flows.review_terms import NoSuchQuestion
from flows.reviews import Reviews
from review.access import Access, Session
from review.applying import Applier
from review.doors import MOST_BODY_BYTES

_MOST_FIELDS = 60
_LONGEST_ID = 64
Needs = Literal["nothing", "session", "admin"]


class Refused(Exception):
    """A request that is answered with an error page: its number, a title and what to do."""

    def __init__(self, status: int, title: str, remedy: str) -> None:
        super().__init__(title)
        self.status, self.title, self.remedy = status, title, remedy


def not_found() -> Refused:
    """One answer for what is not there and for what this person may not see."""
    return Refused(404, "There is nothing here", "It may have been decided or withdrawn, or the address is mistyped.")


@dataclass(frozen=True)
class Site:
    """What the pages of one warehouse are made with."""

    reviews: Reviews
    access: Access
    applier: Applier
    templates: Environment
    page_size: int
    is_secure: bool

    @property
    def cookie(self) -> str:
        # Browsers take a cookie called so only over TLS, and from this very host.
        return "__Host-nightfold" if self.is_secure else "nightfold"


@dataclass(frozen=True)
class Visit:
    """A request, who makes it, and the form they sent."""

    site: Site
    request: Request
    who: Session | None
    form: dict[str, str] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        if self.who is None:
            raise Refused(401, "You are not signed in", "Sign in, then do it again.")
        return self.who

    @property
    def scopes(self) -> frozenset[str] | None:
        return self.session.scopes

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    @property
    def address(self) -> str:
        return self.request.client.host if self.request.client else "unknown"

    def path_id(self, name: str) -> str:
        """An id in the address; one that cannot be one is not there."""
        given: str = self.request.path_params[name]
        if not given.isalnum() or not given.isascii() or len(given) > _LONGEST_ID:
            raise not_found()
        return given

    def audit(self, what: str, about: str, *, allowed: bool, detail: str = "") -> None:
        who = self.who.name if self.who else ""
        self.site.reviews.audit(who, what, about, allowed=allowed, detail=detail)

    def page(self, template: str, *, code: int = 200, **shown: Any) -> Response:
        """The page of that template."""
        context = {
            "who": self.who,
            "here": self.request.url.path,
            "said": None if self.who is None else self.site.access.take_said(self.who),
            **shown,
        }
        return HTMLResponse(self.site.templates.get_template(template).render(context), status_code=code)

    def go_to(self, address: str) -> Response:
        """Sends the browser to an address of ours as it stands."""
        return RedirectResponse(address, status_code=303)

    def go(self, path: str, *, query: dict[str, str] | None = None, fragment: str = "") -> Response:
        """Sends the browser to a page of ours."""
        return self.go_to(located(path, query, fragment))

    def say(self, text: str, *, is_warning: bool = False, undo: str = "", undo_batch: str = "") -> None:
        """What the next page says first."""
        said = {"text": text, "is_warning": is_warning, "undo": undo, "undo_batch": undo_batch}
        self.site.access.say(self.session, said)


def located(path: str, query: dict[str, str] | None = None, fragment: str = "") -> str:
    """An address on this site."""
    asked = f"?{urlencode(query)}" if query else ""
    return f"{quote(path)}{asked}{'#' if fragment else ''}{fragment}"


Handler = Callable[[Visit], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(site: Site, handler: Handler, *, needs: Needs = "session") -> Endpoint:
    """The handler behind its doors: who may, and whether a form is one of theirs. It runs in a thread of its own."""

    async def answer(request: Request) -> Response:
        try:
            form = await _form(request) if request.method == "POST" else {}
        except Refused as refused:
            return error_page(Visit(site, request, None), refused)
        return await run_in_threadpool(_answer, site, request, form, handler, needs)

    return answer


def _answer(site: Site, request: Request, form: dict[str, str], handler: Handler, needs: Needs) -> Response:
    cookie = request.cookies.get(site.cookie)
    visit = Visit(site, request, site.access.session(cookie) if cookie else None, form)
    try:
        if needs != "nothing" and visit.who is None and request.method != "POST":
            wanted = located(request.url.path, visit.query)
            return visit.go("/sign-in", query=None if wanted == "/" else {"next": wanted})
        _check(visit, needs)
        return handler(visit)
    except Refused as refused:
        return error_page(visit, refused)
    except NoSuchQuestion:
        visit.audit("open" if request.method != "POST" else "decide", request.url.path, allowed=False, detail="unknown")
        return error_page(visit, not_found())
    except NightfoldError as error:
        return error_page(visit, Refused(503, "This cannot be shown now", str(error)))


def _check(visit: Visit, needs: Needs) -> None:
    """Whether a form is one of this session, and whether who sends it may."""
    path, sends = visit.request.url.path, visit.request.method == "POST"
    if visit.who is None and needs == "nothing":
        return
    if sends and not visit.session.made(visit.form.get("form_token", "")):
        visit.audit("form", path, allowed=False, detail="forged or old form")
        raise Refused(403, "This form is not one of yours", "Its page may be from an earlier sign-in: open it anew.")
    if needs == "admin" and not visit.session.may_decide:
        visit.audit("decide" if sends else "open", path, allowed=False, detail="viewer")
        raise Refused(403, "You may look, not decide", "Deciding needs a token of the role admin.")


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "This is not a form", "Open the page and send its form.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise Refused(413, "This form is too large", f"A form has at most {MOST_BODY_BYTES:,} bytes.")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "This form cannot be read", "Open the page and send its form.") from None
    return dict(fields)


def error_page(visit: Visit, refused: Refused) -> Response:
    """The page of an error, with a way back."""
    return visit.page("error.html", code=refused.status, title=refused.title, remedy=refused.remedy)
