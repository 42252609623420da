"""Signing in and out."""

from urllib.parse import urlsplit

from starlette.responses import Response

from review.access import NotSignedIn, TooManyFailures
from review.visit import Visit

_LONGEST_TOKEN = 200
_LONGEST_NEXT = 2_000


def sign_in_form(visit: Visit) -> Response:
    """The door; who is signed in goes on."""
    if visit.who is not None:
        return visit.go("/")
    return _door(visit, next_=visit.query.get("next", ""))


def _door(visit: Visit, *, next_: str, status: int = 200, fault: str = "") -> Response:
    return visit.page("sign_in.html", code=status, fault=fault, next=_local(next_))


def sign_in(visit: Visit) -> Response:
    """Lets in who holds a token."""
    next_ = visit.form.get("next", "")
    token = visit.form.get("token", "")[:_LONGEST_TOKEN]
    access, audit = visit.site.access, visit.site.reviews.audit
    try:
        session = access.sign_in(token, address=visit.address)
    except NotSignedIn as error:
        audit("", "sign_in", visit.address, allowed=False, detail="no such token")
        return _door(visit, next_=next_, status=403, fault=str(error))
    except TooManyFailures as error:
        audit("", "sign_in", visit.address, allowed=False, detail="too many failures")
        answer = _door(visit, next_=next_, status=429, fault=str(error))
        answer.headers["Retry-After"] = str(error.wait_seconds)
        return answer
    if visit.who is not None:
        access.sign_out(visit.who)
    audit(session.name, "sign_in", visit.address, allowed=True)
    answer = visit.go_to(_local(next_) or "/")
    answer.set_cookie(
        visit.site.cookie, session.secret, path="/", httponly=True, samesite="strict", secure=visit.site.is_secure
    )
    return answer


def sign_out(visit: Visit) -> Response:
    """Ends the session."""
    visit.site.access.sign_out(visit.session)
    visit.audit("sign_out", visit.address, allowed=True)
    answer = visit.go("/sign-in")
    answer.delete_cookie(visit.site.cookie, path="/", httponly=True, samesite="strict", secure=visit.site.is_secure)
    return answer


def _local(path: str) -> str:
    """A path of this site, or nothing: a link must not send who has just signed in elsewhere."""
    # Before it is taken apart: what begins with two slashes may be no address at all.
    is_path = path.startswith("/") and not path.startswith("//") and "\\" not in path
    if not is_path or not path.isprintable() or len(path) > _LONGEST_NEXT:
        return ""
    parts = urlsplit(path)
    return path if not parts.scheme and not parts.netloc else ""


def help_page(visit: Visit) -> Response:
    """The keys."""
    return visit.page("help.html")
