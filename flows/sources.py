"""Where the input is: from paths, globs and folders to the files of each input, in a fixed order."""

import glob
import os
import re
from collections.abc import Iterator
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
    """One input of the settings with its files. `left_out` has a line for each folder with files that nobody reads.
    `is_one_file`: named outright; a folder or glob with one file in it may have two tomorrow."""

    name: str
    settings: InputSettings
    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...] = ()
    is_one_file: bool = False


def find_sources(settings: Settings) -> list[Source]:
    """Every input with its files, names unique; an input that matches nothing is an error."""
    if not settings.inputs:
        raise NightfoldError(
            "no input: name files with --input FILE_OR_GLOB, or write [[inputs]] into nightfold.toml "
            "(`nightfold settings example` prints one)"
        )
    try:
        sources = [_source(given, _own_folders(settings)) for given in settings.inputs]
    except OSError as error:
        path = shown(Path(os.fsdecode(error.filename or "inputs")))
        raise UnreadableSource(f"{path}: cannot be looked at ({error.strerror}); check its name and rights") from error
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


def _own_folders(settings: Settings) -> frozenset[Path]:
    """Where a run writes: in a folder that is read, they are not input."""
    warehouse = Path(settings.warehouse.path)
    return frozenset({_real(warehouse), _real(Path(settings.warehouse.staging or warehouse / "staging"))})


def _source(given: InputSettings, own: frozenset[Path]) -> Source:
    found: dict[Path, Path] = {}
    left_out: list[str] = []
    for pattern in given.paths:
        matches, unread = _matches(_expanded(pattern), pattern, given, own)
        # By its absolute path, so that a file named in two ways is read once. A link is a file of its own, as a copy
        # would be: it can lie in the folder of another scope.
        found |= {_absolute(path): path for path in matches}
        left_out += [unread] if unread else []
    root = Path(os.path.commonpath([_base(_expanded(pattern)) for pattern in given.paths]))
    files = tuple(
        SourceFile(found[absolute], shown(Path(os.path.relpath(absolute, root))), _format(found[absolute], given))
        for absolute in sorted(found)
    )
    is_one_file = len(given.paths) == 1 and _expanded(given.paths[0]).is_file()
    name = given.name or _usual_name(files[0].path.name if is_one_file else root.name)
    return Source(name, given, files, tuple(left_out), is_one_file)


def _expanded(pattern: str) -> Path:
    # Not Path.expanduser: it raises for a user that there is not.
    return Path(os.path.expanduser(pattern))  # noqa: PTH111


def _absolute(path: Path) -> Path:
    """Absolute and without `..`, links kept as they are named."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _real(path: Path) -> Path:
    # Not Path.resolve: it raises for a loop of links.
    return Path(os.path.realpath(path))


# --- matching ---------------------------------------------------------------------------------------------------------


def _matches(path: Path, pattern: str, given: InputSettings, own: frozenset[Path]) -> tuple[list[Path], str | None]:
    """The files a path, folder or glob stands for, and what a folder holds besides."""
    base = _real(_base(path))
    if base in own and path.is_dir():
        raise UnreadableSource(f"{pattern}: is where the tables are written; keep the input in a folder of its own")
    # Who names something inside a folder of ours means it.
    own = frozenset(folder for folder in own if not base.is_relative_to(folder))
    if path.is_dir():
        return _in_folder(path, pattern, given, own)
    found = [path] if path.exists() else [match for match in map(Path, _globbed(path, own)) if _is_file(match)]
    if not found:
        raise UnreadableSource(f"{pattern}: no such file, folder or glob with a match")
    return found, None


def _in_folder(folder: Path, pattern: str, given: InputSettings, own: frozenset[Path]) -> tuple[list[Path], str | None]:
    files = [file for _, files in _walk(folder, own) for file in files]
    found = [file for file in files if _can_read(file, given) and _is_file(file)]
    unread: str | None = None
    if given.format == "auto" and len(found) < len(files):
        suffixes = sorted({file.suffix.lower() or "no suffix" for file in set(files) - set(found)})
        count = len(files) - len(found)
        unread = f"{pattern}: {count:,} file{'s' * (count > 1)} of no known kind ({', '.join(suffixes)})"
    if not found:
        there = unread.removeprefix(f"{pattern}: ") if unread else "nothing of it"
        raise UnreadableSource(f"{pattern}: no file in it can be read as {given.kind}; it has {there}")
    return found, unread


def _walk(top: Path, own: frozenset[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Each folder from `top` down with its files, hidden ones and our own left out. Links are followed, but not into a
    folder that they are in."""
    waiting: list[tuple[Path, Path, frozenset[Path]]] = [(top, top.resolve(), frozenset())]
    while waiting:
        folder, real, above = waiting.pop()
        above |= {real}
        files: list[Path] = []
        for entry in folder.iterdir():
            if entry.name.startswith("."):
                continue
            if not entry.is_dir():
                files.append(entry)
                continue
            below = entry.resolve() if entry.is_symlink() else real / entry.name
            if below not in above | own:
                waiting.append((entry, below, above))
        yield folder, files


def _globbed(pattern: Path, own: frozenset[Path]) -> list[str]:
    """As `glob.glob` does it, but it keeps out of our own folders, and `**` out of loops of links. Not Path.glob: it
    also matches hidden files."""
    parts = pattern.parts
    if "**" not in parts:
        matches = glob.glob(str(pattern))  # noqa: PTH207
        parents = {Path(match).parent for match in matches}
        ours = {parent for parent in parents if not own.isdisjoint((_real(parent), *_real(parent).parents))}
        return [match for match in matches if Path(match).parent not in ours]
    at = parts.index("**")
    rest = parts[at + 1 :] or ("*",)
    tops = [Path(top) for top in glob.glob(str(Path(*parts[:at])))]  # noqa: PTH207
    folders = [folder for top in tops if top.is_dir() for folder, _ in _walk(top, own)]
    return [match for folder in folders for match in _globbed(Path(glob.escape(str(folder)), *rest), own)]


def _is_file(path: Path) -> bool:
    """Whether it is a file; a link that leads to none is an error, because what it stood for would be missed."""
    if path.is_symlink() and not path.exists():
        raise UnreadableSource(f"{shown(path)}: a link that leads to no file; mend it, or remove it")
    return path.is_file()


def _base(path: Path) -> Path:
    """The folder that names are relative to. It hangs on the pattern alone: a new file must not rename the others."""
    if path.is_dir():
        return _absolute(path)
    if not path.exists():
        fixed = next((n for n, part in enumerate(path.parts) if glob.has_magic(part)), -1)
        return _absolute(Path(*path.parts[:fixed]))
    return _absolute(path).parent


def _can_read(path: Path, given: InputSettings) -> bool:
    """In a folder: what the format asks for, or, where none is asked for, every suffix that is known and any file for
    its bytes."""
    if given.format != "auto":
        return _FORMATS.get(path.suffix.lower()) == given.format
    return given.kind == FILE or path.suffix.lower() in _FORMATS


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


def table_format(path: Path, *, at: str) -> str:
    """The format of a file that can only be a table of rows, by its suffix; `at` says who names it."""
    known = _FORMATS.get(path.suffix.lower())
    if known not in ("parquet", "csv", "jsonl", "arrow"):
        raise UnreadableSource(f"{at}: {path.suffix or 'no suffix'!r} is no parquet, csv, jsonl or arrow file")
    return known


def _usual_name(name: str) -> str:
    """A single file goes by its name; a folder, a glob and a list go by the folder they lie in."""
    # Under the rules of a name that is set: see `settings.Name`.
    return re.sub(r"[\x00-\x1f\x7f]", "_", shown(Path(name or "input")))[:200]
