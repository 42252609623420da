"""The queue over real nights: what is decided holds for every later night, and what is taken back is as before."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flows import mart
from flows.apply_decisions import apply_outstanding
from flows.console import Progress
from flows.errors import NightfoldError
from flows.explain import told
from flows.lock import writer_lock
from flows.night import night, rollback
from flows.review_journal import Journal, JournalDamaged
from flows.reviews import (
    AlreadyDecided,
    BadChoice,
    Choice,
    Filters,
    NoSuchQuestion,
    Reviews,
)
from flows.settings import Settings
from flows.story import story_of
from flows.warehouse import Run, Warehouse
from review.access import Access
from schemas.terms import COMPLEMENTARY, CONTRADICTORY, EQUIVALENT, SUPERSEDING, UNKNOWN
from tests.flows.test_judge import ask, check_mart_agrees
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, given, given_verdicts, word_endpoint
from tests.nights import run_night, said_by_night, settings_of

TABLES = (
    "chunks",
    "canonicals",
    "variants",
    "pairs",
    "links",
    "contradictions",
    "separations",
    "forwards",
    "pending_reviews",
)
ASKED = "bcdefgh"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


def say_all(nights: Nights) -> None:
    """Everything but `same` asks whether it is `a`; g and h also whether they are b; `same` is merged into it."""
    for name in ASKED:
        nights.verdicts.say("a", name, UNKNOWN, confidence=0.4, reading=0.91)
    for name in "gh":
        nights.verdicts.say("b", name, EQUIVALENT, confidence=0.95, is_confirmed=False)
    nights.verdicts.say("b", "same")


@pytest.fixture(scope="module")
def first_night(endpoint: WordEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a night that left seven questions, to be copied."""
    folder = tmp_path_factory.mktemp("first")
    with given_verdicts() as verdicts:
        nights = Nights(folder, endpoint, verdicts)
        say_all(nights)
        rows = [("acme", name, day) for day, name in enumerate(("a", *ASKED, "same"), 1)]
        nights.run(*rows, ("boreal", "a", 1), ("boreal", "b", 2), source="in")
    return folder


@dataclass
class Queue(Nights):
    """Nights with their queue."""

    @property
    def settings(self) -> Settings:
        return settings_of(self.warehouse, **self.sections())

    @property
    def reviews(self) -> Reviews:
        return Reviews(self.settings)

    def review_of(self, name: str) -> str:
        return str(self.row_of("pending_reviews", name)["review_id"])

    def decide(self, name: str, decision: str, target: str | None = None, **over: Any) -> str:
        into = None if target is None else self.row_of("chunks", target)["canonical_id"]
        choice = Choice(self.review_of(name), decision, into, over.pop("notes", None))
        reviews = self.reviews
        (done,) = reviews.decide([choice], by=over.pop("by", "ana"), scopes=None)
        reviews.apply_outstanding()
        return done.decision_id

    def undo(self, decision_id: str) -> None:
        reviews = self.reviews
        reviews.undo(decision_id, by="ben", scopes=None)
        reviews.apply_outstanding()

    @property
    def state(self) -> dict[str, pl.DataFrame]:
        return {name: self.table(name).sort(pl.first()) for name in TABLES}

    @property
    def open(self) -> set[str]:
        names = self.names
        rows = self.table("pending_reviews").filter(pl.col("reviewed_at").is_null())
        return {names[each] for each in rows["chunk_id"]}

    @property
    def listed(self) -> set[str]:
        names = self.names
        return {names[item.chunk_id] for item in self.reviews.page(Filters(), scopes=None).items}

    def embed_anew(self, model: str = "other") -> Run:
        """Every pair is found and judged again."""
        self.verdicts.asked.clear()
        over = {**self.sections(), "embedding": self.endpoint.settings(model=model)}
        return run_night(self.warehouse, pending="all", **over).run

    @property
    def published(self) -> Run:
        run = Warehouse(str(self.warehouse)).published()
        assert run is not None
        return run

    @property
    def found(self) -> set[str]:
        return {text.split()[-1] for (text,) in ask(self, "select text from canonical_chunks where scope = 'acme'")}


@pytest.fixture
def queue(tmp_path: Path, first_night: Path, endpoint: WordEndpoint) -> Iterator[Queue]:
    shutil.copytree(first_night, tmp_path / "q")
    with given_verdicts() as verdicts:
        queue = Queue(tmp_path / "q", endpoint, verdicts)
        say_all(queue)
        yield queue


DECIDED = [
    ("merge", "a", "merged_into_existing"),
    ("keep_separate", None, "stored_as_new"),
    ("link", None, "linked_to_existing"),
    ("flag_contradiction", None, "flagged_as_contradiction"),
    ("delete", None, "stored_as_new"),
]


@pytest.mark.parametrize(("decision", "target", "action"), DECIDED)
def test_a_decision_is_in_the_tables_and_the_mart_at_once_holds_through_every_night_and_can_be_undone(
    queue: Queue, decision: str, target: str | None, action: str
) -> None:
    before = queue.state
    done = queue.decide("b", decision, target, notes="as I say")
    assert queue.actions["b"] == action
    assert queue.published.note == "1 decision by ana"
    assert queue.published.decisions == 1
    check_mart_agrees(queue)
    (logged,) = ask(queue, "select reviewer, decision, notes, outcome from review_log")
    assert logged == ("ana", decision, "as I say", "applied")
    decided = queue.state
    # The next night asks none of it again, nor does one that judges every pair anew.
    queue.run(("acme", "a", 20), ("acme", "b", 21), source="in")
    assert "b" not in queue.open
    queue.embed_anew()
    assert "b" not in queue.open
    assert queue.actions["b"] == action
    group = queue.groups["b"][0]
    assert group == ("a" if decision == "merge" else "b")
    assert queue.table("separations").height == decided["separations"].height
    assert_frame_equal(queue.table("links").sort("pair_id"), decided["links"])
    assert_frame_equal(queue.table("contradictions").sort("pair_id"), decided["contradictions"])
    if decision == "delete":
        assert "b" not in queue.found
        assert queue.row_of("chunks", "b")["occurrences"] == 1
    check_mart_agrees(queue)
    queue.undo(done)
    assert "b" in queue.open
    assert "b" in queue.listed
    assert queue.actions["b"] == "queued_for_review"
    assert {row["decision"] for row in queue.table("review_decisions").rows(named=True)} == {decision, "undo"}
    for name in ("variants", "links", "contradictions", "separations", "forwards"):
        of_runs = ("run_id",)
        assert_frame_equal(queue.state[name].drop(of_runs), before[name].drop(of_runs))
    check_mart_agrees(queue)


def test_all_kinds_at_once_and_undone_at_once_leave_every_table_as_it_was(queue: Queue) -> None:
    before, reviews = queue.state, queue.reviews
    chosen = [("b", "merge"), ("c", "keep_separate"), ("d", "link"), ("e", "flag_contradiction"), ("f", "delete")]
    target = queue.id_of("a")
    choices = [Choice(queue.review_of(name), kind, target if kind == "merge" else None) for name, kind in chosen]
    done = reviews.decide(choices, by="ana", scopes=None, batch_id="f" * 32)
    assert reviews.apply_outstanding() == 5
    assert reviews.apply_outstanding() == 0
    assert queue.published.note == "5 decisions by ana"
    assert queue.open == {"g", "h", "boreal/b"}
    # b stood for `same` too: the whole group went along.
    assert queue.groups["same"] == ("a", "a")
    check_mart_agrees(queue)
    assert {each.is_applied for each in reviews.history(scopes=None)} == {True}
    assert len(reviews.undo_batch("f" * 32, by="ben", scopes=None)) == len(done)
    assert reviews.apply_outstanding() == 5
    assert queue.published.note == "5 undos by ben"
    for name, rows in before.items():
        assert_frame_equal(queue.state[name], rows)
    check_mart_agrees(queue)


def test_of_two_people_the_first_stands_and_the_second_is_told_who_when_and_what(queue: Queue) -> None:
    queue.decide("b", "merge", "a", by="ana")
    with pytest.raises(AlreadyDecided, match=r"ana answered merge into .* and that stands") as refused:
        queue.decide("b", "delete", by="ben")
    assert (refused.value.standing.reviewer, refused.value.standing.decision) == ("ana", "merge")
    # Also where both had it open, and neither is in the tables yet.
    reviews = queue.reviews
    checked = reviews.checked([Choice(queue.review_of("c"), "delete")], scopes=None)
    journal = Journal(queue.warehouse)
    journal.write(checked.new, by="ana", batch_id=None)
    with pytest.raises(AlreadyDecided, match="ana answered delete"):
        journal.write(checked.new, by="ben", batch_id=None)
    assert [entry.reviewer for entry in journal.of_question(queue.review_of("c"))] == ["ana"]


def test_what_is_decided_while_a_run_holds_the_lock_is_applied_by_it(queue: Queue) -> None:
    reviews = queue.reviews
    with writer_lock(queue.warehouse, doing="a night", wait_seconds=0, tell=print):
        reviews.decide([Choice(queue.review_of("b"), "keep_separate")], by="ana", scopes=None)
        assert reviews.apply_outstanding() is None
        assert queue.listed == {*ASKED} - {"b"} | {"boreal/b"}
        assert not reviews.history(scopes=None)[0].is_applied
    queue.run(("acme", "a", 20), source="in")
    runs = Warehouse(str(queue.warehouse)).runs()
    assert [run.decisions for run in runs[-2:]] == [1, None]
    assert reviews.history(scopes=None)[0].is_applied
    assert "b" not in queue.open


def test_what_is_decided_while_a_night_goes_on_is_applied_at_its_end(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The night merges b into a while somebody says that they are two: it is as they say."""
    judge = queue.verdicts.judge

    def decides(*args: Any, **kwargs: Any) -> pl.DataFrame:
        queue.reviews.decide([Choice(queue.review_of("b"), "keep_separate")], by="ana", scopes=None)
        return judge(*args, **kwargs)

    queue.verdicts.say("a", "b", EQUIVALENT)
    queue.verdicts.say("a", "same", EQUIVALENT)
    monkeypatch.setattr("flows.verdicts.judge_pairs", decides)
    queue.embed_anew()
    assert queue.groups["b"][0] == "b"
    runs = Warehouse(str(queue.warehouse)).runs()
    assert [run.decisions for run in runs[-2:]] == [None, 1]
    check_mart_agrees(queue)
    monkeypatch.setattr("flows.verdicts.judge_pairs", judge)
    queue.embed_anew("third")
    assert queue.groups["b"][0] == "b"


def test_a_rollback_takes_no_decision_away(queue: Queue) -> None:
    asked = queue.published
    queue.decide("b", "keep_separate")
    done = queue.decide("c", "merge", "a")
    decided = queue.state
    rollback(queue.settings, asked.run_id, progress=Progress(quiet=True))
    assert {"b", "c"} <= queue.open
    assert queue.listed & {"b", "c"} == set()
    assert queue.reviews.apply_outstanding() == 2
    for name, rows in decided.items():
        drop = ("run_id", "forwarded_at")
        assert_frame_equal(queue.state[name].drop(drop, strict=False), rows.drop(drop, strict=False))
    # An undo that a rollback took away is applied again as well.
    queue.undo(done)
    rollback(queue.settings, asked.run_id, progress=Progress(quiet=True))
    queue.run(("acme", "a", 20), source="in")
    assert "c" in queue.open
    assert "b" not in queue.open
    check_mart_agrees(queue)


def test_a_decision_on_what_a_rollback_took_away_waits_until_it_comes_again(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    with given_verdicts() as verdicts:
        queue = Queue(tmp_path, endpoint, verdicts)
        say_all(queue)
        first = queue.run(("acme", "a", 1), source="in")
        queue.run(("acme", "b", 2), source="later")
        queue.decide("b", "keep_separate")
        rollback(queue.settings, first.run_id, progress=Progress(quiet=True))
        assert queue.reviews.apply_outstanding() == 0
        assert not queue.reviews.history(scopes=None)[0].is_applied
        queue.run(("acme", "b", 2), source="later")
        assert queue.open == set()
        assert queue.table("separations").height == 1
        check_mart_agrees(queue)


def test_a_decision_that_a_night_has_overtaken_comes_to_nothing_and_the_question_is_open_again(queue: Queue) -> None:
    review = queue.review_of("b")
    with writer_lock(queue.warehouse, doing="a night", wait_seconds=0, tell=print):
        reviews = queue.reviews
        reviews.decide([Choice(queue.review_of("h"), "delete")], by="eva", scopes=None)
        reviews.decide([Choice(queue.review_of("g"), "merge", queue.id_of("h"))], by="ana", scopes=None)
    assert reviews.apply_outstanding() == 2
    assert queue.published.note == "2 decisions by eva and 1 other; 1 decision could not be applied, see review_log"
    (latest, _) = reviews.history(scopes=None)
    assert latest.outcome == f"not applied: group {queue.id_of('h')} was deleted"
    assert "g" in queue.listed
    assert reviews.question(queue.review_of("g"), scopes=None).answer is None
    queue.decide("g", "keep_separate")
    assert "g" not in queue.open
    assert review in {each.review_id for each in reviews.page(Filters(), scopes=None).items}


def test_the_text_of_a_deleted_chunk_that_comes_again_stays_deleted_and_is_no_target(queue: Queue) -> None:
    queue.decide("h", "delete")
    queue.verdicts.say("h", "n", EQUIVALENT)
    queue.verdicts.say("h", "m", UNKNOWN, confidence=0.1)
    queue.verdicts.say("h", "o", SUPERSEDING, larger="o")
    queue.run(*[("acme", name, 25) for name in "hnmo"], source="more")
    assert queue.row_of("chunks", "h")["occurrences"] == 2
    assert queue.row_of("chunks", "h")["superseded_by"] is None
    assert queue.groups["n"] == ("n", "n")
    assert queue.open & {"h", "m", "n", "o"} == set()
    assert "h" not in queue.found
    check_mart_agrees(queue)


def test_a_group_whose_first_chunk_was_deleted_goes_on_and_grows(queue: Queue) -> None:
    queue.decide("b", "delete")
    assert queue.groups["b"] == ("b", "same")
    assert {"same"} <= queue.found
    queue.verdicts.say("same", "n", EQUIVALENT)
    queue.verdicts.say("b", "n", EQUIVALENT)
    queue.run(("acme", "n", 25), source="more")
    assert queue.groups["n"] == ("b", "same")
    assert queue.groups["b"] == ("b", "same")
    check_mart_agrees(queue)


def test_a_question_is_closed_with_a_note_when_a_night_replaces_all_it_could_be_compared_with(queue: Queue) -> None:
    queue.verdicts.say("a", "new", SUPERSEDING, larger="new")
    queue.run(("acme", "new", 25), source="more")
    closed = queue.row_of("pending_reviews", "c")
    assert (closed["decision"], closed["reviewed_by"]) == ("closed", queue.published.run_id)
    assert "no candidate is left to compare" in closed["notes"]
    # g and h may still be b.
    assert queue.open == {"g", "h", "boreal/b"}
    answer = queue.reviews.question(queue.review_of("c"), scopes=None).answer
    assert answer is not None
    assert answer.decision == "closed"
    with pytest.raises(AlreadyDecided, match="closed"):
        queue.decide("c", "delete")


def test_a_member_of_the_same_group_is_not_asked_about_after_keep_separate(queue: Queue) -> None:
    queue.decide("g", "keep_separate")
    queue.verdicts.say("g", "same", UNKNOWN, confidence=0.1)
    queue.embed_anew()
    assert "g" not in queue.open


def test_contradictions_are_resolved_once_and_taken_back(queue: Queue) -> None:
    queue.verdicts.say("a", "no", CONTRADICTORY, evidence="two valves, three")
    queue.run(("acme", "no", 25), source="more")
    before, reviews = queue.state, queue.reviews
    (one,) = reviews.contradictions(scopes=None).items
    assert one.evidence == "two valves, three"
    side = "left" if one.left.chunk_id == queue.id_of("no") else "right"
    with pytest.raises(BadChoice, match="left, right or both"):
        reviews.resolve(one.pair_id, "none", by="ana", notes=None, scopes=None)  # type: ignore[arg-type]
    with pytest.raises(NoSuchQuestion):
        reviews.resolve(one.pair_id, "both", by="ana", notes=None, scopes=frozenset({"boreal"}))
    done = reviews.resolve(one.pair_id, side, by="ana", notes="counted", scopes=None)  # type: ignore[arg-type]
    assert reviews.contradictions(scopes=None).items == []
    with pytest.raises(AlreadyDecided, match="ana answered"):
        reviews.resolve(one.pair_id, "both", by="ben", notes=None, scopes=None)
    reviews.apply_outstanding()
    assert queue.row_of("chunks", "a")["superseded_by"] == queue.id_of("no")
    assert "a" not in queue.found
    assert reviews.contradictions(scopes=None, status="resolved").items[0].answer is not None
    check_mart_agrees(queue)
    queue.undo(done.decision_id)
    for name, rows in before.items():
        assert_frame_equal(queue.state[name], rows)
    assert len(queue.reviews.contradictions(scopes=None).items) == 1


def test_the_story_of_a_chunk_tells_who_decided_what(queue: Queue) -> None:
    done = queue.decide("c", "keep_separate", notes="two pumps")
    story = "\n".join(told(story_of(queue.settings, chunk=queue.id_of("c"))))
    assert "ana said on " in story
    assert "stay two, for good" in story
    assert "ana decided keep_separate on " in story
    assert "two pumps" in story
    queue.undo(done)
    queue.decide("c", "delete")
    story = "\n".join(told(story_of(queue.settings, chunk=queue.id_of("c"))))
    assert ", taken back since: two pumps" in story
    assert "deleted by a reviewer on " in story


# ---- bulk


def test_bulk_actions_say_what_they_would_do_and_are_undone_as_one(queue: Queue) -> None:
    reviews, before = queue.reviews, queue.state
    bulk = reviews.bulk_preview("accept_high_confidence", Filters(), scopes=None)
    assert {queue.names[item.chunk_id] for item in bulk.sample} == {"g", "h"}
    assert bulk.counts == {"open": 8, "chosen": 2, "left": 6}
    batch_id = reviews.bulk(bulk, by="ana", scopes=None)
    reviews.apply_outstanding()
    assert queue.groups["g"] == queue.groups["h"] == ("b", "b")
    nothing = reviews.bulk_preview("dismiss_low_similarity", Filters(), scopes=None)
    assert nothing.choices == []
    with pytest.raises(BadChoice, match="no such bulk action"):
        reviews.bulk_preview("merge_all", Filters(), scopes=None)  # type: ignore[arg-type]
    assert len(reviews.undo_batch(batch_id, by="ana", scopes=None)) == 2
    reviews.apply_outstanding()
    for name, rows in before.items():
        assert_frame_equal(queue.state[name], rows)
    assert reviews.bulk_preview("accept_high_confidence", Filters(), scopes=frozenset({"boreal"})).choices == []


# ---- what may not be


def test_a_choice_that_cannot_be_taken_is_refused_with_the_reason_and_nothing_is_written(queue: Queue) -> None:
    reviews = queue.reviews
    b, c = queue.review_of("b"), queue.review_of("c")
    bad = [
        (Choice(b, "perhaps"), "'perhaps' is no decision"),
        (Choice(b, "merge"), "needs the group"),
        (Choice(b, "merge", "0" * 32), "there is no group"),
        (Choice(b, "merge", queue.id_of("b")), "that is the group it is in"),
        (Choice(b, "merge", queue.id_of("boreal/a")), "in its scope"),
        (Choice(b, "link", queue.id_of("c")), "none of its candidates"),
    ]
    for choice, why in bad:
        with pytest.raises(BadChoice, match=why):
            reviews.decide([Choice(c, "delete"), choice], by="ana", scopes=None)
    with pytest.raises(BadChoice, match="answered twice"):
        reviews.decide([Choice(c, "delete"), Choice(c, "link")], by="ana", scopes=None)
    with pytest.raises(BadChoice, match="is no name"):
        reviews.decide([Choice(c, "delete")], by=" ", scopes=None)
    with pytest.raises(NoSuchQuestion, match="no such question"):
        reviews.decide([Choice("0" * 32, "delete")], by="ana", scopes=None)
    with pytest.raises(NoSuchQuestion, match="no such decision"):
        reviews.undo("0" * 32, by="ana", scopes=None)
    assert reviews.history(scopes=None) == []


def test_nothing_of_another_scope_is_told_apart_from_what_is_not_there(queue: Queue) -> None:
    reviews, mine = queue.reviews, frozenset({"boreal"})
    b, a = queue.review_of("b"), queue.id_of("a")
    done = queue.decide("c", "delete")
    assert {item.scope for item in reviews.page(Filters(), scopes=mine).items} == {"boreal"}
    assert reviews.counts(Filters(), scopes=mine)["by_scope"] == {"boreal": 1}
    for call in (
        lambda review: reviews.question(review, scopes=mine),
        lambda review: reviews.neighbours_in_list(review, Filters(), scopes=mine),
        lambda review: reviews.decide([Choice(review, "delete")], by="ana", scopes=mine),
    ):
        words = []
        for review in (b, "0" * 32):
            with pytest.raises(NoSuchQuestion) as error:
                call(review)
            words.append(str(error.value).replace(review, ""))
        assert words[0] == words[1]
    with pytest.raises(NoSuchQuestion, match="no such decision"):
        reviews.undo(done, by="ana", scopes=mine)
    assert reviews.occurrences(a, scopes=mine) == []
    assert len(reviews.occurrences(a, scopes=None)) == 1
    assert reviews.history(scopes=mine) == []
    assert reviews.audit_page(scopes=mine) == []


# ---- the list


def test_the_list_is_walked_by_cursors_both_ways_and_filtered(queue: Queue) -> None:
    reviews = queue.reviews
    every = [item.review_id for item in reviews.page(Filters(), scopes=None, limit=100).items]
    walked, cursor, pages = list[str](), None, []
    while True:
        page = reviews.page(Filters(), scopes=None, cursor=cursor, limit=3)
        pages.append(page)
        walked += [item.review_id for item in page.items]
        if page.after is None:
            break
        cursor = page.after
    assert walked == every
    assert (pages[0].before, len(pages)) == (None, 3)
    assert reviews.page(Filters(), scopes=None, cursor=pages[1].before, limit=3).items == pages[0].items
    assert reviews.page(Filters(), scopes=None, cursor="nonsense", limit=3).items == pages[0].items
    assert reviews.neighbours_in_list(every[1], Filters(), scopes=None) == (every[0], every[2])
    assert reviews.neighbours_in_list(every[0], Filters(), scopes=None)[0] is None

    def names(**over: Any) -> set[str]:
        return {queue.names[item.chunk_id] for item in reviews.page(Filters(**over), scopes=None).items}

    assert names(relation=EQUIVALENT) == {"g", "h"}
    assert names(scope="boreal") == {"boreal/b"}
    assert names(source="in", min_confidence=0.9) == {"g", "h"}
    assert names(max_confidence=0.5, scope="acme") == set("bcdef")
    assert names(min_similarity=0.95) == {"g", "h"}
    assert names(max_similarity=0.92, scope="acme") == set("bcdef")
    assert names(text="HOSE d") == {"d"}
    assert names(older_than_days=1) == set()
    assert names(source="nowhere") == set()
    assert names(relation=COMPLEMENTARY) == set()


def test_a_reader_that_stays_sees_the_run_after_it(queue: Queue) -> None:
    reviews = queue.reviews
    assert len(reviews.page(Filters(), scopes=None).items) == 8
    queue.decide("b", "delete")
    assert len(reviews.page(Filters(), scopes=None).items) == 7
    reviews.close()
    assert len(reviews.page(Filters(), scopes=None).items) == 7


# ---- the record


def test_both_entries_and_refused_attempts_are_in_the_audit_record_which_nobody_can_change(queue: Queue) -> None:
    done = queue.decide("b", "delete", notes="wrong")
    queue.undo(done)
    reviews = queue.reviews
    reviews.audit("eva", "decide", queue.review_of("c"), allowed=False, detail="a viewer", scope="acme")
    lines = reviews.audit_page(scopes=None)
    assert [(line.who, line.what, line.allowed) for line in lines] == [
        ("eva", "decide", False),
        ("ben", "undo", True),
        ("ana", "delete", True),
    ]
    assert [line.who for line in reviews.audit_page(scopes=None, before=lines[0].seq, limit=1)] == ["ben"]
    assert [line.who for line in reviews.audit_page(scopes=None, who="ana")] == ["ana"]
    with pytest.raises(NoSuchQuestion, match="ben has undone it already"):
        reviews.undo(done, by="eva", scopes=None)
    journal = Journal(queue.warehouse)
    for statement in ("update decisions set reviewer = 'eva'", "delete from decisions", "delete from audit"):
        with closing(sqlite3.connect(journal.path)) as opened, pytest.raises(sqlite3.IntegrityError, match="never"):
            opened.execute(statement)


def test_a_journal_that_cannot_be_read_says_so(queue: Queue) -> None:
    (queue.warehouse / "review.sqlite").write_bytes(b"this is no database, and long enough to be told from one" * 10)
    with pytest.raises(JournalDamaged, match=r"review.sqlite: cannot be read"):
        queue.reviews.page(Filters(), scopes=None)


# ---- runs


def test_runs_of_decisions_push_no_night_out_of_what_is_kept(queue: Queue, tmp_path: Path) -> None:
    first = queue.published
    keep = {"warehouse": {"keep_runs": 2}}
    rows = given(tmp_path / "again.parquet", ("acme", "a", 1))
    settings = settings_of(queue.warehouse, rows, **queue.sections(), **keep)
    second = night(settings, progress=Progress(quiet=True)).run
    for name in "bcdef":
        reviews = Reviews(settings)
        reviews.decide([Choice(queue.review_of(name), "keep_separate")], by="ana", scopes=None)
        assert reviews.apply_outstanding() == 1
    warehouse = Warehouse(str(queue.warehouse))
    assert [run.run_id for run in warehouse.runs() if run.decisions is None] == [first.run_id, second.run_id]
    kept = [warehouse.can_restore(run) for run in warehouse.runs()]
    assert kept == [True, True, False, False, True, True, True]


def test_decisions_that_cannot_be_applied_hold_no_night_up(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = queue.reviews
    reviews.decide([Choice(queue.review_of("b"), "keep_separate")], by="ana", scopes=None)

    def fails(warehouse: Warehouse) -> pl.DataFrame:
        raise NightfoldError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("flows.apply_decisions.check_written", fails)
        with pytest.raises(NightfoldError, match="decisions: the disk is full"):
            reviews.apply_outstanding()
        run = queue.run(("acme", "a", 20), source="in")
    assert run.run_id == queue.published.run_id
    assert "b" in queue.open
    assert reviews.apply_outstanding() == 1
    assert "b" not in queue.open


def test_a_warehouse_without_a_run_has_nothing_to_apply(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "w")
    assert Reviews(settings).apply_outstanding() == 0
    assert apply_outstanding(settings, Warehouse(str(tmp_path / "w")), None) == 0
    with pytest.raises(NightfoldError, match="there is no mart yet"):
        Reviews(settings).page(Filters(), scopes=None)


def test_a_file_that_has_only_the_tokens_of_the_page_is_no_journal_yet(queue: Queue) -> None:
    Access(queue.warehouse).create_token("ana")
    with closing(sqlite3.connect(queue.warehouse / "review.sqlite")) as file:
        assert not file.execute("select 1 from sqlite_master where name = 'decisions'").fetchall()
    reviews = queue.reviews
    assert reviews.apply_outstanding() == 0
    assert reviews.history(scopes=None) == []
    rows = given(queue.folder / "in.parquet", ("acme", "a", 30))
    assert "decisions" not in said_by_night(queue.warehouse, rows, **queue.sections())
    queue.decide("b", "keep_separate")
    assert "b" not in queue.open


@pytest.mark.parametrize("fault", [NightfoldError("the disk is full"), KeyError("c0ffee")], ids=["told", "ours"])
def test_what_a_stopped_decision_wrote_becomes_no_part_of_the_night(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    queue.reviews.decide([Choice(queue.review_of("b"), "keep_separate")], by="ana", scopes=None)
    commit = Warehouse.commit

    def fails(warehouse: Warehouse, run: Run) -> None:
        if run.decisions:
            raise fault
        commit(warehouse, run)

    rows = given(queue.folder / "in.parquet", ("acme", "a", 31))
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "commit", fails)
        said = said_by_night(queue.warehouse, rows, **queue.sections())
    assert "decisions of reviewers could not be applied and stay outstanding: " in said
    assert queue.table("separations").height == queue.table("review_decisions").height == 0
    assert "b" in queue.open
    assert queue.reviews.apply_outstanding() == 1
    assert "b" not in queue.open
    check_mart_agrees(queue)


def test_decisions_that_were_stopped_before_the_mart_are_in_it_when_next_asked(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews = queue.reviews
    reviews.decide([Choice(queue.review_of("b"), "keep_separate")], by="ana", scopes=None)

    def fails(*given: Any, **named: Any) -> None:
        raise mart.MartNotWritten("no room")

    with monkeypatch.context() as patch:
        patch.setattr(mart, "refresh", fails)
        with pytest.raises(mart.MartNotWritten):
            reviews.apply_outstanding()
    assert mart.shown_run(queue.warehouse / "mart.duckdb") != queue.published.run_id
    assert reviews.apply_outstanding() == 0
    check_mart_agrees(queue)
    stamp = (queue.warehouse / "mart.duckdb").stat()
    assert reviews.apply_outstanding() == 0
    assert (queue.warehouse / "mart.duckdb").stat() == stamp


def test_a_mart_that_an_older_program_made_is_told_and_brought_up_to_date(queue: Queue) -> None:
    with duckdb.connect(str(queue.warehouse / "mart.duckdb")) as older:
        for (view,) in older.execute("select view_name from duckdb_views() where not internal").fetchall():
            older.execute(f"drop view if exists {view}")
        older.execute("alter table review_decisions drop column outcome")
        older.execute("update mart_run set made_with = 'older'")
    reviews = queue.reviews
    with pytest.raises(NightfoldError, match=r"mart\.duckdb: was made by an older program .* brings it up to date"):
        reviews.page(Filters(), scopes=None)
    assert reviews.apply_outstanding() == 0
    assert len(reviews.page(Filters(), scopes=None).items) == 8


def test_the_metrics_follow_decisions_and_say_of_the_last_night_what_they_said(queue: Queue) -> None:
    path = queue.warehouse / "metrics" / "nightfold.prom"

    def lines() -> dict[str, str]:
        return dict(line.rsplit(" ", 1) for line in path.read_text().splitlines() if not line.startswith("#"))

    bad = {"path": str(queue.folder / "none.parquet"), "name": "none"}
    with pytest.raises(NightfoldError):
        run_night(queue.warehouse, bad, **queue.sections())
    before = lines()
    assert (before["nightfold_pending_reviews"], before["nightfold_run_success"]) == ("8.0", "0.0")
    queue.decide("b", "flag_contradiction")
    after = lines()
    assert (after["nightfold_pending_reviews"], after["nightfold_open_contradictions"]) == ("7.0", "1.0")
    for name in ("nightfold_run_success", "nightfold_last_run_timestamp_seconds"):
        assert after[name] == before[name]
    run_id = next(run.run_id for run in Warehouse(str(queue.warehouse)).runs() if run.is_night)
    rollback(queue.settings, run_id, progress=Progress(quiet=True))
    assert lines()["nightfold_pending_reviews"] == "8.0"
    # What it cannot follow is left, and the decision stands; without a file none is made.
    path.write_text("not a metric at all {")
    queue.decide("c", "keep_separate")
    assert path.read_text() == "not a metric at all {"
    path.unlink()
    queue.decide("d", "keep_separate")
    assert not path.exists()
    assert queue.open.isdisjoint("bcd")
