"""Each format's text, and each way a document can refuse to give it."""

import codecs
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from flows.documents import DOCUMENT_SUFFIXES, UnreadableDocument, read_document
from flows.errors import NightfoldError, UnreadableSource

Save = Callable[[str, bytes | str], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a document of that name and gives its path."""

    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def html(save: Save) -> Callable[[bytes | str], str]:
    """The text that is read from a page of that content."""
    return lambda content: read_document(save("page.html", content))


def pdf(*pages: list[str], trailer: bytes = b"", top: int = 720) -> bytes:
    """A PDF by hand: one list of lines a page, `trailer` for more entries of its trailer, `top` for the first line."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for lines in pages:
        shown = b" ".join(b"(%s) Tj T*" % line.encode("cp1252") for line in lines)
        stream = b"BT /F1 12 Tf 14 TL 72 %d Td %s ET" % (top, shown)
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
            b" /Contents %d 0 R >>" % (len(objects) + 2),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        ]
    written, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
        + b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer)
        + b"startxref\n%d\n%%%%EOF\n" % len(written)
    )


# --- plain text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.markdown", "A.TXT"])
def test_plain_text_is_read_as_it_is(save: Save, name: str) -> None:
    assert read_document(save(name, "# Größe\r\n\n  漢字 &amp; <b>\n")) == "# Größe\r\n\n  漢字 &amp; <b>\n"


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_a_byte_order_mark_is_honoured_and_removed(save: Save, mark: bytes, codec: str) -> None:
    assert read_document(save("a.txt", mark + "Größe 漢字".encode(codec))) == "Größe 漢字"
    assert read_document(save("a.html", mark + "<p>Größe 漢字".encode(codec))) == "Größe 漢字"


def test_text_in_latin_1_is_refused_with_the_byte_and_the_remedy(save: Save) -> None:
    path = save("a.txt", "Größe".encode("latin-1"))
    with pytest.raises(UnreadableDocument) as refused:
        read_document(path)
    assert str(refused.value) == f"{path}: byte 2 (0xf6) is not UTF-8; save the file as UTF-8"


def test_half_a_character_of_utf_16_is_refused(save: Save) -> None:
    with pytest.raises(UnreadableDocument, match="is not UTF-16; save the file as UTF-8"):
        read_document(save("a.txt", codecs.BOM_UTF16_LE + b"a\x00b"))


def test_utf_16_without_its_mark_is_refused_and_a_stray_nul_is_not(save: Save) -> None:
    path = save("a.txt", "plain words".encode("utf-16-le"))
    with pytest.raises(UnreadableDocument) as refused:
        read_document(path)
    assert str(refused.value) == f"{path}: has a NUL beside its letters, as UTF-16 has them; save the file as UTF-8"
    assert read_document(save("b.txt", "a stray\0 NUL")) == "a stray\0 NUL"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_an_empty_file_is_an_empty_text(save: Save, name: str) -> None:
    assert read_document(save(name, b"")) == ""


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_blocks_are_lines_and_inline_elements_are_not(html: Callable[[str], str]) -> None:
    page = """<!doctype html><html><body><main><article>
        <h1>A  <em>big</em>
        title</h1><p>W<b>or</b>d one.<p>Two<br>three <!-- no --> four<ul><li>five</li>
        <li><div><div>six</div></div></ul>end</article></main></body></html>"""
    assert html(page) == "A big title\nWord one.\nTwo\nthree four\nfive\nsix\nend"


def test_entities_are_decoded(html: Callable[[str], str]) -> None:
    assert html("<p>5 &lt; 6 &amp;&amp; &quot;caf&eacute;&quot; &#8364;&#x1F600;") == '5 < 6 && "café" €😀'


def test_what_is_not_content_is_dropped(html: Callable[[str], str]) -> None:
    page = """<html><head><title>title</title><style>p {}</style></head><body>
        <nav><ul><li><a href="/">home</a></li></ul></nav><script>let a = "<p>b</p>"</script>
        <p>kept<style>q {}</style></p><noscript><p>enable it</p></noscript><template><p>t</p></template>
        <iframe><p>frame</p></iframe><footer>also kept</footer></body></html>"""
    assert html(page) == "kept\nalso kept"


def test_cells_of_a_row_are_kept_apart_and_in_their_columns(html: Callable[[str], str]) -> None:
    page = """<p>before</p><table><caption>Limits</caption>
        <thead><tr><th></th><th>min</th><th>max</th></tr></thead>
        <tbody><tr><td><p>Volt</p></td> <td><p>3.0</p></td> <td>3.6</td></tr>
        <tr><td>Amp</td><td></td><td>2</td></tr></tbody></table>after"""
    assert html(page) == "before\nLimits\n | min | max\nVolt | 3.0 | 3.6\nAmp |  | 2\nafter"


def test_a_table_in_a_cell_has_rows_of_its_own(html: Callable[[str], str]) -> None:
    page = "<table><tr><td>a<table><tr><td>b<td>c<tr><td>d</table><td>e</table>"
    assert html(page) == "a\nb | c\nd\n | e"


def test_layout_survives_in_pre_only(html: Callable[[str], str]) -> None:
    page = "<p>see  this</p><pre>if a:\n    <b>b</b>\n\n    c</pre><p>and\n that"
    assert html(page) == "see this\nif a:\n    b\n\n    c\nand that"


def test_a_page_nested_deeper_than_python_recurses_is_read(html: Callable[[str], str]) -> None:
    assert html("<div>" * 3000 + "deep" + "</div>" * 3000 + "out") == "deep\nout"


def test_a_fragment_and_bare_text_are_pages_too(html: Callable[[str], str]) -> None:
    assert html("only text") == "only text"
    assert html("<td>cell</td> <b>bold") == "cell bold"


def test_a_page_without_content_is_an_empty_text(html: Callable[[str], str]) -> None:
    assert html("<html><head><title>t</title></head><body> <nav>menu</nav> </body></html>") == ""


@pytest.mark.parametrize(
    ("meta", "codec"),
    [
        ('<meta charset="windows-1251">', "cp1251"),
        ("<META CHARSET=KOI8-R>", "koi8-r"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-5">', "iso8859-5"),
        ("<meta name=description content='charset=koi8-r'><meta charset=' cp866 '>", "cp866"),
        ("<!-- <meta charset='koi8-r'> --><meta charset='utf-8'>", "utf-8"),
    ],
)
def test_a_declared_charset_is_honoured(html: Callable[[bytes], str], meta: str, codec: str) -> None:
    assert html(f"<html><head>{meta}</head><body>Москва</body></html>".encode(codec)) == "Москва"


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "“10 €”"),
        ("us-ascii", "cp1252", "café"),
        ("iso-8859-9", "cp1254", "“ışık”"),
        ("gb2312", "gb18030", "镕"),
        ("shift_jis", "cp932", "①東京"),
        ("euc-kr", "cp949", "똠"),
        ("big5", "big5hkscs", "台北"),
        ("iso-2022-jp", "iso2022_jp", "東京"),
    ],
)
def test_a_charset_is_read_by_its_superset_as_browsers_do(
    html: Callable[[bytes], str], label: str, codec: str, text: str
) -> None:
    assert html(f"<meta charset={label}><p>{text}".encode(codec)) == text


@pytest.mark.parametrize("label", ["utf-16", "klingon", "unicode_escape", "zlib", "a&#0;b", "ü", ""])
def test_a_charset_the_web_does_not_know_leaves_utf_8(html: Callable[[bytes], str], label: str) -> None:
    assert html(f'<meta charset="{label}"><p>é \\x41'.encode()) == "é \\x41"


def test_a_page_that_is_not_in_its_charset_is_refused(html: Callable[[bytes], str]) -> None:
    with pytest.raises(UnreadableDocument, match=r"page\.html: byte 3 \(0xe9\) is not UTF-8; save the page as UTF-8"):
        html(b"caf\xe9")
    with pytest.raises(UnreadableDocument, match=r"\(0x81\) is not CP1252"):
        html(b"<meta charset=windows-1252>\x81")


# --- PDF --------------------------------------------------------------------------------------------------------------


def test_pages_of_a_pdf_are_separated_by_a_blank_line(save: Save) -> None:
    path = save("a.PDF", pdf(["Hello there,", "second line"], [], ["café 5 €"]))
    assert read_document(path) == "Hello there,\nsecond line\n\ncafé 5 €"


def test_a_hyphen_at_a_line_end_stays_where_it_is(save: Save) -> None:
    path = save("a.pdf", pdf(["a well-known exam-", "ple of type A-", "B, from 5-", "6 volts"]))
    assert read_document(path) == "a well-known exam-\nple of type A-\nB, from 5-\n6 volts"


def test_a_pdf_without_text_is_an_empty_text(save: Save) -> None:
    assert read_document(save("scan.pdf", pdf([], []))) == ""


def test_text_outside_the_page_is_not_read(save: Save) -> None:
    assert read_document(save("a.pdf", pdf(["hidden"], top=-50))) == ""


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4 and no more", pdf(["cut"])[:300], b"<p>not a PDF</p>"])
def test_a_broken_pdf_is_refused(save: Save, content: bytes) -> None:
    with pytest.raises(UnreadableDocument, match=r"a\.pdf: the file is broken or not a PDF; repair it"):
        read_document(save("a.pdf", content))


def test_a_pdf_with_one_broken_page_is_refused_whole(save: Save) -> None:
    content = pdf(["one"], ["two"]).replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [4 0 R 3 0 R]")
    with pytest.raises(UnreadableDocument, match=r"a page of the PDF is broken \(Failed to load page\); repair it"):
        read_document(save("a.pdf", content))


def test_a_pdf_without_pages_is_refused(save: Save) -> None:
    for before in (pdf(["whole"]), b"broken"):  # PDFium remembers its last error, which is not this document's
        with suppress(UnreadableDocument):
            read_document(save("before.pdf", before))
        with pytest.raises(UnreadableDocument, match="the PDF has no pages; export it again"):
            read_document(save("a.pdf", pdf()))


@pytest.mark.parametrize("scheme", [b"Standard", b"Unheard-of"])
def test_an_encrypted_pdf_is_refused(save: Save, scheme: bytes) -> None:
    keys = b"/O <%s> /U <%s>" % (b"00" * 32, b"11" * 32)
    trailer = b"/ID [<00> <00>] /Encrypt << /Filter /%s /V 1 /R 2 /P -4 %s >>" % (scheme, keys)
    with pytest.raises(UnreadableDocument, match="the PDF is encrypted and opens only with its password; save a copy"):
        read_document(save("a.pdf", pdf(["secret"], trailer=trailer)))


def test_pdfs_are_read_from_many_threads(save: Save) -> None:
    paths = [save(f"{number}.pdf", pdf([f"text {number}"] * 20)) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(read_document, paths))
    assert texts == ["\n".join([f"text {number}"] * 20) for number in range(40)]


# --- any document -----------------------------------------------------------------------------------------------------


def test_the_suffixes_are_those_that_are_read(save: Save) -> None:
    assert DOCUMENT_SUFFIXES == (".txt", ".md", ".markdown", ".html", ".htm", ".pdf")
    for suffix in DOCUMENT_SUFFIXES:
        assert read_document(save(f"a{suffix}", pdf(["text"]) if suffix == ".pdf" else "text")) == "text"


def test_a_file_of_another_kind_is_refused(save: Save) -> None:
    with pytest.raises(UnreadableDocument, match=r"a\.docx: a document ends in one of \.txt, .*\.pdf; convert"):
        read_document(save("a.docx", b"PK"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match=r"the file cannot be opened \(No such file or directory\); check"):
        read_document(tmp_path / "a.txt")


def test_a_folder_with_the_name_of_a_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").mkdir()
    with pytest.raises(UnreadableDocument, match=r"the file cannot be opened \(Is a directory\)"):
        read_document(tmp_path / "a.pdf")


def test_an_unreadable_document_is_an_unreadable_source() -> None:
    assert issubclass(UnreadableDocument, UnreadableSource)
    assert issubclass(UnreadableSource, NightfoldError)


def test_the_error_is_one_line_for_a_person_and_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(UnreadableDocument(Path("a.pdf"), "the rule; the remedy")))
    assert isinstance(error, UnreadableDocument)
    assert (error.path, error.why, str(error)) == (Path("a.pdf"), "the rule; the remedy", "a.pdf: the rule; the remedy")
