"""Whose requests are let in, and what every answer carries."""

from collections.abc import Callable

import pytest

from flows.reviews import Reviews
from review.doors import Address
from tests.review.asked import HERE, Asked, Visitor

Visits = Callable[..., Visitor]
FROM_HERE = {"origin": HERE, "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing", "/questions/x", "/static/page.css", "/help"])
def test_every_answer_lets_nothing_in_from_elsewhere(visitor: Visits, path: str) -> None:
    for one in (visitor(), visitor().signs_in()):
        headers = one.see(path).headers
        rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert rules == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
        assert "access-control-allow-origin" not in headers


def test_no_page_has_a_script_or_a_style_of_its_own(visitor: Visits) -> None:
    one = visitor().signs_in()
    for path in ("/", f"/questions/{one.questions()[0]}", "/contradictions", "/history", "/help"):
        text = one.see(path).text
        assert text.count("<script") == text.count('<script src="/static/page.js" defer>') == 1
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert "http://" not in text.replace("http://www.w3.org", "")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:80", "127.0.0.1.evil.example:8765", "", "localhost"])
def test_a_page_is_reached_under_its_own_name_alone(visitor: Visits, host: str) -> None:
    answer = visitor().client.get("/sign-in", headers={"host": host})
    assert (answer.status_code, "name" in answer.text) == (421, True)


def test_this_machine_has_several_names(visitor: Visits) -> None:
    for host in ("localhost:8765", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST:8765"):
        assert visitor().client.get("/sign-in", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": HERE},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
    ],
)
def test_a_form_of_another_site_is_refused_and_written_down(
    visitor: Visits, asked: Asked, headers: dict[str, str]
) -> None:
    one = visitor().signs_in()
    review_id, token = one.questions()[0], one.form_token
    for path in (f"/questions/{review_id}", "/undo", "/sign-out", "/sign-in"):
        assert one.send_from(headers, path, form_token=token, decision="delete").status_code == 403
    assert review_id in one.questions()
    lines = Reviews(asked.settings()).audit_page(scopes=None, limit=4)
    assert [(line.what, line.allowed, "another site" in line.detail) for line in lines] == [("form", False, True)] * 4


@pytest.mark.parametrize("forged", ["", "0" * 64, "another session's"])
def test_a_form_without_the_token_of_its_session_is_refused_and_written_down(
    visitor: Visits, asked: Asked, forged: str
) -> None:
    one, other = visitor().signs_in(), visitor().signs_in("ben")
    token = other.form_token if forged.startswith("another") else forged
    review_id = one.questions()[0]
    answer = one.send(f"/questions/{review_id}", form_token=token, decision="delete")
    assert (answer.status_code, "not one of yours" in answer.text) == (403, True)
    assert review_id in one.questions()
    last = Reviews(asked.settings()).audit_page(scopes=None, limit=1)[0]
    assert (last.who, last.what, last.allowed, last.about) == ("ana", "form", False, f"/questions/{review_id}")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE"])
def test_other_methods_do_nothing(visitor: Visits, method: str) -> None:
    assert visitor().signs_in().client.request(method, "/", headers=FROM_HERE).status_code == 405


def test_a_form_that_is_none_is_refused(visitor: Visits) -> None:
    one = visitor().signs_in()
    for body, kind, code in (
        (b"{}", "application/json", 415),
        (b"a=1", "multipart/form-data; boundary=x", 415),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"&".join([b"a=1"] * 100), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded", 413),
    ):
        answer = one.client.post("/undo", content=body, headers={**FROM_HERE, "content-type": kind})
        assert answer.status_code == code, kind


def test_a_body_that_does_not_say_its_length_is_cut_off(visitor: Visits) -> None:
    one = visitor().signs_in()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = one.client.post("/undo", content=iter([b"x" * 40_000] * 3), headers={**FROM_HERE, **kind})
    assert (answer.status_code, "too large" in answer.text) == (413, True)


def test_an_address_that_is_too_long_is_refused(visitor: Visits) -> None:
    assert visitor().see(f"/?text={'x' * 9_000}").status_code == 414


def test_behind_a_proxy_the_page_has_the_proxy_s_name_and_its_cookie_stays_on_tls() -> None:
    address = Address.of(host="127.0.0.1", port=8765, url="https://Review.example.com/")
    assert (address.hosts, address.is_secure) == (frozenset({"review.example.com"}), True)
    assert not Address.of(host="127.0.0.1", port=8765, url=None).is_secure
