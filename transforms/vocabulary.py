"""The vocabulary join: a text's static vector is the sum of its words', so each distinct word is tokenized once.

Texts split into words, words into pieces; distinct pieces are tokenized, and sums go back up: pieces into words, words
into texts. It holds for tokenizers that never join what stands on two sides of a space or a punctuation mark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Vectors = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

# Runs of ASCII punctuation and what is between them. All of these marks stand by themselves in BERT's pre-tokenizer,
# and no normalization reaches across one: none has an accent, a case or a combining class. Marks outside of ASCII would
# do as well; they are rare, and libraries differ on which they are.
_PIECES = r"[!-/:-@\[-`{-~]+|[^!-/:-@\[-`{-~]+"

# Of these the tokenizer makes one word each, so that many can be tokenized in one text; a text has its price.
_PLAIN = r"^[0-9A-Za-z]+$"
_PLAIN_AT_ONCE = 512

# Vectors held for words, and for pieces, at once: 256 MB each at 256 dimensions.
_MAX_DISTINCT = 262_144
# Text split into words at once. A word costs some 40 bytes while it is counted.
_MAX_BYTES = 32 * 1024 * 1024
_TEXTS_AT_ONCE = 1024


@dataclass(frozen=True)
class Tokenization:
    """How texts become tokens, and whether words can be tokenized apart from their texts."""

    ids: Callable[[list[str]], list[list[int]]]
    """The token ids of each text, with nothing cut, padded or put around."""
    continues: npt.NDArray[np.bool_] | None = None
    """For each id whether it goes on with the word of the token before; None where words cannot be taken apart."""
    added: tuple[str, ...] = ()
    """Tokens found in the raw text (`[PAD]`): a word that holds one is not split at punctuation."""


# The sum of the rows of a table for each bag of indices: ids, where each bag starts, and the table; None is the table
# of tokens.
Bag = Callable[[Indices, Indices, Vectors | None], Vectors]


def tokenization(ids: Callable[[list[str]], list[list[int]]], *, described: Mapping[str, Any]) -> Tokenization:
    """What is known of a tokenizer by its parsed `tokenizer.json`."""
    added = described.get("added_tokens") or []
    if not _words_stand_alone(described):
        return Tokenization(ids)
    vocabulary, prefix = described["model"]["vocab"], described["model"]["continuing_subword_prefix"]
    continues = np.zeros(1 + max([*vocabulary.values(), *(token["id"] for token in added)], default=0), dtype=np.bool_)
    continues[[number for token, number in vocabulary.items() if token.startswith(prefix)]] = True
    return Tokenization(ids, continues=continues, added=tuple(token["content"] for token in added))


def _words_stand_alone(described: Mapping[str, Any]) -> bool:
    """Whether the tokens of a text are those of its words: proven for BERT's tokenizers alone.

    The normalizer works character by character but for marks, which stay on their side of a space; the pre-tokenizer
    splits at every space and mark; WordPiece sees one word at a time. Added tokens are found in the raw text before:
    they must not reach over a space nor look at their neighbours.
    """
    kinds = [(described.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    if kinds != ["BertNormalizer", "BertPreTokenizer", "WordPiece"]:
        return False
    prefix = described["model"].get("continuing_subword_prefix") or "a"
    return not prefix[0].isalnum() and not any(
        token["single_word"]
        or token["lstrip"]
        or token["rstrip"]
        or token["normalized"]
        or any(char.isspace() for char in token["content"])
        for token in described.get("added_tokens") or ()
    )


def distinct_with_codes(strings: pl.Series) -> tuple[pl.Series, Indices]:
    """The distinct strings by first appearance, a null among them, and for each string which of them it is."""
    encoded = strings.to_arrow().dictionary_encode(null_encoding="encode")
    distinct = pl.Series(encoded.dictionary, dtype=pl.String)
    return distinct, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def text_vectors(texts: pl.Series, *, tokens: Tokenization, bag: Bag) -> Vectors:
    """For each text the sum of its tokens' rows; a null has none. The vector of a text depends on that text alone."""
    texts = texts.fill_null("")
    vectors_of = _of_whole_texts if tokens.continues is None else _of_words
    blocks = [vectors_of(block, tokens=tokens, bag=bag) for block in _blocks(texts)]
    return blocks[0] if len(blocks) == 1 else np.concatenate([_of_tokens([], bag=bag), *blocks])


def _blocks(texts: pl.Series) -> list[pl.Series]:
    """The texts in runs of so many bytes, at least one text each."""
    ends = texts.str.len_bytes().cast(pl.Int64).cum_sum()
    runs = ((ends - 1).clip(0) // _MAX_BYTES).rle_id()
    starts = [0, *(np.flatnonzero(np.diff(runs.to_numpy())) + 1).tolist(), texts.len()]
    return [texts[start:stop] for start, stop in pairwise(starts) if stop > start]


def _of_words(texts: pl.Series, *, tokens: Tokenization, bag: Bag) -> Vectors:
    vectors = _of_few_words(texts, tokens=tokens, bag=bag)
    if vectors is not None:
        return vectors
    if texts.len() == 1:
        return _of_whole_texts(texts, tokens=tokens, bag=bag)
    middle = texts.len() // 2
    return np.concatenate([_of_words(half, tokens=tokens, bag=bag) for half in (texts[:middle], texts[middle:])])


def _of_few_words(texts: pl.Series, *, tokens: Tokenization, bag: Bag) -> Vectors | None:
    """None where there are too many distinct words to hold their vectors at once."""
    # Texts are in normal form: a space is what separates their words. Other whitespace stays inside a word, where
    # the tokenizer sees it as it would have in the text.
    split = texts.str.split(" ")
    words, word_codes = distinct_with_codes(split.explode(empty_as_null=False))
    if words.len() > _MAX_DISTINCT:
        return None
    pieces = _pieces(words, tokens.added)
    distinct, piece_codes = distinct_with_codes(pieces.explode(empty_as_null=False))
    if distinct.len() > _MAX_DISTINCT:
        return None
    order, flat, lengths = _tokenized(distinct, tokens=tokens)
    of_pieces = bag(flat, _starts(lengths), None)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    of_words = bag(place[piece_codes], _offsets(pieces.list.len()), of_pieces)
    return bag(word_codes, _offsets(split.list.len()), of_words)


def _of_whole_texts(texts: pl.Series, *, tokens: Tokenization, bag: Bag) -> Vectors:
    return np.concatenate(
        [
            _of_tokens(tokens.ids(texts[start : start + _TEXTS_AT_ONCE].to_list()), bag=bag)
            for start in range(0, texts.len(), _TEXTS_AT_ONCE)
        ]
    )


def _pieces(words: pl.Series, added: tuple[str, ...]) -> pl.Series:
    word = pl.col("word")
    pieces = word.str.extract_all(_PIECES)
    if added:
        pieces = pl.when(word.str.contains_any(list(added))).then(pl.concat_list(word)).otherwise(pieces)
    return words.to_frame("word").select(pieces).to_series()


def _tokenized(pieces: pl.Series, *, tokens: Tokenization) -> tuple[Indices, Indices, Indices]:
    """An order of the pieces, the ids of all their tokens in that order, and how many each has."""
    is_plain = pieces.str.contains(_PLAIN) & ~pieces.str.contains_any(list(tokens.added))
    plain, other = is_plain.arg_true().to_numpy(), (~is_plain).arg_true().to_numpy()
    flat, lengths = _of_plain(pieces.gather(plain).to_list(), tokens=tokens)
    other_flat, other_lengths = _flat(tokens.ids(pieces.gather(other).to_list()))
    order = np.concatenate([plain, other]).astype(np.int64)
    return order, np.concatenate([flat, other_flat]), np.concatenate([lengths, other_lengths])


def _of_plain(words: list[str], *, tokens: Tokenization) -> tuple[Indices, Indices]:
    joined = [" ".join(words[start : start + _PLAIN_AT_ONCE]) for start in range(0, len(words), _PLAIN_AT_ONCE)]
    flat, _ = _flat(tokens.ids(joined))
    assert tokens.continues is not None
    starts = np.flatnonzero(~tokens.continues[flat])
    if starts.size != len(words):
        return _flat(tokens.ids(words))  # a tokenizer of its own kind after all: a vector must not go to another word
    return flat, np.diff(starts, append=flat.size)


def _of_tokens(ids: list[list[int]], *, bag: Bag) -> Vectors:
    flat, lengths = _flat(ids)
    return bag(flat, _starts(lengths), None)


def _flat(ids: list[list[int]]) -> tuple[Indices, Indices]:
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    return np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(lengths.sum())), lengths


def _offsets(lengths: pl.Series) -> Indices:
    return _starts(lengths.to_numpy().astype(np.int64))


def _starts(lengths: Indices) -> Indices:
    starts: Indices = np.cumsum(lengths) - lengths
    return starts
