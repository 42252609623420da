"""What a person is told when a run cannot go on: one line, no traceback."""


class NightfoldError(Exception):
    """A fault with a known cause: its message names the subject, the rule and the remedy."""


class UnreadableSource(NightfoldError):
    """A file or table of the input that cannot be read at all."""
