"""Where the input is: from paths, globs and folders to the files of each input, in a fixed order."""

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path

from flows.documents import DOCUMENT_SUFFIXES
from flows.errors import NightfoldError, UnreadableSource
from flows.settings import InputSettings, Settings
from schemas.terms import FILE

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".duckdb": "duckdb",
    **dict.fromkeys(DOCUMENT_SUFFIXES, "documents"),
}
# A file whose rows are its raw bytes: any file at all, read when `kind = "file"`.
BYTES = "bytes"


@dataclass(frozen=True)
class SourceFile:
    """One file of an input, with the format it is read in and the name its rows are located by."""

    path: Path
    name: str
    format: str

    @property
    def folder(self) -> str:
        """The first folder of its name; empty for a file that lies at the top."""
        return self.name.split("/")[0] if "/" in self.name else ""


@dataclass(frozen=True)
class Source:
    """One input of the settings with its files."""

    name: str
    settings: InputSettings
    files: tuple[SourceFile, ...]


def find_sources(settings: Settings) -> list[Source]:
    """Every input with its files, names unique; an input that matches nothing is an error."""
    if not settings.inputs:
        raise NightfoldError(
            "no input: name files with --input FILE_OR_GLOB, or write [[inputs]] into nightfold.toml "
            "(`nightfold settings example` prints one)"
        )
    sources = [_source(given) for given in settings.inputs]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise NightfoldError(
                f"inputs: {names.count(name)} inputs are called {name!r}; give each a name of its own "
                "(name = ... or --source), or list their paths under one input"
            )
    return sources


def shown(path: Path) -> str:
    """The path in characters that can be printed and stored, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _source(given: InputSettings) -> Source:
    # By its absolute path, so that a file named in two ways is read once.
    found = {_absolute(path): path for pattern in given.paths for path in _matches(pattern, given)}
    if not found:
        raise UnreadableSource(f"{', '.join(given.paths)}: no file found that can be read as {given.kind}")
    root = Path(os.path.commonpath([_base(pattern) for pattern in given.paths]))
    files = tuple(
        SourceFile(path, shown(absolute.relative_to(root)), _format(path, given))
        for absolute, path in sorted(found.items())
    )
    return Source(given.name or _usual_name(given, root), given, files)


def _absolute(path: Path) -> Path:
    """Absolute and without `..`, links kept as they are named."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _matches(pattern: str, given: InputSettings) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        wanted = [p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path))]
        return wanted if given.kind == FILE else [p for p in wanted if _can_read(p, given)]
    if path.exists():
        return [path]
    # Not Path.glob: it also matches hidden files.
    found = [Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file()]  # noqa: PTH207
    if not found:
        raise UnreadableSource(f"{pattern}: no such file, folder or glob with a match")
    return found


def _base(pattern: str) -> Path:
    """The folder that names are relative to. It hangs on the pattern alone: a new file must not rename the others."""
    path = Path(pattern).expanduser()
    if path.is_dir():
        return _absolute(path)
    if not path.exists():
        fixed = next(n for n, part in enumerate(path.parts) if glob.has_magic(part))
        return _absolute(Path(*path.parts[:fixed]))
    return _absolute(path).parent


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _can_read(path: Path, given: InputSettings) -> bool:
    """In a folder: what the format asks for, or every suffix that is known where none is asked for."""
    known = _FORMATS.get(path.suffix.lower())
    return known is not None if given.format == "auto" else known == given.format


def _format(path: Path, given: InputSettings) -> str:
    if given.format != "auto":
        return BYTES if given.kind == FILE and given.format == "documents" else given.format
    if given.kind == FILE:
        return BYTES
    known = _FORMATS.get(path.suffix.lower())
    if known is None:
        raise UnreadableSource(
            f"{shown(path)}: unknown kind of file {path.suffix!r}; set format = "
            f'{", ".join(sorted(set(_FORMATS.values())))}, or kind = "file" to take its raw bytes'
        )
    return known


def _usual_name(given: InputSettings, root: Path) -> str:
    """A single file goes by its name; a folder, a glob and a list go by the folder they lie in."""
    path = Path(given.paths[0]).expanduser()
    name = path.name if len(given.paths) == 1 and path.is_file() else root.name or "input"
    # Under the rules of a name that is set: see `settings.Name`.
    return re.sub(r"[\x00-\x1f\x7f]", "_", shown(Path(name)))[:200]
