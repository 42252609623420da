"""Where the input is: from paths, globs and folders to the files of each input, in a fixed order."""

import glob
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


def _source(given: InputSettings) -> Source:
    found = sorted({path for pattern in given.paths for path in _matches(pattern, given)})
    if not found:
        raise UnreadableSource(f"{', '.join(given.paths)}: no file found that can be read as {given.kind}")
    root = _common_folder(found, given)
    files = tuple(SourceFile(path, path.relative_to(root).as_posix(), _format(path, given)) for path in found)
    return Source(given.name or _usual_name(given, files, root), given, files)


def _matches(pattern: str, given: InputSettings) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        wanted = sorted(p for p in path.rglob("*") if p.is_file() and not _is_hidden(p.relative_to(path)))
        return wanted if given.kind == FILE else [p for p in wanted if _can_read(p, given)]
    if path.exists():
        return [path]
    found = [Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file()]
    if not found:
        raise UnreadableSource(f"{pattern}: no such file, folder or glob with a match")
    return found


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
            f"{path}: unknown kind of file {path.suffix!r}; set format = "
            f"{', '.join(sorted(set(_FORMATS.values())))}, or kind = \"file\" to take its raw bytes"
        )
    return known


def _common_folder(found: list[Path], given: InputSettings) -> Path:
    """The folder names are relative to: the one that was given, else the deepest that holds every file."""
    if len(given.paths) == 1 and Path(given.paths[0]).expanduser().is_dir():
        return Path(given.paths[0]).expanduser()
    parents = [path.parent for path in found]
    common = parents[0]
    while not all(parent == common or common in parent.parents for parent in parents):
        common = common.parent
    return common


def _usual_name(given: InputSettings, files: tuple[SourceFile, ...], root: Path) -> str:
    """A single file goes by its name, several go by the folder they lie in."""
    if len(files) == 1 and not Path(given.paths[0]).expanduser().is_dir():
        return files[0].path.name
    return root.resolve().name or "input"
