"""Settings: `nightfold.toml`, then `NIGHTFOLD_...` in the environment over it, then the command line over both."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from flows.errors import NightfoldError
from schemas.rows import SPEC_FIELDS
from schemas.terms import MEMORY, TEXT
from transforms.mapping import ColumnMap

DEFAULT_FILE = Path("nightfold.toml")
_PREFIX = "NIGHTFOLD_"

# A name goes into derived ids and into SQL results: no control characters, and something to see.
_SEEN = r"[^\x00-\x1f\x7f]"
Name = Annotated[str, StringConstraints(pattern=rf"^{_SEEN}*[^\x00-\x1f\x7f\s]{_SEEN}*$", max_length=200)]
Kind = Literal["text", "file", "spec_row", "memory"]
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
    text_column: str | None = None
    id_column: str | None = None
    doc_id_column: str | None = None
    parsed_spec_id_column: str | None = None
    force_column: str | None = None
    seen_at_column: str | None = None
    metadata_columns: list[str] | None = None
    spec_columns: dict[str, str | list[str]] = Field(default_factory=dict)
    chunk: bool | None = None
    delimiter: Annotated[str, StringConstraints(pattern=r'^[^"\r\n]$')] | None = None
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
        if self.chunk and self.kind not in (TEXT, MEMORY):
            raise ValueError(f'chunk = true goes with kind = "{TEXT}" or "{MEMORY}"')
        # An empty path would be the current folder, with all that lies in it.
        if not self.paths or not all(path.strip() for path in self.paths):
            raise ValueError("path: names no file")
        return self

    @property
    def paths(self) -> list[str]:
        return [self.path] if isinstance(self.path, str) else self.path

    def column_map(self, *, source: str, scope_by: list[str]) -> ColumnMap:
        """This input's columns, as the mapping takes them."""
        return ColumnMap(
            kind=self.kind,
            source=source,
            scope=self.scope,
            scope_by=tuple(self.scope_by if self.scope_by is not None else scope_by),
            text=self.text_column,
            row_id=self.id_column,
            doc_id=self.doc_id_column,
            parsed_spec_id=self.parsed_spec_id_column,
            force=self.force_column,
            seen_at=self.seen_at_column,
            metadata=None if self.metadata_columns is None else tuple(self.metadata_columns),
            spec={k: (v,) if isinstance(v, str) else tuple(v) for k, v in self.spec_columns.items()},
        )


class WarehouseSettings(_Section):
    """Where the tables are kept, and for how long."""

    path: str = "data/warehouse"
    keep_runs: int = Field(default=30, ge=1)
    lock_wait_seconds: float = Field(default=60, ge=0)
    staging: str | None = None


class ScopeSettings(_Section):
    """What makes the scope of a row."""

    by: list[str] = Field(default=["workspace_id"], min_length=1)
    default: Name = "default"
    required: bool = False


class OneScopeSettings(_Section):
    """Settings of one scope by name."""

    dedup: bool = True


class LoadSettings(_Section):
    """How sources are read."""

    on_unreadable: Literal["fail", "skip"] = "fail"
    batch_rows: int = Field(default=131_072, ge=1)
    max_text_bytes: int = Field(default=16 * 1024 * 1024, ge=1)


class ChunkingSettings(_Section):
    """The sliding window over documents."""

    tokens: int = Field(default=800, ge=1)
    overlap: int = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _overlap_is_below_tokens(self) -> "ChunkingSettings":
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap {self.overlap} must be below tokens {self.tokens}")
        return self


class GuardSettings(_Section):
    """What stops a run from publishing."""

    max_reject_share: float = Field(default=0.5, ge=0, le=1)


class Settings(BaseSettings):
    """All settings of a run."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=_PREFIX, env_nested_delimiter="__")

    inputs: list[InputSettings] = Field(default_factory=list)
    warehouse: WarehouseSettings = WarehouseSettings()
    scope: ScopeSettings = ScopeSettings()
    scopes: dict[str, OneScopeSettings] = Field(default_factory=dict)
    load: LoadSettings = LoadSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    guard: GuardSettings = GuardSettings()

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
    over = over or {}
    given = _merged(_merged(_read(file), _environment()), over)
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsRefused(_told(error, file or DEFAULT_FILE, over)) from None


def _read(file: Path | None) -> dict[str, Any]:
    path = file or DEFAULT_FILE
    if not path.exists():
        if file is None:
            return {}
        raise SettingsRefused(f"{file}: no such settings file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsRefused(f"{path}: not a TOML file: {error}") from None


def _variables() -> dict[str, str]:
    """The variables of ours that are set, by their name in capitals."""
    return {name.upper(): value for name, value in sorted(os.environ.items()) if name.upper().startswith(_PREFIX)}


def _environment() -> dict[str, Any]:
    """What the environment sets, read variable by variable so that an error can name the one."""
    known = {name.upper() for name in Settings.model_fields}
    source = EnvSettingsSource(Settings)
    given: dict[str, Any] = {}
    for variable, value in _variables().items():
        if variable.removeprefix(_PREFIX).split("__")[0] not in known:
            raise SettingsRefused(
                f"environment variable {variable}: no such setting; sections are {', '.join(sorted(known))} "
                f"(as in {_PREFIX}WAREHOUSE__PATH)"
            )
        source.env_vars = {variable.lower(): value}
        try:
            given = _merged(given, source())
        except SettingsError:
            raise SettingsRefused(
                f"environment variable {variable}: lists and whole sections are written as JSON, as in "
                f"{_PREFIX}SCOPE__BY='[\"workspace_id\"]' (got {value!r})"
            ) from None
    return given


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _told(error: ValidationError, file: Path, over: dict[str, Any]) -> str:
    """A line a fault: who set it, which key, what is wrong with it, and the value."""
    lines: dict[str, None] = {}
    for fault in error.errors():
        # The branches of a union (`path.str`, `path.list[str]`) are our business, not the reader's.
        loc = [str(part) for part in fault["loc"] if part not in ("str", "list[str]")]
        what = "no such setting" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        given = fault["input"]
        is_shown = fault["type"] != "missing" and not isinstance(given, dict | BaseModel)
        shown = f" (got {_cut(repr(given))})" if is_shown else ""
        lines[f"{_who_set(loc, file, over)}: {'.'.join(loc) or 'settings'}: {what}{shown}"] = None
    return "\n".join(lines)


def _cut(text: str, *, most: int = 200) -> str:
    return text if len(text) <= most else text[:most] + " ..."


def _who_set(loc: list[str], file: Path, over: dict[str, Any]) -> str:
    """The command line, the environment variable or the file that a key's value came from."""
    inner: Any = over
    for part in loc:
        if not isinstance(inner, dict) or part not in inner:
            break
        inner = inner[part]
        if not isinstance(inner, dict):
            return "command line"
    variables = _variables()
    for end in range(len(loc), 0, -1):
        section = _PREFIX + "__".join(loc[:end]).upper()
        inside = [name for name in variables if name.startswith(f"{section}__")] if end == len(loc) else []
        for variable in [section, *inside]:
            if variable in variables:
                return f"environment variable {variable}"
    return str(file) if file.exists() else "settings"
