"""The text of a document: plain text and Markdown, HTML, PDF."""

import codecs
import re
import threading
from contextlib import closing
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser, LexborNode

from flows.errors import UnreadableSource

_PLAIN_SUFFIXES = (".txt", ".md", ".markdown")
_HTML_SUFFIXES = (".html", ".htm")
_PDF_SUFFIXES = (".pdf",)
DOCUMENT_SUFFIXES = _PLAIN_SUFFIXES + _HTML_SUFFIXES + _PDF_SUFFIXES


class UnreadableDocument(UnreadableSource):
    """A document whose text cannot be had; `why` names the rule it breaks and the remedy."""

    def __init__(self, path: Path, why: str) -> None:
        # Both go to `args`: an exception that cannot be pickled is lost on its way out of a Prefect task.
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


# What decides on the text of the same bytes: our own way of reading, to be raised when it changes, and the libraries.
_READS = 1
_LIBRARIES = {_PLAIN_SUFFIXES: None, _HTML_SUFFIXES: "selectolax", _PDF_SUFFIXES: "pypdfium2"}


def read_document(path: Path) -> str:
    """The document's text, "" when it has none (a scanned PDF); UnreadableDocument when it cannot be had."""
    return document_text(path, document_bytes(path))


def parser_of(path: Path) -> str:
    """Who reads the document, and in which version: the same bytes in the same hands are the same text."""
    suffix = path.suffix.lower()
    suffixes, library = next(
        ((suffixes, library) for suffixes, library in _LIBRARIES.items() if suffix in suffixes), ((suffix,), None)
    )
    return f"{suffixes[0]} {_READS} {version(library) if library else ''}"


def document_bytes(path: Path) -> bytes:
    """The document as it lies there; UnreadableDocument where it is none, or cannot be opened."""
    if path.suffix.lower() not in DOCUMENT_SUFFIXES:
        known = ", ".join(DOCUMENT_SUFFIXES)
        raise UnreadableDocument(path, f"a document ends in one of {known}; convert the file, or leave it out")
    try:
        return path.read_bytes()
    except OSError as error:
        why = f"the file cannot be opened ({error.strerror}); check that it exists and may be read"
        raise UnreadableDocument(path, why) from error


def document_text(path: Path, content: bytes) -> str:
    """The text of a document with these bytes, by the suffix of its name."""
    suffix = path.suffix.lower()
    if suffix in _PDF_SUFFIXES:
        return _pdf_text(path, content)
    if suffix in _HTML_SUFFIXES:
        return _html_text(path, content)
    return _plain_text(path, content)


# --- plain text -------------------------------------------------------------------------------------------------------

# UTF-32 before UTF-16: the little-endian mark of the one begins with that of the other.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def codec_of_mark(content: bytes) -> str | None:
    """The codec that the byte order mark names, None without a mark."""
    return next((codec for mark, codec in _BYTE_ORDER_MARKS if content.startswith(mark)), None)


def _decoded(path: Path, content: bytes, codec: str, *, remedy: str) -> str:
    """The bytes in that codec, none of them guessed or replaced."""
    try:
        return content.decode(codec)
    except UnicodeDecodeError as error:
        byte, name = error.object[error.start], codec.removesuffix("-sig").upper()
        raise UnreadableDocument(path, f"byte {error.start} (0x{byte:02x}) is not {name}; {remedy}") from error


def _plain_text(path: Path, content: bytes) -> str:
    text = _decoded(path, content, codec_of_mark(content) or "utf-8", remedy="save the file as UTF-8")
    # UTF-16 of a Latin script, without its mark, is valid UTF-8 with a NUL beside every letter.
    if text.count("\0") > len(text) // 4:
        raise UnreadableDocument(path, "has a NUL beside its letters, as UTF-16 has them; save the file as UTF-8")
    return text


# --- HTML -------------------------------------------------------------------------------------------------------------

# What no reader of the page sees as its content. The last three hold markup that the parser leaves as text.
_DROPPED = frozenset({"head", "nav", "script", "style", "noscript", "template", "iframe", "noembed", "noframes"})
_ROWS = frozenset({"caption", "table", "tbody", "tfoot", "thead", "tr"})
_CELLS = frozenset({"td", "th"})
_PREFORMATTED = frozenset({"pre", "textarea"})
_BLOCK_TAGS = """
    address article aside blockquote body br center dd details dialog dir div dl dt fieldset figcaption figure footer
    form frameset h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu ol optgroup option p pre search section
    select summary textarea ul
"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_HTML_SPACE = re.compile(r"[ \t\n\f\r]+")

# A page's charset is read as browsers read it: by the superset of what it names, and only if the web knows it (the
# label is a stranger's word, and Python also has codecs like `idna` and `unicode_escape`). Names as `codecs.lookup`
# gives them.
_WEB_CODEC_NAMES = """
    utf-8 big5hkscs cp866 cp874 cp932 cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258
    euc_jp gb18030 iso2022_jp iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10
    iso8859-13 iso8859-14 iso8859-15 iso8859-16 koi8-r koi8-u mac-cyrillic mac-roman
"""
_WEB_CODECS = {name: name for name in _WEB_CODEC_NAMES.split()} | {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
}
# Browsers look for the charset in the first 1,024 bytes; pages in the wild often have it a little later.
_CHARSET_WITHIN = 8192
_CONTENT_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';]+)""", re.IGNORECASE)


class _Gap(IntEnum):
    """What separates two texts of a page; of several borders between them, the highest counts."""

    NONE = 0
    SPACE = 1
    LINE = 2
    ROW = 3


class _PageText:
    """The text of a page as it grows: one line a block, cells of a table row between bars, no border doubled."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._gap = _Gap.NONE
        self._bars = 0

    def border(self, gap: _Gap) -> None:
        self._gap = max(self._gap, gap)
        if gap is _Gap.ROW:
            self._bars = 0

    def next_cell(self) -> None:
        # Counted, so that an empty cell keeps its place: a value in another column says something else.
        self._bars += 1

    def write(self, text: str) -> None:
        if self._gap is _Gap.ROW or (self._gap is _Gap.LINE and not self._bars):
            self._parts.append("\n")
        elif self._gap is _Gap.SPACE and not self._bars:
            self._parts.append(" ")
        self._parts.append(" | " * self._bars + text)
        self._gap, self._bars = _Gap.NONE, 0

    def write_flowing(self, text: str) -> None:
        """Write with each run of whitespace as one space, also across the borders of inline elements."""
        flowing = _HTML_SPACE.sub(" ", text)
        if flowing.startswith(" "):
            self.border(_Gap.SPACE)
        if words := flowing.strip(" "):
            self.write(words)
        if flowing.endswith(" "):
            self.border(_Gap.SPACE)

    def __str__(self) -> str:
        return "".join(self._parts).strip()


def _declared_codec(content: bytes) -> str | None:
    """The codec that the page's first meta element with a charset names, None without one the web knows."""
    for meta in LexborHTMLParser(content[:_CHARSET_WITHIN].decode("latin-1")).css("meta"):
        label = meta.attributes.get("charset")
        if label is None and (meta.attributes.get("http-equiv") or "").lower() == "content-type":
            named = _CONTENT_CHARSET.search(meta.attributes.get("content") or "")
            label = named and named[1]
        if label:
            try:
                return _WEB_CODECS.get(codecs.lookup(label.strip()).name)
            except (LookupError, ValueError):  # ValueError: a label with a NUL in it
                return None
    return None


def _html_text(path: Path, content: bytes) -> str:
    """The page's content: entities decoded, one line a block element, ` | ` between the cells of a table row."""
    codec = codec_of_mark(content) or _declared_codec(content) or "utf-8"
    remedy = 'save the page as UTF-8, or name its charset in <meta charset="...">'
    root = LexborHTMLParser(_decoded(path, content, codec, remedy=remedy)).root
    page = _PageText()
    preformatted = 0
    # A stack of our own, because pages nest deeper than Python recurses. A tag alone is the end of its element.
    stack: list[LexborNode | str] = [] if root is None else [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            page.border(_border_of(node))
            preformatted -= node in _PREFORMATTED
            continue
        tag = node.tag or ""
        if tag == "-text":
            if preformatted:
                page.write(node.text(deep=False))
            else:
                page.write_flowing(node.text(deep=False))
        elif tag not in _DROPPED:
            page.border(_border_of(tag))
            if tag in _CELLS and not _is_first_cell(node):
                page.next_cell()
            preformatted += tag in _PREFORMATTED
            stack.append(tag)
            stack.extend(reversed(list(node.iter(include_text=True))))
    return str(page)


def _border_of(tag: str) -> _Gap:
    if tag in _ROWS:
        return _Gap.ROW
    return _Gap.LINE if tag in _BLOCKS else _Gap.NONE


def _is_first_cell(cell: LexborNode) -> bool:
    before = cell.prev
    while before is not None and before.tag not in _CELLS:
        before = before.prev
    return before is None


# --- PDF --------------------------------------------------------------------------------------------------------------

# PDFium must not be called from two threads at once, and Prefect runs tasks in threads.
_PDFIUM_LOCK = threading.Lock()
# PDFium writes this for a hyphen and the line end after it. It stands in no text, so both are put back.
_HYPHEN_AT_LINE_END = "\x02"
_ENCRYPTED = frozenset({pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY})


def _pdf_text(path: Path, content: bytes) -> str:
    """The visible text of the pages that have any, a blank line between pages, hyphens at line ends as they are."""
    with _PDFIUM_LOCK, _opened_pdf(path, content) as document:
        if not len(document):
            raise UnreadableDocument(path, "the PDF has no pages; export it again from its source")
        try:
            pages = [_page_text(document, number) for number in range(len(document))]
        except pypdfium2.PdfiumError as error:
            why = f"a page of the PDF is broken ({str(error).rstrip('.')}); repair it, or export it again"
            raise UnreadableDocument(path, why) from error
    return "\n\n".join(page for page in pages if page)


def _opened_pdf(path: Path, content: bytes) -> pypdfium2.PdfDocument:
    # By the raw call: PdfDocument(bytes) tells a PDF without pages by the error of whichever PDF failed last, and
    # leaves it open. The caller's `content` must outlive the document.
    handle = pypdfium2.raw.FPDF_LoadMemDocument64(content, len(content), None)
    if handle:
        return pypdfium2.PdfDocument(handle)
    if pypdfium2.raw.FPDF_GetLastError() in _ENCRYPTED:
        raise UnreadableDocument(path, "the PDF is encrypted and opens only with its password; save a copy without one")
    raise UnreadableDocument(path, "the file is broken or not a PDF; repair it, or export it again from its source")


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    # Closed page by page: left to the document, every page of a long one would be in memory at its end.
    with closing(document.get_page(number)) as page, closing(page.get_textpage()) as letters:
        text: str = letters.get_text_bounded()
    return text.replace("\r\n", "\n").replace(_HYPHEN_AT_LINE_END, "-\n").strip()
