"""What decisions of people change in the tables."""

APPLIED = "applied"
# How the outcome of a decision begins that could not be applied.
_NOTHING = "not applied: "


def came_to_nothing(outcome: str) -> bool:
    """Whether this is the outcome of a decision that could not be applied."""
    return outcome.startswith(_NOTHING)
