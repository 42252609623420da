"""Settings: `nightfold.toml`, then `NIGHTFOLD_...` in the environment over it, then the command line over both."""

import difflib
import os
import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from flows.errors import NightfoldError
from schemas.rows import SCOPE_SEPARATOR, SPEC_FIELDS
from schemas.terms import MEMORY, TEXT
from transforms.mapping import ColumnMap

DEFAULT_FILE = Path("nightfold.toml")
_PREFIX = "NIGHTFOLD_"


def _name(name: str) -> str:
    """A name goes into derived ids and into SQL results: something to see, and no control characters."""
    if not name.strip() or len(name) > 200 or any(c < " " or c in ("\x7f", SCOPE_SEPARATOR) for c in name):
        raise ValueError(
            "a name has 1 to 200 characters, not all blank, and no line breaks or control characters, "
            f"nor {SCOPE_SEPARATOR}, which joins the columns of a scope"
        )
    return name


def _folder(path: str) -> str:
    # An empty path would be the current folder, with all that lies in it.
    if not path.strip():
        raise ValueError("names no folder")
    return os.path.expanduser(path)  # noqa: PTH111  (a path, or a URI that Path would mangle)


def _delimiter(text: str) -> str:
    if len(text) != 1 or text in '"\r\n':
        raise ValueError("one character, and neither a quote nor a line break")
    return text


def _number(value: object) -> object:
    # pydantic takes true for 1.
    if isinstance(value, bool):
        raise ValueError("a number, not true or false")
    return value


def _check_url(url: str) -> None:
    if not re.match(r"https?://[^/\s]", url):
        raise ValueError(f"url: begins with http:// or https:// and a host (got {_cut(repr(url))})")
    if "@" in url.split("/")[2]:
        raise ValueError("url: holds a name or password; name the key's variable in api_key_variable instead")


Name = Annotated[str, AfterValidator(_name)]
Folder = Annotated[str, AfterValidator(_folder)]
Count = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Kind = Literal["text", "file", "spec_row", "memory"]
Guard = Literal["max_reject_share", "max_removed_share", "max_group_chunks", "max_merge_jump"]
Shape = Literal["knowledge_chunks", "documents", "memories"]
Format = Literal["auto", "parquet", "csv", "jsonl", "arrow", "duckdb", "documents"]


class SettingsRefused(NightfoldError):
    """A settings file or variable that does not hold; the message names each key."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputSettings(_Section):
    """One input: where it is, what kind of rows it has, and which column is what."""

    path: str | list[str]
    name: Name | None = None
    kind: Kind = "text"
    format: Format = "auto"
    table: str | None = None
    scope: Name | None = None
    scope_by: Annotated[list[str], Field(min_length=1)] | None = None
    corpus: Name | None = None
    corpus_id_column: str | None = None
    text_column: str | None = None
    id_column: str | None = None
    doc_id_column: str | None = None
    parsed_spec_id_column: str | None = None
    force_column: str | None = None
    seen_at_column: str | None = None
    metadata_columns: list[str] | None = None
    spec_columns: dict[str, str | list[str]] = Field(default_factory=dict)
    chunk: bool | None = None
    delimiter: Annotated[str, AfterValidator(_delimiter)] | None = None
    encoding: Literal["utf-8", "latin-1", "cp1252", "utf-16"] = "utf-8"

    @model_validator(mode="after")
    def _fits_together(self) -> "InputSettings":
        unknown = sorted(set(self.spec_columns) - set(SPEC_FIELDS))
        if unknown:
            raise ValueError(f"spec_columns: unknown field {unknown[0]!r}; the five are {', '.join(SPEC_FIELDS)}")
        if self.spec_columns and self.kind != "spec_row":
            raise ValueError('spec_columns goes with kind = "spec_row"')
        if self.scope is not None and self.scope_by is not None:
            raise ValueError("give scope or scope_by, not both")
        if self.corpus is not None and self.corpus_id_column is not None:
            raise ValueError("give corpus or corpus_id_column, not both")
        if self.is_of_corpora and (self.scope or self.scope_by):
            raise ValueError("give a corpus or a scope, not both: the corpus of a row determines its scope")
        if self.chunk and self.kind not in (TEXT, MEMORY):
            raise ValueError(f'chunk = true goes with kind = "{TEXT}" or "{MEMORY}"')
        # An empty path would be the current folder, with all that lies in it.
        if not self.paths or not all(path.strip() for path in self.paths):
            raise ValueError("path: names no file")
        return self

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else self.path

    @property
    def is_of_corpora(self) -> bool:
        """Whether it says which corpus its rows are in."""
        return self.corpus is not None or self.corpus_id_column is not None

    def column_map(self, *, source: str, scope_by: list[str], has_corpora: bool = False) -> ColumnMap:
        """This input's columns, as the mapping takes them. Where there are corpora, a column `corpus_id` names one."""
        return ColumnMap(
            kind=self.kind,
            source=source,
            scope=self.scope,
            scope_by=tuple(self.scope_by if self.scope_by is not None else scope_by),
            scope_is_usual=self.scope is None and self.scope_by is None,
            text=self.text_column,
            row_id=self.id_column,
            doc_id=self.doc_id_column,
            parsed_spec_id=self.parsed_spec_id_column,
            force=self.force_column,
            seen_at=self.seen_at_column,
            corpus=self.corpus,
            corpus_id=self.corpus_id_column,
            has_corpora=has_corpora and self.scope is None and self.scope_by is None,
            metadata=None if self.metadata_columns is None else tuple(self.metadata_columns),
            spec={k: (v,) if isinstance(v, str) else tuple(v) for k, v in self.spec_columns.items()},
        )


class WarehouseSettings(_Section):
    """Where the tables are kept, and for how long."""

    path: Folder = "data/warehouse"
    keep_runs: Count = Field(default=30, ge=1)
    lock_wait_seconds: Number = Field(default=60, ge=0)
    staging: Folder | None = None


class ScopeSettings(_Section):
    """What makes the scope of a row."""

    by: list[str] = Field(default=["workspace_id"], min_length=1)
    default: Name = "default"
    required: bool = False


class OneScopeSettings(_Section):
    """Settings of one scope by name."""

    dedup: bool = True


class CorporaSettings(_Section):
    """Where the tables are that say which corpora there are, and who is shown them."""

    corpora: str | None = None
    agents: str | None = None
    assignments: str | None = None
    documents: str | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "CorporaSettings":
        for name, path in self.paths.items():
            if not path.strip():
                raise ValueError(f"{name}: names no file")
        if self.paths and self.corpora is None:
            raise ValueError(f"{next(iter(self.paths))} goes with corpora, the table of them")
        if self.assignments is not None and self.agents is None:
            raise ValueError("assignments goes with agents, the table of them")
        return self

    @property
    def paths(self) -> dict[str, str]:
        """The files that are named, by key."""
        return {name: path for name, path in self.model_dump().items() if path is not None}


class LoadSettings(_Section):
    """How sources are read."""

    on_unreadable: Literal["fail", "skip"] = "fail"
    batch_rows: Count = Field(default=131_072, ge=1)
    max_text_bytes: Count = Field(default=16 * 1024 * 1024, ge=1)
    known_files: bool = True


class ChunkingSettings(_Section):
    """The sliding window over documents."""

    tokens: Count = Field(default=800, ge=1)
    overlap: Count = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _overlap_is_below_tokens(self) -> "ChunkingSettings":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be below tokens {self.tokens}")
        return self


class EmbeddingSettings(_Section):
    """Who makes the vectors of chunks, and how."""

    encoder: Literal["static", "transformer", "http", "none"] = "static"
    model: Name = "all-MiniLM-L6-v2"
    dimensions: Count | None = Field(default=None, ge=1, le=65_536)
    cache: Folder | None = None
    allow_hub: bool = False
    batch_size: Count = Field(default=64, ge=1, le=100)
    url: str | None = None
    api_key_variable: Name | None = None
    requests_per_minute: Count = Field(default=600, ge=1)
    timeout_seconds: Number = Field(default=60, gt=0)
    retries: Count = Field(default=5, ge=0, le=20)

    @model_validator(mode="after")
    def _fits_together(self) -> "EmbeddingSettings":
        if self.encoder == "http":
            if self.url is None or self.dimensions is None:
                raise ValueError('encoder = "http" needs url and dimensions (the length of the vectors it answers)')
            _check_url(self.url)
        elif self.url is not None or self.api_key_variable is not None:
            raise ValueError('url and api_key_variable go with encoder = "http"')
        return self


class NeighbourSettings(_Section):
    """Which chunks of a scope are near enough that a judge must look."""

    threshold: Number = Field(default=0.85, gt=0, le=0.999)
    max_candidates: Count = Field(default=5, ge=1, le=100)
    exact_up_to_rows: Count = Field(default=100_000, ge=1)
    recall_sample: Count = Field(default=500, ge=1)
    recall_aim: Number = Field(default=0.998, gt=0, le=1)
    recall_min: Number = Field(default=0.98, ge=0, le=1)
    threads: Count | None = Field(default=None, ge=1)


class JudgeSettings(_Section):
    """What two near chunks are to each other, and what becomes of them."""

    enabled: bool = True
    reader: Name | None = "all-MiniLM-L6-v2"
    merge_similarity: Number = Field(default=0.9, ge=0, le=1)
    merge_confidence: Number = Field(default=0.9, ge=0, le=1)
    review_confidence: Number = Field(default=0.7, ge=0, le=1)
    require_confirmation: bool = True
    subset: Literal["merge", "link"] = "link"
    id_fields: list[str] = Field(default=["id", "record id", "row id", "uuid"])
    priority_supersedes: bool = False
    flag_contradictions: bool = True
    queue_unknown: bool = True
    stands: Literal["first_seen", "newest", "longest", "source_priority"] = "first_seen"


class LlmSettings(_Section):
    """Who is asked for a second opinion before two chunks are merged."""

    url: str | None = None
    model: Name | None = None
    api_key_variable: Name | None = None
    requests_per_minute: Count = Field(default=60, ge=1)
    timeout_seconds: Number = Field(default=60, gt=0)
    retries: Count = Field(default=3, ge=0, le=20)
    cache: Folder | None = None
    max_text_chars: Count = Field(default=6_000, ge=100)

    @model_validator(mode="after")
    def _fits_together(self) -> "LlmSettings":
        if self.url is None:
            if self.model is not None or self.api_key_variable is not None:
                raise ValueError("model and api_key_variable go with url, the endpoint that is asked")
            return self
        if self.model is None:
            raise ValueError("url needs model, its name at the endpoint")
        _check_url(self.url)
        return self


class BackfillSettings(_Section):
    """Rows of a legacy system: how many of them a run takes, and which of their columns is what."""

    slice_rows: Count = Field(default=100_000, ge=1)
    shape: Shape | None = None
    scope_by: Annotated[list[str], Field(min_length=1)] | None = None
    text_column: str | None = None
    id_column: str | None = None
    doc_id_column: str | None = None
    seen_at_column: str | None = None
    hash_column: str | None = None
    embedding_column: str | None = None
    model_column: str | None = None
    embedding_model: Name | None = None


class GuardSettings(_Section):
    """What stops a run from publishing."""

    max_reject_share: Number = Field(default=0.5, ge=0, le=1)
    max_removed_share: Number = Field(default=0.5, ge=0, le=1)
    max_group_chunks: Count = Field(default=200, ge=1)
    max_merge_jump: Number = Field(default=5, ge=1)
    from_chunks: Count = Field(default=50, ge=1)
    allow: list[Guard] = Field(default_factory=list)


class ReportSettings(_Section):
    """The page that a night leaves."""

    enabled: bool = True
    keep: Count = Field(default=90, ge=1)
    samples: Count = Field(default=10, ge=1, le=1_000)
    variants: Count = Field(default=3, ge=1, le=100)
    text_chars: Count = Field(default=280, ge=1, le=10_000)


class MetricsSettings(_Section):
    """Figures for Prometheus."""

    enabled: bool = True
    path: Folder | None = None


class LogSettings(_Section):
    """Where a night is logged, beside what it says to who runs it."""

    format: Literal["text", "json"] = "text"
    path: Folder | None = None
    level: Literal["debug", "info", "warning"] = "info"


class ReviewSettings(_Section):
    """The page where people decide."""

    host: Name = "127.0.0.1"
    port: Count = Field(default=8765, ge=0, le=65_535)
    url: str | None = None
    page_size: Count = Field(default=50, ge=1, le=500)
    session_hours: Number = Field(default=12, gt=0, le=720)
    idle_minutes: Number = Field(default=60, gt=0)

    @model_validator(mode="after")
    def _url_is_one(self) -> "ReviewSettings":
        if self.url is not None:
            _check_url(self.url)
        return self


class Settings(BaseSettings):
    """All settings of a run."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=_PREFIX, env_nested_delimiter="__")

    inputs: list[InputSettings] = Field(default_factory=list)
    warehouse: WarehouseSettings = WarehouseSettings()
    scope: ScopeSettings = ScopeSettings()
    scopes: dict[str, OneScopeSettings] = Field(default_factory=dict)
    corpora: CorporaSettings = CorporaSettings()
    load: LoadSettings = LoadSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    neighbours: NeighbourSettings = NeighbourSettings()
    judge: JudgeSettings = JudgeSettings()
    llm: LlmSettings = LlmSettings()
    guard: GuardSettings = GuardSettings()
    report: ReportSettings = ReportSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    backfill: BackfillSettings = BackfillSettings()
    review: ReviewSettings = ReviewSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The arguments alone: `load_settings` lays file, environment and command line over each other."""
        return (init_settings,)

    @property
    def unchecked_scopes(self) -> list[str]:
        """Scopes whose rows are stored as new, unchecked."""
        return sorted(name for name, scope in self.scopes.items() if not scope.dedup)


def load_settings(file: Path | None = None, *, over: dict[str, Any] | None = None) -> Settings:
    """Settings of a file (`nightfold.toml` where none is named), the environment and `over`, checked as a whole.

    Paths in the file are relative to the current folder, as on the command line.
    """
    layers = {str(file or DEFAULT_FILE): _read(file), **_environment(), "command line": over or {}}
    try:
        settings = Settings(**reduce(_merged, layers.values()))
    except ValidationError as error:
        raise SettingsRefused(_told(error, layers)) from None
    if settings.corpora.corpora is None and any(given.is_of_corpora for given in settings.inputs):
        raise SettingsRefused(
            f"{_who_set(['inputs'], layers)}: inputs: corpus and corpus_id_column go with [corpora] corpora, the table "
            "of them"
        )
    return settings


def _read(file: Path | None) -> dict[str, Any]:
    path = file or DEFAULT_FILE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if file is None:
            return {}
        raise SettingsRefused(f"{file}: no such settings file; `nightfold settings example` prints one") from None
    except OSError as error:
        raise SettingsRefused(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsRefused(f"{path}: not a TOML file: {error}") from None


def _environment() -> dict[str, dict[str, Any]]:
    """What each variable of ours sets, by the name an error gives it."""
    source = EnvSettingsSource(Settings)
    layers: dict[str, dict[str, Any]] = {}
    for variable, value in sorted(os.environ.items()):
        if not variable.upper().startswith(_PREFIX):
            continue
        told = f"environment variable {variable}"
        section, *key = variable.upper().removeprefix(_PREFIX).split("__")
        if section.lower() not in Settings.model_fields:
            known = ", ".join(sorted(name.upper() for name in Settings.model_fields))
            raise SettingsRefused(f"{told}: no such setting; sections are {known} (as in {_PREFIX}WAREHOUSE__PATH)")
        if key and section in ("INPUTS", "SCOPES"):
            # The name of a scope would lose its case on the way.
            raise SettingsRefused(
                f"{told}: inputs and scopes are set as a whole, as in "
                f'{_PREFIX}SCOPES=\'{{"acme": {{"dedup": false}}}}\' (got {_cut(repr(value))})'
            )
        source.env_vars = {variable.lower(): value}
        try:
            layers[told] = source()
        except SettingsError:
            raise SettingsRefused(
                f"{told}: lists and whole sections are written as JSON, as in "
                f"{_PREFIX}SCOPE__BY='[\"workspace_id\"]' (got {_cut(repr(value))})"
            ) from None
    return layers


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _told(error: ValidationError, layers: dict[str, dict[str, Any]]) -> str:
    """A line a fault: who set it, which key, what is wrong with it, and the value."""
    faults: dict[tuple[str, str], list[str]] = {}
    for fault in error.errors():
        loc, given = _place(fault), fault["input"]
        if fault["loc"][-1] == "str" and isinstance(given, list):
            continue  # a list was meant; its own faults are told
        key = ".".join(f"#{part + 1}" if isinstance(part, int) else part for part in loc)
        is_shown = fault["type"] != "missing" and not isinstance(given, dict | BaseModel)
        shown = f" (got {_cut(repr(given))})" if is_shown else ""
        faults.setdefault((f"{_who_set(loc, layers)}: {key}", shown), []).append(_what(fault, loc))
    return "\n".join(f"{subject}: {_either(whats)}{shown}" for (subject, shown), whats in faults.items())


def _either(whats: list[str]) -> str:
    """What fits none of two types is one fault: `... a valid string, or a valid list`."""
    first, *others = whats
    return ", or ".join([first, *(what.removeprefix("Input should be ") for what in others)])


def _place(fault: ErrorDetails) -> list[str | int]:
    """Where the fault is, in the reader's keys: the branches of a union (`path.str`, `path.list[str]`) are ours."""
    return [part for n, part in enumerate(fault["loc"]) if not (n >= 3 and part in ("str", "list[str]"))]


def _what(fault: ErrorDetails, loc: list[str | int]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            known = _keys_beside(loc)
            near = difflib.get_close_matches(str(loc[-1]), known, n=1)
            return "no such setting; " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}")
        case "missing":
            return "must be set"
        case "model_type":
            return "is a section with keys of its own"
        case _:
            return fault["msg"].removeprefix("Value error, ")


def _keys_beside(loc: list[str | int]) -> list[str]:
    """The keys there are in the section that a key stands in."""
    section: type[BaseModel] = Settings
    for part in loc[:-1]:
        if part in section.model_fields:
            kind = section.model_fields[str(part)].annotation
            section = next(t for t in (kind, *get_args(kind)) if isinstance(t, type) and issubclass(t, BaseModel))
    return list(section.model_fields)


def _cut(text: str, *, most: int = 200) -> str:
    return text if len(text) <= most else text[:most] + " ..."


def _who_set(loc: list[str | int], layers: dict[str, dict[str, Any]]) -> str:
    """The file, the environment variable or the command line that a key's value came from: the last that sets it."""
    return next(name for name, given in reversed(layers.items()) if _sets(given, loc))


def _sets(given: Any, loc: list[str | int]) -> bool:
    for part in loc:
        if not isinstance(given, dict):
            return True
        if part not in given:
            return False
        given = given[part]
    return True
