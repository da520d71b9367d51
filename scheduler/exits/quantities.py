"""The quantities that a criterion compares, and the units of their values. Plain tables.

>>> QUANTITIES["confidence"].units["%"]
Decimal('0.01')
>>> written(1_500_000.0, QUANTITIES["slack"])
'1.5ms'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from ..errors import SchedulerError


@dataclass(frozen=True)
class Quantity:
    """A name of the language: its units (the factor to its base unit), and its meaning in a sentence.

    `base` is the unit in which values are kept and given by profiles. `by_sample`: it may differ between the
    samples of a batch; the others are facts of the exit. `least` and `most` bound its values. `timed`: it
    depends on when things happen. `whole`: its values are whole numbers.
    """

    name: str
    base: str
    units: Mapping[str, Decimal]
    about: str
    by_sample: bool = False
    least: float = float("-inf")
    most: float = float("inf")
    timed: bool = False
    whole: bool = False

    @property
    def expected(self) -> str:
        """The words for an error: the units that a value must have."""
        if "%" in self.units:
            return "a share such as 0.7 or 70%"
        named = ", ".join(unit for unit in self.units if unit)
        return f"a number with a unit among {named}" if named else f"a {'whole ' * self.whole}number without a unit"


_TIME = {"ns": Decimal(1), "us": Decimal(1_000), "ms": Decimal(10**6), "s": Decimal(10**9)}
_ENERGY = {"nJ": Decimal(1), "uJ": Decimal(1_000), "mJ": Decimal(10**6), "J": Decimal(10**9)}
_MACS = {"MAC": Decimal(1), "kMAC": Decimal(1_000), "MMAC": Decimal(10**6), "GMAC": Decimal(10**9)}
_SHARE = {"": Decimal(1), "%": Decimal("0.01")}

QUANTITIES: Mapping[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity("response_time", "ns", _TIME, "time from the request's arrival to this exit", True, 0, timed=True),
        Quantity(
            "service_time", "ns", _TIME, "time from the beginning of its first run to this exit", True, 0, timed=True
        ),
        Quantity(
            "next_response_time",
            "ns",
            _TIME,
            "response time at the next exit, if its stage began now and the sample ran alone",
            True,
            0,
            timed=True,
        ),
        Quantity("slack", "ns", _TIME, "time left until the request's deadline; negative after it", True, timed=True),
        Quantity("confidence", "", _SHARE, "softmax top-1 of this exit", True, least=0, most=1),
        Quantity("accuracy", "", _SHARE, "share of right answers of this exit in its profile", least=0, most=1),
        Quantity("energy", "nJ", _ENERGY, "energy of one sample up to this exit, modelled", least=0),
        Quantity("macs", "MAC", _MACS, "multiply-accumulates of one sample up to this exit", least=0),
        Quantity("exit_number", "", {"": Decimal(1)}, "number of this exit, the first being 1", least=1, whole=True),
    )
}
WORDS = ("and", "or", "not", "false")  # of the language, so no quantities
ALIASES = {"energy_used": "energy", "flops_used": "macs"}  # as Delen's Table 1 has them; its "FLOPs" are MACs
_LONG = 15  # digits before or after the point beyond which a number is written with an exponent


def known_quantity(name: str) -> Quantity:
    """Return a quantity that must be there. Raises SchedulerError."""
    if name not in QUANTITIES:
        raise SchedulerError(f"a comparison must be of a known quantity, not '{name}'")
    return QUANTITIES[name]


def written(value: float, quantity: Quantity) -> str:
    """Return the value in the largest unit that leaves at least 1 before the point; reads back the same."""
    units = {unit: factor for unit, factor in quantity.units.items() if unit != "%"}
    exact = Decimal(repr(float(value)))
    fitting = [unit for unit, factor in units.items() if abs(exact) >= factor]
    unit = max(fitting, key=units.__getitem__) if fitting else min(units, key=units.__getitem__)
    number = (exact / units[unit]).normalize()
    text = f"{number:f}" if abs(number.adjusted()) <= _LONG else str(number)
    return f"{text}{unit}"
