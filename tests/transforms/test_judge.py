"""The verdict on a pair: every veto and every relation in three languages, and laws that hold for any texts."""

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.terms import (
    COMPLEMENTARY,
    CONTRADICTORY,
    DISTINCT,
    EQUIVALENT,
    LEFT,
    RELATIONS,
    RIGHT,
    SPEC_ROW,
    SUBSET,
    SUPERSEDING,
    UNKNOWN,
)
from tests.verdicts import FAR, NEAR, UNREAD, Chunk, Reading, Side, aged, evidence, relation, the_model, verdicts
from transforms.judge import FEATURES, features_of, judged, model_of, wants_reading

FLIPPED = {LEFT: RIGHT, RIGHT: LEFT, None: None}

SAME_WORDS = [
    ("The pump draws 5 kW in use.", "the pump draws 5000 W in use"),
    ("La bomba consume 1,5 kW.", "La bomba consume 1500 W"),
    ("A bomba consome 1,5 kW!", "a bomba consome 1.5 kW"),
    ("It has three doors.", "It has 3 doors."),
    ("Tiene tres puertas.", "TIENE 3 PUERTAS"),
    ("Tem três portas.", "Tem 3 portas"),
    ("It costs $60 000 now.", "It costs 60000 dollars now."),
    ("Sube un 20 por ciento.", "Sube un 20 %."),
    ("Sobe 20 por cento.", "Sobe 20%."),
    ("The law of 2020-03-25 holds.", "The law of 25 March 2020 holds."),
    ("La ley del 25/03/2020 rige.", "La ley del 25 marzo 2020 rige."),
    ("A lei: 25/03/2020.", "A lei: 25 março 2020."),
    ("You can't open it.", "You cannot open it."),
    ("O livro está no chão.", "O LIVRO ESTÁ NO CHÃO"),
    ("It is −5 °C outside.", "It is -5 °C outside."),
]


@pytest.mark.parametrize(("left", "right"), SAME_WORDS)
def test_case_marks_conventions_and_units_alone_make_no_difference(left: str, right: str) -> None:
    row = verdicts((left, right), reading=UNREAD).row(0, named=True)
    assert (row["relation"], row["decided_by"], row["is_confirmed"]) == (EQUIVALENT, "rule: same words", True)
    assert "only case, marks or spacing differ" in row["evidence"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The colour of the new wall fades.", "The color of the new wall fades."),
        ("It weighs 1,234 kg in all.", "It weighs 1234 kg in all."),
        ("Pesa 1.234 kg en total.", "Pesa 1234 kg en total."),
        ("Pesa 1.234 kg no total.", "Pesa 1,234 kg no total."),
        ("The door is not open.", "The door isn't open."),
        ("La organización publicó las normas.", "La organisación publicó las normas."),
        ("A lei de 25 de março de 2020 vale.", "A lei de 25/03/2020 vale."),
    ],
)
def test_another_spelling_that_the_reader_finds_near_is_equivalent_and_confirmed(left: str, right: str) -> None:
    row = verdicts((left, right)).row(0, named=True)
    assert (row["relation"], row["is_confirmed"]) == (EQUIVALENT, True)
    assert row["confidence"] >= 0.9


CONTRADICTIONS = [
    # a number, in figures and in words
    ("The pump draws 5 kW in use.", "The pump draws 6 kW in use."),
    ("The old house has two doors.", "The old house has three doors."),
    ("La casa vieja tiene dos puertas.", "La casa vieja tiene tres puertas."),
    ("A casa velha tem duas portas.", "A casa velha tem quatro portas."),
    ("Call the desk at 5551234567.", "Call the desk at 5551234568."),
    # a unit
    ("The pump draws 5 kW in use.", "The pump draws 5 MW in use."),
    ("La pared mide 5 m de largo.", "La pared mide 5 km de largo."),
    ("A parede mede 5 m² ao todo.", "A parede mede 5 m³ ao todo."),
    # a share, a currency, below zero
    ("The fee rises by 20% this year.", "The fee rises by 30% this year."),
    ("La tarifa sube el 20 por ciento.", "La tarifa sube el 30 por ciento."),
    ("The ticket costs $5 today.", "The ticket costs €5 today."),
    ("A entrada custa R$ 5 hoje.", "A entrada custa US$ 5 hoje."),
    ("It is -5 °C outside now.", "It is 5 °C outside now."),
    # a date
    ("The rule of 3 March 2020 holds here.", "The rule of 3 April 2020 holds here."),
    ("La norma del 3 de marzo de 2020 rige.", "La norma del 3 de abril de 2020 rige."),
    ("A norma de 3 de março de 2020 vale.", "A norma de 3 de abril de 2020 vale."),
    ("The rule of 2020-03-25 holds here.", "The rule of 26 March 2020 holds here."),
    ("The rule of 03/04/2020 holds here.", "The rule of 04/03/2020 holds here."),
    # a part number
    ("Order part AB-1234-X for it today.", "Order part AB-1234-Y for it today."),
    ("Pida la pieza X77B para el motor.", "Pida la pieza X77C para el motor."),
    ("Peça a peça X77B para o motor.", "Peça a peça X78B para o motor."),
    # a negation
    ("The door of the hall is open.", "The door of the hall is not open."),
    ("You should open the front door.", "You shouldn’t open the front door."),
    ("La puerta de la sala se abre.", "La puerta de la sala no se abre."),
    ("A porta da sala se abre.", "A porta da sala não se abre."),
    ("Siempre abre la puerta azul.", "Nunca abre la puerta azul."),
    ("The façade has no windows there.", "The façade has windows there."),
    ("The non-smoking area is upstairs.", "The smoking area is upstairs."),
    # opposites
    ("The door of the hall is open.", "The door of the hall is closed."),
    ("La puerta de la sala está abierta.", "La puerta de la sala está cerrada."),
    ("A porta da sala está aberta.", "A porta da sala está fechada."),
    ("Café con azúcar en la taza.", "Café sin azúcar en la taza."),
    ("Café com açúcar na xícara.", "Café sem açúcar na xícara."),
    # named values
    ("The red car stops at the gate.", "The blue car stops at the gate."),
    ("El coche rojo para en la puerta.", "El coche azul para en la puerta."),
    ("O carro vermelho fica na garagem.", "O carro preto fica na garagem."),
    ("The shop opens on Monday at noon.", "The shop opens on Tuesday at noon."),
    ("La tienda abre el lunes temprano.", "La tienda abre el martes temprano."),
    ("A loja abre na segunda bem cedo.", "A loja abre na terça bem cedo."),
    ("The parts are made in France now.", "The parts are made in Germany now."),
    ("Las piezas se hacen en Francia.", "Las piezas se hacen en Alemania."),
    ("As peças são feitas na França.", "As peças são feitas na Alemanha."),
    # names
    ("Yesterday the board chose Alice there.", "Yesterday the board chose Carol there."),
    ("Ayer la junta eligió a Lucía allí.", "Ayer la junta eligió a Elena allí."),
    ("Ontem a junta escolheu Beatriz ali.", "Ontem a junta escolheu Helena ali."),
    # records
    ("Name: Pump\nColour: red\nPower: 5 kW", "Name: Pump\nColour: blue\nPower: 5 kW"),
    ("Nombre: Bomba\nColor: rojo\nPotencia: 5 kW", "Nombre: Bomba\nColor: rojo\nPotencia: 6 kW"),
    ("Nome: Bomba\nCor: azul\nPotência: 5 kW", "Nome: Bomba\nCor: preta\nPotência: 5 kW"),
]


@pytest.mark.parametrize(("left", "right"), CONTRADICTIONS)
def test_the_same_place_that_says_two_things_is_a_contradiction(left: str, right: str) -> None:
    row = verdicts((left, right)).row(0, named=True)
    assert (row["relation"], row["decided_by"], row["is_confirmed"]) == (CONTRADICTORY, "rule: differing value", False)


VETOED = [
    ("The limit is five for all.", "The limit is five for all, and seven."),
    ("El límite es 5 para todos.", "El límite es para todos."),
    ("Is the door open?", "The door is open"),
    ("Bluetooth ✓ and radio", "Bluetooth ✗ and radio"),
    ("It holds that x < y here", "It holds that x > y here"),
    ("Take plan A for the night", "Take plan B for the night"),
    ("Tome vitamina D de noche", "Tome vitamina E de noche"),
    ("Tome vitamina C à noite", "Tome vitamina B à noite"),
    ("The price is ₹5 there", "The price is ¥5 there"),
    ("Se paga en marzo siempre", "Se paga siempre"),
    ("Add ½ cup of milk", "Add ¼ cup of milk"),
    ("价格5元的汽车", "价格5元的火车"),
    ("🙂", "🙃"),
    ("The rule of 03/04/2020 holds", "The rule of 3 April 2020 holds"),
]


@pytest.mark.parametrize(("left", "right"), VETOED)
@pytest.mark.parametrize("reading", [NEAR, (1.0, 1.0, 1.0, 1.0)])
def test_anything_of_weight_on_one_side_only_is_never_equivalent(left: str, right: str, reading: Reading) -> None:
    assert relation(left, right, reading=reading, similarity=1.0) != EQUIVALENT


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The dog bites the man.", "The man bites the dog."),
        ("El perro muerde al hombre.", "El hombre muerde al perro."),
        ("O cachorro morde o homem.", "O homem morde o cachorro."),
    ],
)
def test_the_same_words_in_another_order_are_left_open(left: str, right: str) -> None:
    row = verdicts((left, right)).row(0, named=True)
    assert (row["relation"], row["decided_by"]) == (UNKNOWN, "rule: another order")


LOOSELY = (0.9, 0.8, 0.3, 0.4)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The pump stands in a hall.", "A pump stands in the hall."),
        ("A white plane on the runway.", "A white plane is on the runway."),
        ("La bomba está en el salón.", "Una bomba está en un salón."),
        ("Dos perros corriendo por la playa.", "Dos perros están corriendo por la playa."),
        ("A bomba fica em um salão.", "Uma bomba fica em um salão."),
        ("O homem está a desenhar.", "Um homem está a desenhar."),
    ],
)
def test_articles_alone_make_no_difference_however_far_they_are_read(left: str, right: str) -> None:
    row = verdicts((left, right), reading=LOOSELY).row(0, named=True)
    assert (row["relation"], row["decided_by"], row["is_confirmed"]) == (EQUIVALENT, "rule: same content", True)
    assert not verdicts((left, right), reading=UNREAD)["is_confirmed"].item()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("He talks on the phone.", "He talks about the phone."),
        ("The valve is closed.", "The valves are closed."),
        ("El tren va a Madrid.", "El tren va de Madrid."),
        ("O trem vai para o porto.", "O trem vai do porto."),
    ],
)
def test_other_small_words_make_one(left: str, right: str) -> None:
    assert verdicts((left, right), reading=LOOSELY)["decided_by"].item() != "rule: same content"


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        (
            "The tall teacher in nurse clothes is near a small teacher.",
            "The tall nurse in teacher clothes is near a small nurse.",
            "both have the same words in other numbers",
        ),
        (
            "El médico con bata de cocinero está junto a un médico.",
            "El cocinero con bata de médico está junto a un cocinero.",
            "both have the same words in other numbers",
        ),
        (
            "O médico com bata de cozinheiro fica ao lado de um médico.",
            "O cozinheiro com bata de médico fica ao lado de um cozinheiro.",
            "both have the same words in other numbers",
        ),
        (
            "The problem isn't who has money.",
            "The problem is who doesn't have money.",
            "a negation stands before another word",
        ),
        (
            "La bomba que no gira debe revisarse.",
            "La bomba que gira no debe revisarse.",
            "a negation stands before another word",
        ),
        (
            "A bomba que não gira deve ser revista.",
            "A bomba que gira não deve ser revista.",
            "a negation stands before another word",
        ),
    ],
)
def test_the_same_words_said_of_other_things_are_a_question(left: str, right: str, why: str) -> None:
    row = verdicts((left, right)).row(0, named=True)
    assert (row["relation"], row["is_confirmed"]) == (UNKNOWN, False)
    assert why in row["evidence"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("So that no one sees it there.", "So that nobody sees it there."),
        ("It is not the red one here.", "It is not red one here."),
        ("No es la roja de siempre aquí.", "No es roja de siempre aquí."),
    ],
)
def test_an_article_after_a_negation_does_not_move_it(left: str, right: str) -> None:
    assert "a negation stands before" not in verdicts((left, right))["evidence"].item()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The dog barks in the garden.", "The animal barks in the garden."),
        ("El perro ladra en el jardín.", "El animal ladra en el jardín."),
        ("O carro passa pela rua.", "O veículo passa pela rua."),
    ],
)
def test_one_word_that_is_broader_is_not_the_same(left: str, right: str) -> None:
    row = verdicts((left, right)).row(0, named=True)
    assert row["relation"] == UNKNOWN
    assert "one word is broader than the other" in row["evidence"]


@pytest.mark.parametrize(
    ("short", "rest"),
    [
        ("Clean the filter under running water", "then dry the lid and wipe the hinges carefully"),
        ("Limpie el filtro bajo agua corriente", "luego seque la tapa y frote las bisagras despacio"),
        ("Limpe o filtro sob água corrente", "depois seque a tampa e esfregue as dobradiças devagar"),
    ],
)
def test_a_text_that_the_other_contains_is_its_subset_and_the_larger_stands(short: str, rest: str) -> None:
    long = f"{short}, {rest}"
    pairs = verdicts((short, long), (long, short), similarity=0.7, reading=(0.7, 0.7, 0.3, 0.4))
    assert pairs["relation"].to_list() == [SUBSET, SUBSET]
    assert pairs["stands"].to_list() == [RIGHT, LEFT]


def test_the_larger_of_a_subset_has_the_content_not_the_small_words() -> None:
    left, right = "Clean filter under water dry lid wipe hinges", "the Clean a filter of the under is the water it"
    pairs = verdicts((left, right), (right, left), similarity=0.7, reading=(0.7, 0.7, 0.3, 0.4))
    assert pairs.select("relation", "stands").rows() == [(SUBSET, LEFT), (SUBSET, RIGHT)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The filter of the pump wears quickly", "The filter of the pump costs little to replace"),
        ("El filtro de la bomba dura poco", "El filtro de la bomba cuesta bastante"),
        ("O filtro da bomba dura pouco", "O filtro da bomba custa caro"),
    ],
)
def test_two_texts_on_one_matter_complement_each_other(left: str, right: str) -> None:
    assert relation(left, right, similarity=0.6, reading=(0.5, 0.5, 0.2, 0.3)) == COMPLEMENTARY


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The pump wears quickly", "Nobody sings at breakfast"),
        ("La bomba se gasta", "Cantamos por la tarde"),
        ("A bomba gasta logo", "Cantamos pela tarde"),
    ],
)
def test_texts_on_other_matters_are_distinct(left: str, right: str) -> None:
    assert relation(left, right, similarity=0.2, reading=FAR) == DISTINCT


def test_near_texts_that_no_rule_tells_apart_are_left_open() -> None:
    row = verdicts(("The filter wears quickly", "That sieve ages fast"), reading=(0.9, 0.85, 0.5, 0.6)).row(
        0, named=True
    )
    assert (row["relation"], row["decided_by"]) == (UNKNOWN, "model 1")
    assert row["confidence"] < 0.7


# ---- spec rows


def spec(value: str = "5 kW", sub: str = "Motor", **metadata: Any) -> Chunk:
    lines = f"Category: Pump\nSub-Category: {sub}\nSpecification: Power\nValue: {value}\nAdditional: "
    return Chunk(lines, SPEC_ROW, json.dumps(metadata))


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (spec(), spec("6 kW"), CONTRADICTORY),
        (spec("rojo"), spec("azul"), CONTRADICTORY),
        (spec("com garantia"), spec("sem garantia"), CONTRADICTORY),
        (spec("✓"), spec("✗"), CONTRADICTORY),
        (spec("AB-12-X"), spec("AB-12-Y"), CONTRADICTORY),
        (spec(), spec(sub="Valve"), DISTINCT),
        (spec(), spec("6 kW", sub="Valve"), DISTINCT),
        (spec(sub="Válvula"), spec(sub="Motor"), DISTINCT),
        (spec(), spec("5000 W"), EQUIVALENT),
        (spec(sub="MOTOR"), spec(), EQUIVALENT),
        (spec("1,5 kW"), spec("1.5 kW"), EQUIVALENT),
        (spec(version="1"), spec("6 kW", version="2"), SUPERSEDING),
        (spec(version="1"), spec(version="2"), EQUIVALENT),
        (spec(version="1"), spec(sub="Valve", version="2"), DISTINCT),
        (spec(source_priority=1), spec("6 kW", source_priority=2), CONTRADICTORY),
        (Chunk("power 5 kW", SPEC_ROW), Chunk("power 6 kW", SPEC_ROW), CONTRADICTORY),
    ],
)
def test_spec_rows_are_judged_field_by_field(left: Chunk, right: Chunk, wanted: str) -> None:
    assert relation(left, right) == relation(right, left) == wanted


def test_spec_rows_of_the_same_words_need_no_reader_and_those_written_another_way_are_a_question() -> None:
    same, other = (
        verdicts((spec(), it), reading=UNREAD).row(0, named=True) for it in (spec(sub="MOTOR"), spec("5000 W"))
    )
    assert (same["relation"], same["confidence"], same["is_confirmed"]) == (EQUIVALENT, pytest.approx(0.99), True)
    assert (other["relation"], other["confidence"], other["is_confirmed"]) == (EQUIVALENT, pytest.approx(0.85), False)


# ---- the newer


@pytest.mark.parametrize(
    ("older", "newer", "by"),
    [
        (
            aged("The fee is 5 euros.", effective_at="2023-01-01"),
            aged("The fee is 6 euros.", effective_at="2024-01-01"),
            "date",
        ),
        (aged("La cuota es 5 euros.", version="1.9"), aged("La cuota es 6 euros.", version="1.10"), "its version"),
        (aged("A taxa é de 5 euros.", version=1), aged("A taxa é de 6 euros.", version=2), "its version"),
        ("Handbook version 2.1: the fee is low.", "Handbook version 2.2: the fee is low.", "the version in its text"),
        ("Manual, versión 3: la cuota baja.", "Manual, versión 4: la cuota baja.", "the version in its text"),
        ("Manual, versão 3.9: taxa baixa.", "Manual, versão 3.10: taxa baixa.", "the version in its text"),
        ("The fee list in force in 2023", "The fee list in force in 2024", "the date in its text"),
    ],
)
def test_a_newer_one_that_says_otherwise_supersedes_and_stands(older: Side, newer: Side, by: str) -> None:
    pairs = verdicts((older, newer), (newer, older))
    assert pairs["relation"].to_list() == [SUPERSEDING] * 2
    assert pairs["stands"].to_list() == [RIGHT, LEFT]
    assert by in pairs["evidence"][0]


def test_a_newer_one_that_says_the_same_supersedes_nothing() -> None:
    assert relation(aged("The fee is 5 euros.", version=1), aged("the fee is 5 euros", version=2)) == EQUIVALENT


def test_a_newer_one_on_another_matter_supersedes_nothing() -> None:
    pair = aged("The fee is low", version=1), aged("Dogs bark at night", version=2)
    assert relation(*pair, similarity=0.2, reading=FAR) == DISTINCT


@pytest.mark.parametrize("kind", ["text", SPEC_ROW])
@pytest.mark.parametrize(("supersedes", "wanted"), [(False, CONTRADICTORY), (True, SUPERSEDING)])
def test_a_priority_supersedes_only_where_it_is_set_to(kind: str, supersedes: bool, wanted: str) -> None:
    low, high = (
        aged(spec(value).text, kind=kind, source_priority=priority) for value, priority in (("5 kW", 1), ("6 kW", 2))
    )
    pairs = verdicts((low, high), (high, low), priority_supersedes=supersedes)
    assert pairs["relation"].to_list() == [wanted] * 2
    assert pairs["stands"].to_list() == ([RIGHT, LEFT] if supersedes else [None, None])
    assert "higher priority" in pairs["evidence"][0]


# ---- what is wanted of the reader


def test_the_reader_is_asked_only_where_rules_leave_it_open() -> None:
    pairs: list[tuple[Side, Side]] = [
        ("a red door", "A RED DOOR"),
        ("a red door", "a blue door"),
        ("a red door", "a red gate"),
        (spec(), spec("7")),
    ]
    assert wants_reading(evidence(*pairs)).to_list() == [False, False, True, False]


# ---- laws

VOCABULARY = [
    "the",
    "a",
    "door",
    "pump",
    "filter",
    "red",
    "blue",
    "open",
    "closed",
    "not",
    "no",
    "5",
    "6",
    "kW",
    "W",
    "2",
]
VOCABULARY += ["Bob", "Ann", "dog", "animal", "colour", "color", "version", "in"]
ODD = ["", "...", "🙂", "שלום 5", "漢字", "5", "-5", "x" * 2_000, "long text " * 600, None]
TEXTS: st.SearchStrategy[str | None] = (
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=10).map(" ".join)
    | st.sampled_from(ODD)
    | st.text(max_size=15)
)
CHUNKS = st.builds(
    Chunk,
    TEXTS,
    st.sampled_from(["text", "text", SPEC_ROW]),
    st.sampled_from(
        ["{}", None, '{"version": 1}', '{"version": 2}', '{"source_priority": 3}', '{"effective_at": "2024-05-01"}']
    ),
)
PAIRS = st.tuples(CHUNKS, CHUNKS)
READINGS: st.SearchStrategy[Reading] = st.sampled_from([NEAR, FAR, UNREAD, (1.0, 1.0, 1.0, 1.0), (0.9, 0.85, 0.5, 0.6)])


@settings(deadline=None, max_examples=150)
@given(st.lists(PAIRS, min_size=1, max_size=5), READINGS, st.floats(0, 1, width=32), st.booleans())
def test_left_and_right_swapped_give_the_same_verdict_mirrored(
    pairs: list[tuple[Chunk, Chunk]], reading: Reading, similarity: float, priority: bool
) -> None:
    over: Any = {"reading": reading, "similarity": similarity, "priority_supersedes": priority}
    there, back = verdicts(*pairs, **over), verdicts(*[(right, left) for left, right in pairs], **over)
    same = ["relation", "confidence", "decided_by", "is_confirmed"]
    assert_frame_equal(there.select(same), back.select(same))
    assert [FLIPPED[side] for side in there["stands"]] == back["stands"].to_list()


@settings(deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=5), READINGS, st.randoms(use_true_random=False))
def test_a_verdict_does_not_hang_on_the_pairs_beside_it(
    pairs: list[tuple[Chunk, Chunk]], reading: Reading, random: Any
) -> None:
    random.shuffle(pairs)
    whole = verdicts(*pairs, reading=reading)
    for at, pair in enumerate(pairs):
        assert_frame_equal(whole[at : at + 1], verdicts(pair, reading=reading))


PROSE = st.lists(
    st.sampled_from(["pump", "filter", "the", "of", "valve", "water", "clean", "and", "hall", "wide"]),
    min_size=2,
    max_size=12,
)


@settings(deadline=None)
@given(PROSE, st.data(), READINGS)
def test_one_number_changed_is_never_equivalent(words: list[str], data: st.DataObject, reading: Reading) -> None:
    at = data.draw(st.integers(0, len(words)))
    one, other = data.draw(st.integers(-10_000, 10**15)), data.draw(st.integers(-10_000, 10**15))
    unit = data.draw(st.sampled_from(["", " kg", " %", " V", " €"]))
    assume(one != other)
    texts = [" ".join([*words[:at], f"{number}{unit}", *words[at:]]) for number in (one, other)]
    assert relation(*texts, reading=reading) != EQUIVALENT


@settings(deadline=None)
@given(PROSE, st.data(), READINGS)
@example(["the", "hall", "of", "water"], None, NEAR)
def test_one_negation_more_is_never_equivalent(words: list[str], data: Any, reading: Reading) -> None:
    negation = (
        "not"
        if data is None
        else data.draw(st.sampled_from(["not", "never", "isn't", "no", "nunca", "não", "sin", "sem"]))
    )
    at = 1 if data is None else data.draw(st.integers(0, len(words)))
    changed = " ".join([*words[:at], negation, *words[at:]])
    assert relation(" ".join(words), changed, reading=reading) != EQUIVALENT
    assert relation(changed, " ".join(words), reading=reading) != EQUIVALENT


CASES = st.sampled_from([str.lower, str.upper, str.title, str.capitalize])
GAPS = st.sampled_from([" ", "  ", ", ", "\t", " - ", "; ", " (", ". "])


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["puerta", "janela", "door", "éxito", "ação", "25", "three", "dog", "12"]),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_the_same_words_in_other_case_and_with_other_marks_are_equivalent(
    words: list[str], data: st.DataObject
) -> None:
    other = "".join(data.draw(CASES)(word) + data.draw(GAPS) for word in words)
    row = verdicts((" ".join(words), other), reading=UNREAD, similarity=0.1).row(0, named=True)
    assert (row["relation"], row["is_confirmed"]) == (EQUIVALENT, True)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=4), READINGS)
def test_every_verdict_is_whole(pairs: list[tuple[Chunk, Chunk]], reading: Reading) -> None:
    found = verdicts(*pairs, reading=reading)
    assert found.height == len(pairs)
    assert found["relation"].is_in(RELATIONS).all()
    assert found["confidence"].is_between(0, 1).all()
    assert found.drop("stands").null_count().sum_horizontal().sum() == 0
    assert found.filter(pl.col("relation").is_in([SUBSET, SUPERSEDING]))["stands"].null_count() == 0
    assert found.filter(~pl.col("relation").is_in([SUBSET, SUPERSEDING]))["stands"].drop_nulls().is_empty()


def test_no_pairs_have_the_shape_of_many() -> None:
    assert verdicts().schema == verdicts(("a red door", "a red gate")).schema


# ---- the model


DESCRIBED: dict[str, Any] = {
    "name": "model 0",
    "features": ["similarity", "opposed"],
    "mean": [0.5, 0.0],
    "scale": [0.5, 1.0],
    "weight": [2.0, -3.0],
    "intercept": -1.0,
    "confirmed": [[0, 0.5], [1, 1]],
    "other": [[0, 0], [1, 0.4]],
}


def test_a_model_with_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="a feature that is not known here: weather"):
        model_of(DESCRIBED | {"features": ["similarity", "weather"]})


@pytest.mark.parametrize("part", ["mean", "scale", "weight"])
def test_a_model_whose_parts_are_not_of_one_length_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match=f"2 features, but 1 in {part}"):
        model_of(DESCRIBED | {part: [1.0]})


@pytest.mark.parametrize("curve", [[], [[0, 0.5], [1, 0.4]], [[1, 0.4], [0, 0.5]], [[0, -0.1]], [[0, 1.1]]])
def test_a_model_whose_curve_does_not_rise_within_0_and_1_is_refused(curve: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="the curve `other` does not rise from 0 to 1"):
        model_of(DESCRIBED | {"other": curve})


def test_a_figure_is_read_off_the_curve_of_what_the_reading_says() -> None:
    pairs = [("The colour of the wall fades", "The color of the wall fades")]
    near, far = evidence(*pairs, similarity=0.75), evidence(*pairs, similarity=0.75, reading=FAR)
    model = model_of(DESCRIBED)
    assert model.raw(features_of(near, model.features))[0] == pytest.approx(0.5)
    assert model.probability(near)[0] == pytest.approx(0.75)
    assert model.probability(far)[0] == pytest.approx(0.2)


def test_a_figure_far_out_is_no_overflow() -> None:
    model = model_of(DESCRIBED | {"intercept": -5_000.0})
    assert model.raw(features_of(evidence(("a", "b")), model.features))[0] == pytest.approx(0)


def test_every_feature_is_a_number_for_any_pair() -> None:
    found = features_of(evidence(("", None), ("a red door", "5 kW"), reading=UNREAD), list(FEATURES))
    assert found.shape == (2, len(FEATURES))
    assert pl.Series(found.ravel()).is_finite().all()


def test_the_name_of_the_model_is_who_decided() -> None:
    found = evidence(("The filter wears quickly", "That sieve ages fast"), similarity=0.2, reading=FAR)
    assert judged(found, the_model())["decided_by"].to_list() == ["model 1"]
