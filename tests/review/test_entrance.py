"""Signing in and out, and what that leaves behind."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from flows.reviews import Reviews
from review.app import review_app
from review.doors import Address
from tests.review.asked import Asked, Visitor

Visits = Callable[..., Visitor]


def test_who_is_not_signed_in_is_led_to_the_door_and_back(visitor: Visits) -> None:
    one = visitor()
    answer = one.see("/history?whose=all")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fhistory%3Fwhose%3Dall")
    door = one.see(answer.headers["location"])
    assert 'name="next" value="/history?whose=all"' in door.text
    token = one.access.create_token("ana")
    assert one.send("/sign-in", token=token, next="/history?whose=all").headers["location"] == "/history?whose=all"
    assert one.see("/history?whose=all").status_code == 200
    assert one.see("/sign-in").headers["location"] == "/"


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/a\nb", "//[x"],
)
def test_the_door_leads_nowhere_else(visitor: Visits, next_: str) -> None:
    one = visitor()
    token = one.access.create_token("ana")
    assert 'name="next" value=""' in one.client.get("/sign-in", params={"next": next_}).text
    assert one.send("/sign-in", token=token, next=next_).headers["location"] == "/"


def test_the_cookie_is_for_this_page_alone(visitor: Visits, asked: Asked) -> None:
    one = visitor()
    cookie = one.send("/sign-in", token=one.access.create_token("ana")).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "domain" not in cookie
    assert "secure" not in cookie
    address = Address.of(host="127.0.0.1", port=8765, url="https://review.example.com")
    app = review_app(asked.settings(), address=address, access=one.access)
    with TestClient(app, base_url="https://review.example.com", follow_redirects=False) as client:
        headers = {"origin": "https://review.example.com"}
        answer = client.post("/sign-in", data={"token": one.access.create_token("ben")}, headers=headers)
    assert answer.headers["set-cookie"].startswith("__Host-nightfold=")
    assert "Secure" in answer.headers["set-cookie"]
    assert "max-age" in answer.headers["strict-transport-security"]


def test_a_wrong_token_is_told_and_too_many_are_made_to_wait(visitor: Visits, asked: Asked) -> None:
    one = visitor()
    for _ in range(5):
        answer = one.send("/sign-in", token="nf_wrong")
        assert (answer.status_code, "opens nothing here" in answer.text) == (403, True)
        assert "nf_wrong" not in answer.text
    answer = one.send("/sign-in", token=one.access.create_token("ana"))
    assert (answer.status_code, "Wait 15 minutes" in answer.text) == (429, True)
    assert 0 < int(answer.headers["retry-after"]) <= 900
    lines = Reviews(asked.settings()).audit_page(scopes=None, limit=10)
    assert [(line.what, line.allowed) for line in lines] == [("sign_in", False)] * 6
    assert "nf_" not in " ".join(f"{line.about} {line.detail}" for line in lines)


def test_who_signs_out_is_out(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in()
    cookie = one.client.cookies["nightfold"]
    assert one.sends("/sign-out").headers["location"] == "/sign-in"
    one.client.cookies.set("nightfold", cookie)
    assert one.see("/").headers["location"] == "/sign-in"
    lines = Reviews(asked.settings()).audit_page(scopes=None, limit=2)
    assert [(line.who, line.what, line.allowed) for line in lines] == [
        ("ana", "sign_out", True),
        ("ana", "sign_in", True),
    ]


def test_signing_in_anew_ends_the_session_before(visitor: Visits) -> None:
    one = visitor().signs_in()
    before = one.client.cookies["nightfold"]
    token = one.access.create_token("ben")
    assert one.sends("/sign-in", token=token).status_code == 303
    assert one.access.session(before) is None
    assert "ben" in one.see("/").text


def test_a_form_without_a_session_is_refused(visitor: Visits) -> None:
    answer = visitor().send("/undo", last="1")
    assert (answer.status_code, "not signed in" in answer.text) == (401, True)


def test_a_revoked_token_is_out_at_once(visitor: Visits) -> None:
    one = visitor().signs_in()
    one.access.revoke("ana")
    assert one.see("/").status_code == 303
