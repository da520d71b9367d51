"""Quantities of criteria that installed packages bring, beside those of fluidnpu.

An entry of the group `fluidnpu.quantities` is a `Quantity` with a function of what an exit has seen. It may
depend on time, so exits that ask for one are decided while they are reached.

>>> find_quantity("slack").base, find_quantity("mood")
('ns', None)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fluidnpu.models.files import ExtensionGroup

from ..errors import QuantityError, SchedulerError
from .quantities import ALIASES, QUANTITIES, WORDS, Quantity
from .rule import Seen


def _fits(name: str, thing: Any) -> bool:
    return isinstance(thing, Quantity) and thing.name == name and name.isidentifier() and thing.of is not None


QUANTITY_EXTENSIONS: ExtensionGroup[Quantity] = ExtensionGroup(
    "fluidnpu.quantities",
    "quantity",
    "a Quantity of the entry's name, one word, with a function `of`",
    _fits,
    QuantityError,
    {*QUANTITIES, *ALIASES, *WORDS},
)


def find_quantity(name: str) -> Quantity | None:
    """Return a quantity by its name; None for what nobody knows. Raises QuantityError."""
    return QUANTITIES.get(name) or QUANTITY_EXTENSIONS.find(name)


def known_quantity(name: str) -> Quantity:
    """Return a quantity that must be there. Raises SchedulerError."""
    quantity = find_quantity(name)
    if quantity is None:
        raise SchedulerError(f"a comparison must be of a known quantity, not '{name}'")
    return quantity


def own_values(quantity: Quantity, seen: Iterable[Seen]) -> list[float]:
    """Return the value of a package's quantity for each sample, in its base unit. Raises QuantityError."""
    assert quantity.of is not None
    values = []
    for sample in seen:
        try:
            value = float(quantity.of(sample))
            if not math.isfinite(value):
                raise ValueError(f"it is {value}")
        except Exception as error:  # a package may raise anything
            must = f"must give a finite number at exit {sample.exit + 1}"
            raise QUANTITY_EXTENSIONS.failure(quantity.name, must, error) from error
        values.append(value)
    return values
