"""What the pages show and do, for who may; and the wall between scopes."""

import base64
import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from flows.review_terms import Choice, Filters
from flows.reviews import Reviews
from tests.review.asked import ACME, BOREAL, HERE, HIGH, HOSTILE, LOW, OF_EACH, Asked, Visitor

Visits = Callable[..., Visitor]
ALL = OF_EACH + len(HIGH) + len(LOW) + 6  # two, kg, bad, secret, rtl, long
PATHS = "/questions/{}", "/chunks/{}", "/contradictions/{}"


def text_of(one: Visitor, path: str) -> str:
    answer = one.see(path)
    assert answer.status_code == 200, path
    return answer.text


def open_count(one: Visitor, query: str = "") -> int:
    found = re.search(r'<span class="count">([\d,]+)<span class="unseen"> open', text_of(one, f"/{query}"))
    assert found
    return int(found[1])


# ---- the list


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("", ALL),
        (f"?scope={BOREAL}", 1),
        ("?relation=equivalent", len(HIGH)),
        ("?min_confidence=0.9", len(HIGH)),
        ("?max_similarity=0.85&min_similarity=0.1", len(LOW)),
        ("?source=pumps", 1),
        ("?text=loading+bay", OF_EACH + 1),
        ("?older_than_days=30", 0),
        ("?relation=equivalent&scope=boreal", 0),
        ("?min_confidence=0,9", len(HIGH)),
    ],
)
def test_filters_and_counts(visitor: Visits, query: str, n: int) -> None:
    one = visitor().signs_in()
    assert (open_count(one, query), len(one.questions(query))) == (n, n)


@pytest.mark.parametrize(
    "query",
    [
        "?min_confidence=abc",
        "?max_similarity=7",
        "?older_than_days=-1",
        "?min_similarity=nan",
        "?older_than_days=000001000000000000",
        f"?older_than_days=000001{'0' * 5000}",
    ],
)
def test_a_filter_that_makes_no_sense_is_told_and_left_out(visitor: Visits, query: str) -> None:
    one = visitor().signs_in()
    assert open_count(one, query) == ALL
    assert 'class="fault"' in text_of(one, f"/{query}")


def test_a_filter_stays_as_it_was_chosen(visitor: Visits) -> None:
    one = visitor().signs_in()
    text = text_of(one, "/?scope=acme&relation=superseding&text=%22%3E%3Cb%3E")
    assert '<option value="acme" selected>' in text
    assert '<option value="superseding" selected>' in text
    assert 'value="&#34;&gt;&lt;b&gt;"' in text


def test_pages_of_the_list_hold_every_question_once(visitor: Visits) -> None:
    one = visitor(review={"page_size": 7}).signs_in()
    seen, path = [], "/"
    while path:
        text = text_of(one, path)
        seen += re.findall(r'href="/questions/([0-9a-f]{32})', text)
        following = re.search(r'rel="next" href="([^"]+)"', text)
        path = html.unescape(following[1]) if following else ""
    assert len(seen) == len(set(seen)) == ALL
    back = re.search(r'rel="prev" href="([^"]+)"', text)
    assert back
    assert set(re.findall(r"/questions/([0-9a-f]{32})", text_of(one, html.unescape(back[1])))) < set(seen)


def cursor(said: str) -> str:
    return base64.urlsafe_b64encode(said.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%00",
        "WyJhZnRlciJd",
        "a" * 3000,
        cursor('["after", 1e400, "0"]'),
        cursor('["after", 0, "\\ud800"]'),
        cursor("[" * 370),
    ],
)
def test_a_cursor_that_is_none_shows_the_first_page(visitor: Visits, cursor: str) -> None:
    one = visitor().signs_in()
    assert one.questions(f"?cursor={cursor}") == one.questions()
    assert one.see(f"/contradictions?cursor={cursor}").status_code == 200


def test_a_cursor_beyond_every_question_shows_none(visitor: Visits) -> None:
    one = visitor().signs_in()
    beyond = cursor(json.dumps(["after", 10**30, "0"]))
    assert one.questions(f"?cursor={beyond}") == []


# ---- one question


def test_the_candidate_that_is_asked_for_is_shown(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in()
    review_id = one.question_of("two")
    question = Reviews(asked.settings()).question(review_id, scopes=None)
    best, second = question.candidates
    assert "<del>old1</del>" in text_of(one, f"/questions/{review_id}")
    text = text_of(one, f"/questions/{review_id}?with={second.chunk.chunk_id}")
    assert "<del>old2</del>" in text
    assert f'name="target" value="{second.chunk.canonical_id}"' in text
    assert f'name="target" value="{best.chunk.canonical_id}"' in text_of(one, f"/questions/{review_id}?with=nothing")


def test_spec_rows_are_a_table_of_their_fields(visitor: Visits) -> None:
    one = visitor().signs_in()
    text = text_of(one, f"/questions/{one.question_of('kg-new')}")
    rows = re.findall(r'<tr(?: class="(differs)")?><th scope="row">([\w-]+)', text)
    assert rows == [
        ("", "Category"),
        ("", "Sub-category"),
        ("", "Specification"),
        ("differs", "Value"),
        ("differs", "Additional"),
    ]
    assert "<ins>12.5</ins>" in text
    assert "<del>12</del>" in text
    assert "2 differ" in text
    assert "table_column" not in text


def test_differences_are_heard_as_well_as_seen(visitor: Visits) -> None:
    one = visitor().signs_in()
    text = text_of(one, f"/questions/{one.question_of('new3')}")
    assert re.search(r'unseen"> only in the new chunk: </span><ins>new3</ins><span class="unseen"> \(end\)', text)
    assert re.search(r'unseen"> only in the candidate: </span><del>old3</del>', text)
    assert '<span class="unseen">Line 1: </span>' in text


def test_every_decision_is_described_by_the_chunk(visitor: Visits) -> None:
    one = visitor().signs_in()
    text = text_of(one, f"/questions/{one.question_of('new3')}")
    for decision in ("merge", "keep_separate", "link", "flag_contradiction", "delete"):
        assert f'aria-describedby="what-{decision} in-question"' in text
        assert f'id="what-{decision}"' in text
    described = re.search(r'id="in-question">([^<]+)<', text)
    assert described
    assert "The loading bay of hall 3" in described[1]


def test_a_long_text_is_folded_where_nothing_differs(visitor: Visits) -> None:
    one = visitor().signs_in()
    text = text_of(one, f"/questions/{one.question_of('long-new')}")
    opened = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert "Paragraph 0 " in opened
    assert "Paragraph 30 " not in opened
    assert "Paragraph 30 " in text
    assert "<ins>seven</ins>" in opened
    assert "characters, the same in both" in text


def test_hostile_text_stays_text_wherever_it_stands(visitor: Visits) -> None:
    one = visitor().signs_in()
    review_id = one.question_of("bad-new")
    pair = re.findall(r"/contradictions/([0-9a-f]{32})", text_of(one, "/contradictions"))
    one.sends(f"/questions/{review_id}", decision="keep_separate", note=HOSTILE)
    found = ""
    for path in (
        "/",
        "/?text=bad-new",
        f"/questions/{review_id}",
        "/history",
        "/contradictions",
        *map(PATHS[2].format, pair),
    ):
        text = text_of(one, path)
        found += text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "onerror" not in re.sub(r"&lt;img src=x onerror=alert\(1\)&gt;|<[a-z]+ [^<>]*value=[^<>]*>", "", text)
    assert found.count("&lt;script&gt;") > 20


def test_the_rows_of_a_chunk_can_be_seen(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in()
    chunk = Reviews(asked.settings()).question(one.question_of("new3"), scopes=None).chunk
    assert "<bdi>new3</bdi>" in text_of(one, f"/chunks/{chunk.chunk_id}")


# ---- deciding


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ("merge", "Merged."),
        ("keep_separate", "Kept separate."),
        ("link", "Linked."),
        ("flag_contradiction", "Flagged as a contradiction."),
        ("delete", "Deleted."),
    ],
)
def test_a_decision_is_written_down_with_its_name_and_leads_on(
    visitor: Visits, asked: Asked, decision: str, told: str
) -> None:
    one = visitor().signs_in()
    review_id = one.question_of("new4")
    reviews = Reviews(asked.settings())
    target = reviews.question(review_id, scopes=None).candidates[0].chunk.canonical_id
    following = reviews.neighbours_in_list(review_id, Filters(), scopes=None)[1]
    answer = one.sends(f"/questions/{review_id}", decision=decision, target=target, note=" as  said\x00 ")
    assert answer.headers["location"] == f"/questions/{following}#question"
    assert f"{told} Now the next question." in text_of(one, f"/questions/{following}")
    assert told not in text_of(one, f"/questions/{following}")
    standing = reviews.question(review_id, scopes=None).answer
    assert standing
    assert (standing.decision, standing.reviewer, standing.notes) == (decision, "ana", "as  said")
    assert review_id not in one.questions()
    assert "by <bdi>ana</bdi>" in text_of(one, f"/questions/{review_id}")


def test_the_last_question_of_a_list_leads_back_to_it(visitor: Visits) -> None:
    one = visitor().signs_in()
    answer = one.sends(f"/questions/{one.question_of('kg-new')}?source=pumps", decision="keep_separate")
    assert answer.headers["location"] == "/?source=pumps"
    text = text_of(one, "/?source=pumps")
    assert "That was the last question of this list." in text
    assert "No open question fits these filters" in text


def test_of_two_who_decide_the_second_is_told(visitor: Visits) -> None:
    one, other = visitor().signs_in("ana"), visitor().signs_in("ben")
    review_id = one.question_of("new4")
    one.sends(f"/questions/{review_id}", decision="keep_separate")
    answer = other.sends(f"/questions/{review_id}", decision="delete", note="mine")
    assert answer.status_code == 409
    assert "ana was first" in answer.text
    assert "kept separate. That stands; yours was not recorded." in answer.text


@pytest.mark.parametrize(
    "fields", [{"decision": "explode"}, {}, {"decision": "merge", "target": "0" * 32}, {"decision": "merge"}]
)
def test_a_choice_that_cannot_be_taken_is_told_and_the_note_kept(visitor: Visits, fields: dict[str, str]) -> None:
    one = visitor().signs_in()
    review_id = one.question_of("new4")
    answer = one.sends(f"/questions/{review_id}", note="my long note", **fields)
    assert (answer.status_code, "Not recorded" in answer.text, "my long note" in answer.text) == (400, True, True)
    assert review_id in one.questions()


def test_a_note_that_is_too_long_is_refused(visitor: Visits) -> None:
    one = visitor().signs_in()
    answer = one.sends(f"/questions/{one.question_of('new4')}", decision="delete", note="x" * 2_001)
    assert (answer.status_code, "at most 2,000 characters" in answer.text) == (400, True)


def test_my_last_decision_is_undone_and_nobody_else_s(visitor: Visits) -> None:
    one, other = visitor().signs_in("ana"), visitor().signs_in("ben")
    mine, theirs = one.question_of("new4"), one.question_of("new5")
    one.sends(f"/questions/{mine}", decision="delete")
    other.sends(f"/questions/{theirs}", decision="delete")
    answer = one.sends("/undo", last="1")
    assert answer.headers["location"] == f"/questions/{mine}#question"
    assert {mine, theirs} & set(one.questions()) == {mine}
    assert one.sends("/undo", last="1").headers["location"] == "/"
    assert "nothing of yours to undo" in text_of(one, "/")
    history = text_of(one, "/history")
    assert "Deleted</a>" in history
    assert "Took a decision back" in history
    assert theirs not in history
    assert theirs in text_of(one, "/history?whose=all")


def test_what_was_undone_cannot_be_undone_again(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in()
    review_id = one.question_of("new4")
    reviews = Reviews(asked.settings())
    done = reviews.decide([Choice(review_id, "delete")], by="ana", scopes=None)[0]
    assert one.sends("/undo", decision_id=done.decision_id).status_code == 303
    assert one.sends("/undo", decision_id=done.decision_id).headers["location"] == "/history"
    assert "Not undone" in text_of(one, "/history")
    for fields in ({"decision_id": "0" * 32}, {"batch_id": "0" * 32}, {}):
        assert one.sends("/undo", **fields).headers["location"] == "/history"
        assert "Not undone" in text_of(one, "/history")


# ---- many at once


@pytest.mark.parametrize(
    ("what", "n", "query"),
    [
        ("accept_high_confidence", len(HIGH), ""),
        ("dismiss_low_similarity", len(LOW), ""),
        ("accept_high_confidence", 1, "?text=new-h1"),
    ],
)
def test_many_at_once_are_seen_first_and_undone_as_one(visitor: Visits, what: str, n: int, query: str) -> None:
    one = visitor().signs_in()
    preview = text_of(one, f"/bulk/{what}{query}")
    assert open_count(one) == ALL
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', preview)
    assert seen
    assert one.sends(f"/bulk/{what}{query}", seen=seen[1]).status_code == 303
    text = text_of(one, "/")
    assert f"{n} question{'' if n == 1 else 's'} answered" in text
    assert open_count(one) == ALL - n
    batch = re.search(r'name="batch_id" value="([0-9a-f]+)"', text)
    assert batch
    assert one.sends("/undo", batch_id=batch[1]).status_code == 303
    assert open_count(one) == ALL


def test_one_that_cannot_be_merged_is_named_and_nothing_of_the_bulk_is_done(
    visitor: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = visitor().signs_in()
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', text_of(one, "/bulk/accept_high_confidence"))
    assert seen
    monkeypatch.setattr("flows.reviews.why_not", lambda desk, entry: "it is <apart>")
    answer = one.sends("/bulk/accept_high_confidence", seen=seen[1])
    assert answer.status_code == 409
    assert re.search(r"Nothing was done. .*: [0-9a-f]{32}: cannot be merged: it is &lt;apart&gt;", answer.text)
    assert open_count(one) == ALL


def test_nothing_else_is_done_than_what_was_seen(visitor: Visits) -> None:
    one = visitor().signs_in()
    seen = re.search(r'name="seen" value="([0-9a-f]+)"', text_of(one, "/bulk/accept_high_confidence"))
    assert seen
    one.sends(f"/questions/{one.question_of('new-h1')}", decision="keep_separate")
    answer = one.sends("/bulk/accept_high_confidence", seen=seen[1])
    assert (answer.status_code, "has changed since you looked" in answer.text) == (409, True)
    assert open_count(one) == ALL - 1


# ---- contradictions


@pytest.mark.parametrize(
    ("stands", "told"),
    [("left", "the first stands"), ("right", "the second stands"), ("both", "both stand")],
)
def test_a_contradiction_is_settled_once(visitor: Visits, stands: str, told: str) -> None:
    one, other = visitor().signs_in("ana"), visitor().signs_in("ben")
    pair = re.findall(r"/contradictions/([0-9a-f]{32})", text_of(one, "/contradictions"))
    assert len(pair) == 2
    answer = one.sends(f"/contradictions/{pair[0]}", stands=stands, note="so it is")
    assert answer.headers["location"] == "/contradictions"
    text = text_of(one, "/contradictions")
    assert f"Settled: {told}" in text
    assert pair[0] not in text
    second = other.sends(f"/contradictions/{pair[0]}", stands=stands)
    assert (second.status_code, "ana was first" in second.text) == (409, True)
    assert one.sends("/undo", last="1").status_code == 303
    assert pair[0] in text_of(one, "/contradictions")


def test_no_other_way_to_settle_is_taken(visitor: Visits) -> None:
    one = visitor().signs_in()
    pair = re.findall(r"/contradictions/([0-9a-f]{32})", text_of(one, "/contradictions"))[0]
    assert one.sends(f"/contradictions/{pair}", stands="neither").status_code == 400


# ---- who may


def test_a_viewer_looks_and_decides_nothing(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in("vic", role="viewer")
    review_id = one.questions()[0]
    pair = re.findall(r"/contradictions/([0-9a-f]{32})", text_of(one, "/contradictions"))[0]
    text = text_of(one, f"/questions/{review_id}")
    assert "data-decide" not in text
    assert "You may look, not decide" in text
    for path, fields in (
        (f"/questions/{review_id}", {"decision": "delete"}),
        (f"/contradictions/{pair}", {"stands": "both"}),
        ("/undo", {"last": "1"}),
        ("/bulk/accept_high_confidence", {"seen": ""}),
    ):
        answer = one.sends(path, **fields)
        assert (answer.status_code, "You may look, not decide" in answer.text) == (403, True), path
    assert one.see("/bulk/accept_high_confidence").status_code == 403
    assert open_count(one) == ALL
    lines = Reviews(asked.settings()).audit_page(scopes=None, limit=4)
    assert [(line.who, line.allowed, line.detail) for line in lines] == [("vic", False, "viewer")] * 4


def test_a_token_of_one_scope_sees_nothing_of_another(visitor: Visits, asked: Asked) -> None:
    everyone, one = visitor().signs_in("all"), visitor().signs_in("ana", scopes=[ACME])
    reviews = Reviews(asked.settings())
    secret = everyone.question_of("secret-new")
    question = reviews.question(secret, scopes=None)
    pairs = re.findall(r"/contradictions/([0-9a-f]{32})", text_of(everyone, "/contradictions"))
    behind = next(pair for pair in pairs if reviews.contradiction(pair, scopes=None).scope == BOREAL)
    theirs = reviews.decide([Choice(secret, "keep_separate")], by="ben", scopes=None)[0]
    reviews.undo(theirs.decision_id, by="ben", scopes=None)
    theirs = reviews.decide([Choice(secret, "link", question.candidates[0].chunk.canonical_id)], by="ben", scopes=None)[
        0
    ]
    # Not listed, not counted, not offered as a filter.
    for path in ("/", "/?text=vault", f"/?scope={BOREAL}", "/contradictions", "/history?whose=all"):
        text = text_of(one, path).replace(f'<option value="{BOREAL}" selected>{BOREAL}</option>', "")
        assert BOREAL not in text.replace(f"scope={BOREAL}", ""), path
        assert "vault" not in text.replace("text=vault", "").replace('value="vault"', ""), path
        assert secret not in text
        assert behind not in text
    assert open_count(one) == ALL - 1
    # Ids tried directly: the same answer, to the letter, as for what does not exist.
    for path, hidden in (
        ("/questions/{}", secret),
        ("/chunks/{}", question.chunk.chunk_id),
        ("/contradictions/{}", behind),
    ):
        there, nowhere = one.see(path.format(hidden)), one.see(path.format("0" * 32))
        assert (there.status_code, there.text) == (404, nowhere.text), path
        assert there.headers == nowhere.headers
    for path, hidden, fields in (
        ("/questions/{}", secret, {"decision": "delete"}),
        ("/contradictions/{}", behind, {"stands": "both"}),
    ):
        there, nowhere = (one.sends(path.format(each), **fields) for each in (hidden, "0" * 32))
        assert (there.status_code, there.text) == (404, nowhere.text), path
    told = []
    for decision_id in (theirs.decision_id, "0" * 32):
        one.sends("/undo", decision_id=decision_id)
        told.append(text_of(one, "/history"))
    assert told[0] == told[1]
    standing = reviews.question(secret, scopes=None).answer
    assert standing
    assert standing.decision == "link"


def test_nobody_merges_into_a_group_of_another_scope(visitor: Visits, asked: Asked) -> None:
    one = visitor().signs_in("ana", scopes=[ACME])
    reviews = Reviews(asked.settings())
    secret = reviews.question(visitor().signs_in("all").question_of("secret-new"), scopes=None)
    review_id = one.question_of("new4")
    answers = [
        one.sends(f"/questions/{review_id}", decision="merge", target=target)
        for target in (secret.candidates[0].chunk.canonical_id, "0" * 32)
    ]
    assert [answer.status_code for answer in answers] == [400, 400]


@pytest.mark.parametrize("name", ["x", "..%2f..%2fetc", "%00", "0" * 32, "0" * 400, "'; drop table", "%F0%9F%92%A9"])
def test_ids_that_are_none_lead_to_a_page_with_a_way_back(visitor: Visits, name: str) -> None:
    one = visitor().signs_in()
    for path in (*PATHS, "/bulk/{}", "/{}"):
        answer = one.see(path.format(name))
        assert answer.status_code == 404, path
        assert '<a class="button" href="/">' in answer.text


def test_a_fault_of_ours_is_a_page_with_a_way_back_and_decides_nothing(
    visitor: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = visitor().signs_in()

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the text of a row")

    monkeypatch.setattr(Reviews, "page", fails)
    one.client = type(one.client)(one.app, base_url=HERE, raise_server_exceptions=False, cookies=one.client.cookies)
    answer = one.see("/")
    assert (answer.status_code, "Something went wrong" in answer.text) == (500, True)
    assert "the text of a row" not in answer.text
    assert "content-security-policy" in answer.headers
