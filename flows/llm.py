"""The second opinion of an LLM on pairs that the judge would merge: asked once for each two texts, and kept."""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import polars as pl
from blake3 import blake3

from flows.cache_folder import cache_folder
from flows.endpoint import Endpoint, EndpointRefused, TextsRefused, TryAgain, key_in
from flows.question import PROMPT_VERSION, InvalidReply, Question, Reply, question, reply_in, reply_of
from flows.settings import LlmSettings, Settings

OPINIONS = pl.Schema(
    {
        "pair_id": pl.String,
        "llm_relation": pl.String,
        "llm_confidence": pl.Float32,
        "llm_reason": pl.String,
        "is_reached": pl.Boolean,
    }
)
_REQUESTS_IN_FLIGHT = 4
# So many pairs in a row without a reply, and it is asked about two texts that anyone could compare.
_FAILURES_IN_A_ROW = 3
_PROBE = Question(("The office opens at 9:00.", "The office opens at nine."))
_MOST_ANSWER_BYTES = 1024 * 1024

Tell = Callable[[str], None]


class _NoReply(Exception):
    """No reply about these two texts."""


class _Down(_NoReply):
    """No reply about any two texts."""


@dataclass
class SecondOpinion:
    """Asks an LLM what two texts are to each other. Its replies are kept in a folder, by model, prompt and texts."""

    settings: LlmSettings
    endpoint: Endpoint
    cache: Path

    def __post_init__(self) -> None:
        self.endpoint.sleep = self._sleep
        self._stop = threading.Event()
        self._count = threading.Lock()
        self._failures = 0
        self._why = ""
        self._not_kept = ""

    def opinions(self, pairs: pl.DataFrame, *, tell: Tell, tell_rows: Callable[[int], None]) -> pl.DataFrame:
        """An opinion on each pair, in their order: pair_id, llm_relation, llm_confidence, llm_reason and is_reached.

        `pairs` has pair_id, left_text and right_text. Where there is no valid reply, `is_reached` is False and the
        rest null; nothing is raised for it. Two texts are asked about once, tonight and on later nights. An endpoint
        that answers nobody is not asked about the pairs that are left.
        """
        texts = pairs.select("left_text", "right_text").rows()
        keys = [None if left is None or right is None else self._key(left, right) for left, right in texts]
        rows = {key: row for row, key in reversed(list(enumerate(keys))) if key is not None}
        replies = {key: kept for key in rows if (kept := self._kept(key)) is not None}
        # In the order of their digests: what is asked first does not hang on the order of the input.
        open_keys = sorted(rows.keys() - replies.keys())
        tell_rows(len(replies))
        with contextlib.closing(self._asked([(key, *texts[rows[key]]) for key in open_keys])) as asked:
            for key, reply in asked:
                if reply is not None:
                    replies[key] = reply
                tell_rows(len(replies))
        self._tell_end([key for key in keys if key not in replies], len(keys), tell)
        return _frame(pairs["pair_id"], [None if key is None else replies.get(key) for key in keys])

    def close(self) -> None:
        """Lets go of the connections."""
        self.endpoint.close()

    # --- asking

    def _asked(self, open_pairs: list[tuple[str, str, str]]) -> Generator[tuple[str, Reply | None]]:
        if not open_pairs:
            return
        pool = ThreadPoolExecutor(_REQUESTS_IN_FLIGHT, thread_name_prefix="second-opinion")
        try:
            asked = pool.map(self._one, open_pairs)
            yield from zip([key for key, _, _ in open_pairs], asked, strict=True)
        except BaseException:
            # Whoever waits for its turn need not: nobody reads the replies.
            self._stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _one(self, pair: tuple[str, str, str]) -> Reply | None:
        key, left, right = pair
        try:
            reply = self._reply(self._question(left, right), retries=self.settings.retries)
        except _Down as down:
            self._give_up(str(down))
            return None
        except _NoReply as none:
            self._count_failure(str(none))
            return None
        with self._count:
            self._failures = 0
        self._keep(key, reply)
        return reply

    def _question(self, left: str, right: str) -> Question:
        return question(left, right, max_text_chars=self.settings.max_text_chars)

    def _reply(self, asked: Question, *, retries: int) -> Reply:
        attempt, is_second = 0, False
        while not self._stop.is_set():
            try:
                reply = reply_in(self.endpoint.ask(self._body(asked, again=is_second)))
            except EndpointRefused as refused:
                raise _Down(str(refused)) from refused
            except TextsRefused as refused:
                raise _NoReply(str(refused)) from refused
            except InvalidReply as invalid:
                if is_second:
                    raise _NoReply(str(invalid)) from invalid
                is_second = True
            except TryAgain as again:
                if again.asks_for_too_long:
                    raise _Down(str(again)) from again
                if attempt == retries:
                    raise _NoReply(str(again)) from again
                self.endpoint.wait(attempt, again)
                attempt += 1
            else:
                # Who has our key could say it.
                return reply.model_copy(update={"reason": self.endpoint.without_key(reply.reason)})
        raise _Down(self._why)

    def _body(self, asked: Question, *, again: bool) -> dict[str, object]:
        return {
            "model": self.settings.model,
            "temperature": 0,
            "response_format": {"type": "json_object"},
            "messages": asked.messages(again=again),
        }

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Down(self._why)

    def _count_failure(self, why: str) -> None:
        with self._count:
            self._why = self._why or why
            self._failures += 1
            if self._failures < _FAILURES_IN_A_ROW or self._stop.is_set():
                return
            # Texts can be written so that a model has no valid reply; that must not cost the others theirs.
            try:
                self._reply(_PROBE, retries=0)
            except _NoReply:
                self._stop.set()
            else:
                self._failures = 0

    def _give_up(self, why: str) -> None:
        with self._count:
            if not self._stop.is_set():
                self._why = why
                self._stop.set()

    def _tell_end(self, unanswered: list[str | None], pairs: int, tell: Tell) -> None:
        if unanswered:
            why = self._why or "a pair without a text"
            tell(
                f"[llm] {self.endpoint.url}: {len(unanswered):,} of {pairs:,} pairs have no second opinion ({why}); "
                "they go to review"
            )
        if self._not_kept:
            tell(f"{self.cache}: replies could not be kept ({self._not_kept}); name a folder of yours with [llm] cache")

    # --- keeping

    def _key(self, left: str, right: str) -> str:
        parts = [self.endpoint.url, self.settings.model, PROMPT_VERSION, self._question(left, right).mark]
        return blake3("\n".join(map(str, parts)).encode()).hexdigest()

    def _path(self, key: str) -> Path:
        return self.cache / key[:2] / f"{key}.json"

    def _kept(self, key: str) -> Reply | None:
        """The reply of an earlier asking; what cannot be read is asked for again."""
        try:
            return reply_of(self._path(key).read_bytes())
        except (OSError, InvalidReply):
            return None

    def _keep(self, key: str, reply: Reply) -> None:
        path, partial = self._path(key), None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=path.parent, suffix=".partial", delete=False, encoding="utf-8") as file:
                partial = Path(file.name)
                file.write(reply.model_dump_json())
            partial.replace(path)
        except OSError as error:
            self._not_kept = error.strerror or str(error)
            if partial is not None:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)


def open_second_opinion(settings: LlmSettings) -> SecondOpinion | None:
    """The LLM of the settings; None where there is none. Nothing is asked of it yet."""
    if settings.url is None:
        return None
    endpoint = Endpoint(
        url=f"{settings.url.rstrip('/')}/chat/completions",
        section="llm",
        key=key_in(settings.api_key_variable, section="llm"),
        api_key_variable=settings.api_key_variable,
        requests_per_minute=settings.requests_per_minute,
        timeout_seconds=settings.timeout_seconds,
        most_bytes=_MOST_ANSWER_BYTES,
    )
    return SecondOpinion(settings=settings, endpoint=endpoint, cache=cache_folder(settings.cache, name="llm"))


@contextlib.contextmanager
def second_opinion(settings: Settings) -> Iterator[SecondOpinion | None]:
    """The second opinion that a merge needs by these settings, for as long as the block; None where it needs none."""
    opinion = open_second_opinion(settings.llm) if settings.judge.require_confirmation else None
    try:
        yield opinion
    finally:
        if opinion is not None:
            opinion.close()


def _frame(pair_ids: pl.Series, replies: list[Reply | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "pair_id": pair_ids,
            "llm_relation": [reply and reply.relation for reply in replies],
            "llm_confidence": [reply and reply.confidence for reply in replies],
            "llm_reason": [reply and reply.reason for reply in replies],
            "is_reached": [reply is not None for reply in replies],
        },
        schema=OPINIONS,
    )
