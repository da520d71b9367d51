"""A quantity for criteria: `confidence > 0.9 or time_used > 60%`."""

from decimal import Decimal

from fluidnpu.scheduler.exits import Quantity, Seen


def time_used(seen: Seen) -> float:
    """Return the share of a request's objective that has passed; above 1 after its deadline."""
    return seen.elapsed_ns / max(seen.elapsed_ns + seen.slack_ns, 1)


TIME_USED = Quantity(
    name="time_used",
    base="",
    units={"": Decimal(1), "%": Decimal("0.01")},
    about="share of the objective that has passed",
    by_sample=True,
    least=0,
    of=time_used,
)
