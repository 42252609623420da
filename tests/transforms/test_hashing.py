"""The content hash, byte for byte, and the ids derived from it."""

import hashlib

import polars as pl
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from schemas.terms import FILE, KINDS, MEMORY, SPEC_ROW, TEXT
from tests import oracle
from transforms.hashing import derived_id, file_hash, with_content_hash, with_ids
from transforms.spec_rows import spec_text

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SCOPES = st.text(st.sampled_from("ab:\x1f\x00/é") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
FIELDS = ("parent_category", "sub_category", "specification", "value", "additional")

Row = tuple[str, str, str | None, str | None]


def hashes(rows: list[Row], *, kinds: list[str] | None = None) -> list[str | None]:
    """Content hashes of rows of (scope, kind, text, content_hash)."""
    frame = pl.LazyFrame(rows, schema=dict.fromkeys(["scope", "kind", "text", "content_hash"], pl.String), orient="row")
    hashed = frame.pipe(with_content_hash, kinds=kinds or {kind for _, kind, _, _ in rows})
    return hashed.collect()["content_hash"].to_list()


def spec_row_text(fields: tuple[str, str, str, str, str]) -> str:
    return str(pl.select(spec_text(dict(zip(FIELDS, map(pl.lit, fields), strict=True)))).item())


def with_ids_of(rows: pl.DataFrame, *, unchecked: tuple[str, ...] = ()) -> pl.DataFrame:
    return rows.lazy().pipe(with_ids, unchecked_scopes=unchecked).collect()


def hashed_rows(**columns: list[str | None]) -> pl.DataFrame:
    """Rows as `with_ids` takes them: one scope, one content, ids from 1, where `columns` do not say otherwise."""
    height = len(next(iter(columns.values())))
    usual: dict[str, list[str | None]] = {
        "scope": ["ws"] * height,
        "content_hash": [hashlib.sha256(b"said").hexdigest()] * height,
        "source": ["handbook"] * height,
        "source_row_id": [str(number) for number in range(1, height + 1)],
        "text": ["said"] * height,
        "corpus_id": [None] * height,
    }
    return pl.DataFrame(usual | columns, schema=dict.fromkeys(usual, pl.String)).with_columns(
        force=pl.lit(value=False), chunk_index=pl.lit(None, dtype=pl.Int32)
    )


GOLDEN_TEXTS = [
    ("acme", "The door closes at 22:00.", "41971678db648f806e00826856d9aca9c0510d1ec2f2ab0b37cb868b1eeafff5"),
    (
        "acme",
        "  La puerta\u00a0se cierra\n\ta las 22:00.  ",
        "edb1fc00db9c178ac5c7da75d4e8956e5967bafb840899c34e0835f3f3fc714f",
    ),
    ("acme", "A bateria na\u0303o carrega.", "f16d53db8a83e32b89af00295f5ac837ee65c2489519169c4dc30233b2fc2ed9"),
    ("acme", "A bateria não carrega.", "f16d53db8a83e32b89af00295f5ac837ee65c2489519169c4dc30233b2fc2ed9"),
    ("boreal", "A bateria não carrega.", "018d03bf00d2acfbe2a6aa945a6d1e2df900891205f4a727215088450c716846"),
]
GOLDEN_SPEC_ROWS = [
    (
        ("Engine", "Fuel", "Consumption", "5.4 l/100 km", "combined, WLTP"),
        "6b42f32651a444e17bfade5aea0e69022629aab41bafa628f1c2d39f7993ca0b",
    ),
    (
        ("Motor", "Traccio\u0301n", "Consumo", "5,4\u00a0l/100  km", "mixto"),
        "57223cbc27ee25372cfef012ac6d544b91c963e85177e0f14d4ae6d758aa5a76",
    ),
    (
        ("Motor", "Combustível", "Consumo", "5,4 l/100 km", ""),
        "60c6bf53fd651bc1663672bfe4a9a4037b9b4eaea575f64d523e7a6f7cc99bce",
    ),
]


@pytest.mark.parametrize("kind", [TEXT, MEMORY])
@pytest.mark.parametrize(("scope", "text", "golden"), GOLDEN_TEXTS)
def test_texts_have_the_hash_that_other_systems_know(kind: str, scope: str, text: str, golden: str) -> None:
    assert hashes([(scope, kind, text, None)]) == [golden]


@pytest.mark.parametrize(("fields", "golden"), GOLDEN_SPEC_ROWS)
def test_spec_rows_have_the_hash_that_other_systems_know_in_every_scope(
    fields: tuple[str, str, str, str, str], golden: str
) -> None:
    text = spec_row_text(fields)
    assert hashes([("acme", SPEC_ROW, text, None), ("boreal", SPEC_ROW, text, None)]) == [golden, golden]


@pytest.mark.parametrize(
    ("scope", "raw", "golden"),
    [
        ("acme", b"", "775e497bfac5ee4aa5b29e000cc383b7aa46d3a6cab84bae855ced501230d9f1"),
        ("acme", b"\x00\xff  not normalized\r\n", "4592c044e07ef318226f189c756c9719bc8a3d2444a400c5f40037e10d8588d7"),
    ],
)
def test_files_have_the_hash_that_other_systems_know(scope: str, raw: bytes, golden: str) -> None:
    assert file_hash(scope, [raw]) == golden


def test_a_file_row_keeps_the_hash_it_brings_along() -> None:
    brought = file_hash("acme", [b"raw"])
    assert hashes([("acme", FILE, None, brought), ("acme", TEXT, "x", None)])[0] == brought


@given(scope=SCOPES, blocks=st.lists(st.binary(max_size=20), max_size=4))
def test_a_file_in_blocks_has_the_hash_of_the_whole(scope: str, blocks: list[bytes]) -> None:
    assert file_hash(scope, blocks) == oracle.file_hash(scope, b"".join(blocks))


@given(rows=st.lists(st.tuples(SCOPES, st.sampled_from([TEXT, MEMORY]), STRINGS), min_size=1, max_size=6))
def test_texts_and_memories_have_the_hash_of_the_oracle(rows: list[tuple[str, str, str]]) -> None:
    expected = [oracle.text_hash(scope, text) for scope, _, text in rows]
    assert hashes([(scope, kind, text, None) for scope, kind, text in rows]) == expected


@given(scope=SCOPES, fields=st.tuples(STRINGS, STRINGS, STRINGS, STRINGS, STRINGS))
def test_spec_rows_have_the_hash_of_the_oracle(scope: str, fields: tuple[str, str, str, str, str]) -> None:
    if any(map(oracle.normalize, fields)):
        assert hashes([(scope, SPEC_ROW, spec_row_text(fields), None)]) == [oracle.spec_row_hash(fields)]


@given(rows=st.lists(st.tuples(SCOPES, st.sampled_from(KINDS), STRINGS), min_size=1, max_size=6))
def test_kinds_mixed_in_one_frame_do_not_disturb_each_other(rows: list[tuple[str, str, str]]) -> None:
    def row(scope: str, kind: str, said: str) -> tuple[Row, str]:
        if kind == FILE:
            brought = oracle.file_hash(scope, said.encode())
            return (scope, kind, None, brought), brought
        if kind == SPEC_ROW:
            fields = (said, "", "x", said, "")
            return (scope, kind, oracle.spec_text(fields), None), oracle.spec_row_hash(fields)
        return (scope, kind, said, None), oracle.text_hash(scope, said)

    inputs, expected = zip(*(row(*given_row) for given_row in rows), strict=True)
    assert hashes([*inputs]) == [*expected]
    assert hashes([*inputs], kinds=[*KINDS]) == [*expected]


@given(parts=st.lists(STRINGS, min_size=1, max_size=4))
def test_an_id_is_the_first_half_of_blake3_over_its_parts(parts: list[str]) -> None:
    expected = blake3("\x1f".join(parts).encode()).hexdigest()[:32]
    assert pl.select(derived_id(*map(pl.lit, parts))).item() == expected


def test_the_same_text_in_two_scopes_stays_two_chunks() -> None:
    rows = with_ids_of(hashed_rows(scope=["acme", "boreal"]))
    assert rows["chunk_id"].n_unique() == 2


def test_scopes_whose_content_hashes_collide_stay_two_chunks() -> None:
    collided = hashes([("a:b", TEXT, "c", None), ("a", TEXT, "b:c", None)])
    assert collided[0] == collided[1]
    rows = with_ids_of(hashed_rows(scope=["a:b", "a"], content_hash=collided, text=["c", "b:c"]))
    assert rows["chunk_id"].n_unique() == 2


@given(scopes=st.lists(SCOPES, min_size=2, max_size=6, unique=True), force=st.booleans())
def test_no_scope_imitates_another(scopes: list[str], force: bool) -> None:
    rows = with_ids_of(hashed_rows(scope=[*scopes]).with_columns(force=pl.lit(force)))
    assert rows["chunk_id"].n_unique() == rows["occurrence_id"].n_unique() == len(scopes)


def test_a_scope_with_the_separator_does_not_imitate_a_row_that_is_kept_apart() -> None:
    apart = with_ids_of(hashed_rows(scope=["ws"]).with_columns(force=pl.lit(value=True)))
    origin = blake3(b"\x1fhandbook\x1f1").hexdigest()[:32]
    assert (
        apart["chunk_id"].item()
        == pl.select(derived_id(pl.lit(apart["content_hash"].item()), pl.lit(origin), pl.lit("ws"))).item()
    )
    imitation = with_ids_of(hashed_rows(scope=[f"{origin}\x1fws", f"\x1f{origin}\x1fws", "ws\x00"]))
    assert apart["chunk_id"].item() not in imitation["chunk_id"].to_list()


def test_rows_of_one_content_share_a_chunk_and_keep_their_own_occurrence() -> None:
    rows = with_ids_of(hashed_rows(source_row_id=["1", "2", "3"]))
    assert rows["chunk_id"].n_unique() == 1
    assert rows["occurrence_id"].n_unique() == 3
    assert rows["keep_apart"].to_list() == [False] * 3


def test_rows_that_say_force_are_chunks_of_their_own_on_every_run() -> None:
    given_rows = hashed_rows(source_row_id=["1", "2", "3", "4"]).with_columns(
        force=pl.Series([False, True, True, None])
    )
    rows = with_ids_of(given_rows)
    assert rows["keep_apart"].to_list() == [False, True, True, False]
    shared, first, second, other = rows["chunk_id"]
    assert shared == other
    assert len({shared, first, second}) == 3
    assert with_ids_of(given_rows).equals(rows)


def test_rows_of_an_unchecked_scope_are_chunks_of_their_own_and_no_other_scope_is_touched() -> None:
    given_rows = hashed_rows(scope=["free", "free", "ws", "ws"])
    rows = with_ids_of(given_rows, unchecked=("free",))
    assert rows["keep_apart"].to_list() == [True, True, False, False]
    assert rows["chunk_id"].n_unique() == 3
    assert rows["chunk_id"].to_list()[2:] == with_ids_of(given_rows)["chunk_id"].to_list()[2:]


def test_windows_of_one_document_that_are_kept_apart_are_chunks_of_their_own() -> None:
    windows = hashed_rows(source_row_id=["doc", "doc", "doc"]).with_columns(
        force=pl.lit(value=True), chunk_index=pl.Series([0, 1, None], dtype=pl.Int32)
    )
    assert with_ids_of(windows)["chunk_id"].n_unique() == 3


def test_rows_without_a_hash_never_collide() -> None:
    rows = with_ids_of(hashed_rows(content_hash=[None, None], text=[None, None]))
    assert rows["chunk_id"].n_unique() == 2


def test_layouts_of_one_content_have_different_digests_and_no_text_has_none() -> None:
    rows = with_ids_of(hashed_rows(text=["a b", "a\nb", "a b", None, ""]))
    spaced, broken, again, none, empty = rows["layout_digest"]
    assert spaced == again != broken
    assert none is None
    assert empty is not None


@given(data=st.data(), rows=st.lists(st.tuples(SCOPES, STRINGS, st.booleans()), min_size=1, max_size=6))
def test_ids_do_not_depend_on_the_order_of_rows(data: st.DataObject, rows: list[tuple[str, str, bool]]) -> None:
    scopes, texts, force = (list(column) for column in zip(*rows, strict=True))
    found = hashes([(scope, TEXT, text, None) for scope, text, _ in rows])
    frame = hashed_rows(scope=scopes, text=texts, content_hash=found).with_columns(force=pl.Series(force))
    order = data.draw(st.permutations(range(len(rows))))
    assert with_ids_of(frame[order]).equals(with_ids_of(frame)[order])
