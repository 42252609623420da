"""A sentence-transformers model of a few kilobytes: real in all but size."""

from pathlib import Path

WORDS = [
    "the",
    "a",
    "red",
    "blue",
    "car",
    "train",
    "is",
    "fast",
    "slow",
    "not",
    "one",
    "two",
    "road",
    "house",
    "un",
    "e",
]
ENDINGS = ["##ed", "##ing", "##s"]
MARKS = [".", ",", "!", "-", "[", "]"]


def write_tiny_model(folder: Path, *, seed: int = 1) -> Path:
    """A BERT of one layer with 16 numbers a token, written to a folder."""
    import torch  # noqa: PLC0415
    from transformers import BertConfig, BertModel, BertTokenizer  # noqa: PLC0415

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: number for number, token in enumerate([*special, *MARKS, *WORDS, *ENDINGS])}
    BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes)  # type: ignore[no-untyped-call]
    BertModel(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    return folder
