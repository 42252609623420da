"""Texts as runs of keys: what is written in many ways has one, and what differs has two."""

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from transforms.lexicon import UNITS
from transforms.words import Kind, Words, words_of

ODD = [
    "",
    " ",
    "...",
    "?!",
    "🙂👍🏽",
    "שלום עולם",
    "مرحبا ٥",
    "漢字かな",
    "\x00\ufeff",
    "a" * 5_000,
    "5" * 400,
    "½ ² Ⅳ",
    "-",
    "'s",
]
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(ODD)
PIECES = [
    "5",
    "kW",
    "€",
    "minus",
    "one",
    "3 March 2020",
    "no",
    "uma",
    "%",
    ".",
    "1,234",
    "A",
    "x-1",
    "isn't",
    "Bob",
    "20 %",
]
TEXTS = ANY | st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join)


def runs(*texts: str | None) -> list[list[tuple[str, int, float, int]]]:
    """Of each text its keys, by what they stand for."""
    words = words_of(pl.Series(texts, dtype=pl.String))
    keys = words.keys.select("word", "kind", pl.col("value").fill_nan(None), "quantity").rows()
    return [[keys[key] for key in words.key[start:stop]] for start, stop in bounds(words)]


def bounds(words: Words) -> list[tuple[int, int]]:
    return list(zip(words.starts[:-1].tolist(), words.starts[1:].tolist(), strict=True))


def keys(text: str, other: str) -> tuple[list[int], list[int]]:
    words = words_of(pl.Series([text, other]))
    one, two = (words.key[start:stop].tolist() for start, stop in bounds(words))
    return one, two


def kinds(text: str) -> list[Kind]:
    return [Kind(kind) for _, kind, _, _ in runs(text)[0]]


SAME = [
    # numbers
    ("1,5 litres", "1.5 litres"),
    ("three doors", "3 doors"),
    ("tres puertas", "3 puertas"),
    ("quatro portas", "4 portas"),
    ("60 000 people", "60000 people"),
    ("60\u202f000 people", "60000 people"),
    ("1 234 567 rows", "1234567 rows"),
    ("1,234,567 rows", "1.234.567 rows"),
    ("1,234.5 rows", "1.234,5 rows"),
    ("98.6 or so", "98,60 or so"),
    # units
    ("5 kW", "5000 W"),
    ("5kW", "5 kW"),
    ("0.5 kg", "500 g"),
    ("5 min", "300 s"),
    ("3,5 km", "3500 m"),
    ("1 hora", "60 minutos"),
    ("2 años", "24 meses"),
    ("2 anos", "24 meses"),
    ("one litre", "1 litre"),
    ("una hora", "1 h"),
    ("5 m²", "5 m2"),
    ("20 ºC", "20 °C"),
    # shares and money
    ("20%", "20 percent"),
    ("20 per cent", "20 %"),
    ("el 20 por ciento", "el 20 %"),
    ("20 por cento", "20%"),
    ("$5", "5 dollars"),
    ("US$ 5", "5 USD"),
    ("€5", "5 euros"),
    ("R$ 5", "5 reais"),
    # below zero
    ("-5 °C", "−5 °C"),
    ("(-5)", "(minus five)"),
    ("-$5", "minus $5"),
    ("(1903 -1967)", "(1903 1967)"),
    # dates
    ("2020-03-25", "25 March 2020"),
    ("March 25, 2020", "25 March 2020"),
    ("Sept. 25th, 2020", "2020/09/25"),
    ("May 3, 2020", "2020-05-03"),
    ("25/03/2020", "03/25/2020"),
    ("25.3.2020", "25-03-2020"),
    ("25 marzo 2020", "25/03/2020"),
    ("25 março 2020", "25/03/2020"),
    ("21h30", "21:30"),
    # names in figures
    ("AB-1234", "ab_1234"),
    ("version 3.10", "Version v3.10"),
    # words
    ("isn't", "isn’t"),
    ("don't", "donʼt"),
    ("can't", "cannot"),
    ("Acción", "ACCION"),
    ("O livro está no chão", "O livro está na chão"),
    ("O LIVRO ESTÁ NO CHÃO", "o livro está no chão"),
    ("Motores devem parar no porto", "motores devem parar na porto"),
    ("Carro com defeito no freio", "carro com defeito na freio"),
    ("As Conversações Entram no Terceiro Dia", "As conversações entram na terceiro dia"),
    ("O The Hulk rendeu no mês de abertura às salas", "O The Hulk rendeu na mês de abertura às salas"),
    ("Intel® Core™", "Intel Core"),
    ("| a | b |", "a b"),
    ("● first", "• first"),
]

OTHER = [
    ("5 kW", "6 kW"),
    ("5 kW", "5 W"),
    ("5 mW", "5 MW"),
    ("5 °C", "5 °F"),
    ("5 m²", "5 m³"),
    ("5 m²", "5 m"),
    ("5 kg", "5"),
    ("two doors", "three doors"),
    ("dos puertas", "tres puertas"),
    ("duas portas", "três portas"),
    ("1.5", "15"),
    ("0.123", "123"),
    ("0,125", "125"),
    ("1234567890", "1234567891"),
    ("4111111111111111", "4111111111111112"),
    ("0012", "12"),
    ("½ cup", "¼ cup"),
    ("20%", "20"),
    ("$5", "€5"),
    ("R$ 5", "US$ 5"),
    ("₹5", "¥5"),
    ("-5", "5"),
    ("-$5", "$5"),
    ("3 March 2020", "3 April 2020"),
    ("2020-03-25", "2020-03-26"),
    ("3 May 2020", "3 June 2020"),
    ("03/04/2020", "04/03/2020"),
    ("2.1.0", "2.1.1"),
    ("version 3.10", "version 3.1"),
    ("versión 3.10", "versión 3.1"),
    ("versão 3.10", "versão 3.1"),
    ("AB-1234-X", "AB-1234-Y"),
    ("型号甲12", "型号乙12"),
    ("价格5元的汽车", "价格5元的火车"),
    ("Б12", "В12"),
    ("✓", "✗"),
    ("a → b", "a ← b"),
    ("x < y", "x > y"),
    ("🙂", "🙃"),
    ("かき", "がき"),
    ("note it", "not it"),
    ("the cans", "the can"),
    ("the façade has no door", "the façade has na door"),
    ("EM waves have no mass", "EM waves have na mass"),
    ("São Paulo no longer grows", "São Paulo na longer grows"),
    ("EM WAVES HAVE NO MASS", "EM WAVES HAVE NA MASS"),
    ("La puerta no se abre", "La puerta na se abre"),
    ("No pode rosales altos", "na pode rosales altos"),
    ("COM 3 gives no signal", "com 3 gives na signal"),
    ("il-legal", "legal"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_is_written_in_two_ways_has_the_same_keys(one: str, other: str) -> None:
    left, right = keys(f"we say {one} here", f"we say {other} here")
    assert left == right


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_says_two_things_has_other_keys(one: str, other: str) -> None:
    left, right = keys(one, other)
    assert left != right


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("door", Kind.WORD),
        ("the", Kind.FUNCTION),
        ("7", Kind.NUMBER),
        ("seven", Kind.NUMBER),
        ("siete", Kind.NUMBER),
        ("sete", Kind.NUMBER),
        ("AB12", Kind.CODE),
        ("10:30", Kind.CODE),
        ("not", Kind.NEGATION),
        ("no", Kind.NEGATION),
        ("não", Kind.NEGATION),
        ("nunca", Kind.NEGATION),
        ("wouldn't've", Kind.NEGATION),
        ("notes", Kind.WORD),
        ("?", Kind.SIGN),
        ("b", Kind.INITIAL),
        ("março", Kind.MONTH),
        ("month13", Kind.CODE),
    ],
)
def test_a_token_is_of_its_kind(text: str, wanted: Kind) -> None:
    assert kinds(f"x {text}")[-1] == wanted


def test_one_is_a_number_before_a_unit_only() -> None:
    assert kinds("one of them") == [Kind.FUNCTION if word != "one" else Kind.WORD for word in ("one", "of", "them")]
    assert kinds("one hour") == [Kind.NUMBER]


def test_a_sign_that_is_the_unit_of_one_number_is_not_that_of_the_next() -> None:
    assert [value for _, _, value, _ in runs("20 % 30 men")[0]][:2] == [20, 30]
    assert runs("20 % 30 men")[0][1] == runs("30 men")[0][0]


def test_a_number_keeps_its_other_reading() -> None:
    words = words_of(pl.Series(["1,234", "1.234", "1234"]))
    read = (
        words.keys.filter(pl.col("kind") == Kind.NUMBER).filter(pl.col("value").is_not_nan()).select("value", "other")
    )
    assert read.fill_nan(None).rows() == [(1234.0, 1.234), (1.234, 1234.0), (1234.0, None)]


def test_names_begin_with_a_capital_where_no_sentence_begins() -> None:
    words = words_of(pl.Series(["Yesterday Bob left. Then Ann came", "Bob"]))
    assert words.vocabulary.gather(words.token[words.is_name]).to_list() == ["Bob", "Ann"]


def test_a_date_in_figures_is_shown_by_the_name_of_its_month() -> None:
    assert "March" in words_of(pl.Series(["2020-03-25"])).vocabulary.to_list()


def test_a_null_has_no_words_and_no_texts_have_none() -> None:
    assert runs(None, "", "...") == [[], [], []]
    none = words_of(pl.Series([], dtype=pl.String))
    assert none.starts.tolist() == [0]
    assert none.keys.schema == words_of(pl.Series(["five 5 kW"])).keys.schema


@settings(deadline=None)
@given(st.lists(TEXTS | st.none(), min_size=1, max_size=5))
@example(["5", "kW", "€", "5"])
@example(["minus", "5", None, "one", "hour"])
@example(["the cans", "can"])
def test_no_text_is_read_into_its_neighbour(texts: list[str | None]) -> None:
    assert runs(*texts) == [runs(text)[0] for text in texts]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=5))
def test_the_parts_of_the_words_are_of_one_length(texts: list[str]) -> None:
    words = words_of(pl.Series(texts, dtype=pl.String))
    assert len(words.starts) == len(texts) + 1
    assert words.starts[-1] == len(words.key) == len(words.token) == len(words.unit) == len(words.is_name)
    assert np.all(words.lengths >= 0)
    assert np.all(words.key < words.keys.height)


def grouped(number: int, gap: str) -> str:
    return f"{number:,}".replace(",", gap)


@settings(deadline=None)
@given(st.integers(1_000_000, 99_999_999_999), st.sampled_from([",", ".", " ", "\xa0", "\u202f"]))
def test_thousands_told_apart_by_anything_are_the_same_number(number: int, gap: str) -> None:
    left, right = keys(f"some {grouped(number, gap)} rows", f"some {number} rows")
    assert left == right


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(1, 99), st.sampled_from(["kg", "V", "€", ""]))
def test_a_fraction_after_a_comma_is_one_after_a_point(whole: int, part: int, unit: str) -> None:
    left, right = keys(f"it is {whole},{part:02} {unit}", f"it is {whole}.{part:02} {unit}")
    assert left == right


CONVERTED = [
    (small, large)
    for small, (quantity, factor) in UNITS.items()
    for large, (quantity2, factor2) in UNITS.items()
    if quantity == quantity2 and factor2 == 1000 * factor and small.isalpha() and large.isalpha()
]


@settings(deadline=None)
@given(st.integers(1, 999), st.sampled_from(CONVERTED))
def test_a_thousand_of_the_smaller_unit_are_one_of_the_larger(number: int, units: tuple[str, str]) -> None:
    left, right = keys(f"it has {number * 1000} {units[0]}", f"it has {number} {units[1]}")
    assert left == right


@settings(deadline=None)
@given(st.integers(0, 10**18), st.integers(0, 10**18))
def test_two_numbers_are_never_one(one: int, other: int) -> None:
    assume(one != other)
    left, right = keys(f"row {one}", f"row {other}")
    assert left != right
