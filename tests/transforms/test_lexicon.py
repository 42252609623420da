"""Single words: what inflections share, what is opposed, what is broader, and lists that hold together."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.lexicon import (
    FUNCTION_WORDS,
    GENERAL,
    KINDS_OF,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    OPPOSITES_OF,
    UNITS,
    are_opposed,
    is_broader,
    is_listed,
    stem,
    unaccented,
)

LISTED = sorted(KINDS_OF.keys() | OPPOSITES_OF.keys() | GENERAL.keys())
WORDS = st.sampled_from(LISTED) | st.text("abdeilmnorstuy", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("red", "blue"),
        ("rojo", "azul"),
        ("vermelha", "preta"),
        ("monday", "tuesday"),
        ("lunes", "martes"),
        ("segunda", "terca"),
        ("france", "germany"),
        ("francia", "alemania"),
        ("franca", "alemanha"),
        ("open", "closed"),
        ("abierto", "cerrado"),
        ("aberta", "fechada"),
        ("allows", "forbids"),
        ("permite", "prohibe"),
        ("permitido", "proibido"),
        ("maximum", "minimum"),
        ("maximo", "minimo"),
        ("legal", "illegal"),
        ("connect", "disconnect"),
        ("conectar", "desconectar"),
        ("happy", "unhappy"),
        ("with", "without"),
        ("con", "sin"),
        ("com", "sem"),
        ("lock", "unlock"),
        ("petrol", "diesel"),
        ("forward", "backwards"),
        ("adelante", "atras"),
        ("avante", "tras"),
        ("clockwise", "counterclockwise"),
        ("horario", "antihorario"),
        ("input", "outputs"),
        ("entradas", "salida"),
        ("entrada", "saida"),
        ("daily", "weekly"),
        ("mensual", "anual"),
        ("semanal", "mensal"),
        ("heating", "cooling"),
        ("primaria", "secundaria"),
        ("encrypted", "decrypted"),
        ("comprador", "vendedor"),
    ],
)
def test_words_of_opposite_or_incompatible_meaning_are_opposed(one: str, other: str) -> None:
    assert are_opposed(one, other)
    assert are_opposed(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("red", "rojo"),
        ("vermelho", "rojo"),
        ("lunes", "monday"),
        ("wood", "wooden"),
        ("opens", "opened"),
        ("red", "door"),
        ("table", "chair"),
        ("red", "monday"),
        ("gray", "grey"),
    ],
)
def test_other_words_and_names_of_one_thing_are_not_opposed(one: str, other: str) -> None:
    assert not are_opposed(one, other)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_what_two_words_are_to_each_other_does_not_hang_on_which_comes_first(one: str, other: str) -> None:
    assert are_opposed(one, other) == are_opposed(other, one)
    assert is_broader(one, other) == is_broader(other, one)
    assert not are_opposed(one, one)
    assert not is_broader(one, one)


@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("animal", "dog", True),
        ("animales", "perro", True),
        ("veiculo", "carro", True),
        ("kid", "child", False),
        ("dog", "cat", False),
        ("persona", "pessoa", False),
    ],
)
def test_a_word_for_a_whole_kind_is_broader_than_any_but_its_own_other_names(one: str, other: str, is_so: bool) -> None:
    assert is_broader(one, other) == is_so


@pytest.mark.parametrize(
    "forms",
    [
        ("door", "doors"),
        ("city", "cities"),
        ("box", "boxes"),
        ("cut", "cutting"),
        ("play", "plays", "played", "playing"),
        ("Türen", "turen"),
        ("Canción", "cancion"),
        ("rojo", "roja", "rojos", "rojas"),
    ],
)
def test_inflections_share_a_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(("one", "other"), [("class", "clas"), ("bed", "bee"), ("falling", "failing"), ("is", "i")])
def test_other_words_do_not(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@settings(deadline=None)
@given(st.text())
def test_a_word_without_accents_has_none_to_lose(word: str) -> None:
    assert unaccented(unaccented(word)) == unaccented(word)
    assert isinstance(is_listed(word), bool)


@pytest.mark.parametrize(("word", "bare"), [("ÁÉÍÓÚÑ", "aeioun"), ("não", "nao"), ("STRASSE", "strasse"), ("ﬁ", "fi")])
def test_latin_letters_lose_case_and_accents(word: str, bare: str) -> None:
    assert unaccented(word) == bare


@pytest.mark.parametrize(("one", "other"), [("か", "が"), ("мои", "мой"), ("ハ", "パ")])
def test_in_other_scripts_a_mark_makes_another_letter(one: str, other: str) -> None:
    assert unaccented(one) != unaccented(other)


def test_every_listed_word_is_in_lower_case_and_without_accents() -> None:
    for word in [*FUNCTION_WORDS, *NEGATIONS, *NUMBER_WORDS, *MONTHS, *LISTED]:
        assert word == unaccented(word)


def test_no_word_is_both_a_number_and_a_negation() -> None:
    assert not NUMBER_WORDS.keys() & NEGATIONS


def test_all_months_have_their_number_in_three_languages() -> None:
    assert sorted(set(MONTHS.values())) == list(range(1, 13))
    assert [MONTHS[name] for name in ("january", "enero", "janeiro", "december", "diciembre", "dezembro")] == [
        *[1] * 3,
        *[12] * 3,
    ]


def test_factors_of_units_are_above_nothing() -> None:
    assert all(factor > 0 for _, factor in UNITS.values())


@pytest.mark.parametrize("word", ["Rojo", "opening", "animais", "niños"])
def test_a_listed_word_is_known_in_any_form(word: str) -> None:
    assert is_listed(word)
    assert not is_listed("kettle")
