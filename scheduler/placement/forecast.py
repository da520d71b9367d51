"""Forecasts of the shares of samples that reach each exit, and the detector that a step wakes.

Counts come in windows: how many samples left at each exit. A forecast says the shares of the next window,
never rising from exit to exit. At a step every forecast is wrong for a window, so a detector on the counts
asks for a new plan before the window ends.

>>> forecast = make_forecast("ewma", exits=2)
>>> for counts in ([50, 50], [50, 50], [90, 10]):
...     forecast.see(counts)
>>> [round(rate, 2) for rate in forecast.rates()]
[0.62, 0.38]
"""

from __future__ import annotations

import importlib.util
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import FleetError
from .options import Floats

FORECASTS = ("last", "ewma", "arima")
EWMA = 0.3
LEAST_WINDOWS = 8  # before ARIMA is fitted; until then it says the last window
_TINY = 1e-4


class Forecast(Protocol):
    """Learns from windows of exit counts and says the exit rates of the next one."""

    name: str

    def see(self, counts: Sequence[int]) -> None:
        """Learn from a window: the number of samples that left at each exit. Raises FleetError."""

    def rates(self) -> tuple[float, ...]:
        """Exit rates of the next window; even shares before the first."""


@dataclass
class _Base(ABC):
    exits: int
    seen: list[Floats] = field(default_factory=list)
    name: str = ""

    def see(self, counts: Sequence[int]) -> None:
        values = np.asarray(counts)
        if values.shape != (self.exits,) or (values < 0).any() or not np.issubdtype(values.dtype, np.integer):
            raise FleetError(f"a window must hold {self.exits} counts from 0, one an exit, not {list(counts)}")
        if values.sum():  # a window without samples says nothing
            reach = 1 - np.concatenate([[0], np.cumsum(values / values.sum())])[:-1]
            self.learn(np.asarray(reach, float))

    def learn(self, reach: Floats) -> None:
        self.seen.append(reach)

    @abstractmethod
    def expected(self) -> Floats: ...

    def rates(self) -> tuple[float, ...]:
        if not self.seen:
            return (1 / self.exits,) * self.exits
        return rates_of(self.expected())


def rates_of(reach: Floats) -> tuple[float, ...]:
    """Turn shares (exits,) that reach each exit into exit rates: clipped to 0..1, never rising, the first 1.

    >>> rates_of(np.array([1.0, 0.4, 0.5]))
    (0.6, 0.0, 0.4)
    """
    clipped = np.minimum.accumulate(np.clip(np.concatenate([[1.0], reach[1:]]), 0, 1))
    rates = clipped - np.concatenate([clipped[1:], [0.0]])
    return tuple(float(round(rate, 12)) for rate in rates)


class Last(_Base):
    """The last window again."""

    def expected(self) -> Floats:
        """Give the reach of the last window, (exits,)."""
        return self.seen[-1]


class Ewma(_Base):
    """An average that forgets: the newest window weighs `EWMA`."""

    def learn(self, reach: Floats) -> None:
        """Move the average by a window's reach (exits,)."""
        self.seen = [reach if not self.seen else (1 - EWMA) * self.seen[0] + EWMA * reach]

    def expected(self) -> Floats:
        """Give the average, (exits,)."""
        return self.seen[0]


class Arima(_Base):
    """ARIMA(1, 1, 1) of every exit's reach over the last windows, by statsmodels."""

    order = (1, 1, 1)
    windows = 60

    def expected(self) -> Floats:
        """Fit and forecast the reach (exits,) one window ahead.

        It is that of the last window while there are few, or where it never moves.
        """
        history = np.array(self.seen[-self.windows :])
        if len(history) < LEAST_WINDOWS:
            return self.seen[-1]
        return np.array([self._next(column) for column in history.T])

    def _next(self, column: Floats) -> float:
        if np.ptp(column) < _TINY:
            return float(column[-1])
        from statsmodels.tsa.arima.model import ARIMA

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of starting values and convergence: the forecast is clipped below
            fitted: Any = ARIMA(column, order=self.order).fit()
            value = float(fitted.forecast(1)[0])
        return value if np.isfinite(value) else float(column[-1])


def make_forecast(name: str, exits: int) -> Forecast:
    """Make a forecast by its name. Raises FleetError for an unknown one, and where statsmodels is missing."""
    kinds: dict[str, Callable[..., Forecast]] = {"last": Last, "ewma": Ewma, "arima": Arima}
    if name not in kinds:
        raise FleetError(f"a forecast must be one of {', '.join(FORECASTS)}, not '{name}'")
    if name == "arima" and importlib.util.find_spec("statsmodels") is None:
        raise FleetError(
            "the forecast arima needs statsmodels, which is not installed: pip install 'fluidnpu[forecast]'"
        )
    return kinds[name](exits=exits, name=name)


@dataclass
class DriftDetector:
    """A sequential test on exit counts: has the mix left the one that the plan believes?

    Each rate is tested against one `step` higher and one `step` lower by the sum of log-likelihood ratios,
    kept from below at 0 (CUSUM). `threshold`: nats at which it calls; a false call comes about once in
    exp(threshold) samples.
    """

    rates: tuple[float, ...]
    step: float = 0.05
    threshold: float = 12.0
    sums: Floats = field(init=False)
    since: NDArray[np.int64] = field(init=False)  # counts from where each sum last left 0

    def __post_init__(self) -> None:
        if not 0 < self.step < 1 or not self.threshold > 0:
            raise FleetError(
                f"step must be a share above 0 and threshold above 0, not {self.step} and {self.threshold}"
            )
        self.reset(self.rates)

    def see(self, counts: Sequence[int]) -> bool:
        """Learn from a window of counts, one an exit, however short; True when the mix has drifted.

        Raises FleetError.
        """
        values = np.asarray(counts)
        if values.shape != (len(self.rates),) or (values < 0).any():
            raise FleetError(f"a window must hold {len(self.rates)} counts from 0, not {list(counts)}")
        total = int(values.sum())
        for k, rate in enumerate(self.rates):
            believed = min(1 - _TINY, max(_TINY, rate))
            for way, other in enumerate((believed + self.step, believed - self.step)):
                if not 0 < other < 1:
                    continue
                gain = values[k] * log(other / believed) + (total - values[k]) * log((1 - other) / (1 - believed))
                self.sums[k, way] = max(0.0, self.sums[k, way] + gain)
                self.since[k, way] = self.since[k, way] + values if self.sums[k, way] else 0
        return bool((self.sums > self.threshold).any())

    @property
    def suspected(self) -> list[int]:
        """The counts since the change, if there was one: from where the largest sum left 0 (Page, 1954)."""
        k, way = np.unravel_index(int(self.sums.argmax()), self.sums.shape)
        return [int(count) for count in self.since[k, way]]

    def reset(self, rates: tuple[float, ...]) -> None:
        """Believe other rates."""
        self.rates = rates
        self.sums = np.zeros((len(rates), 2))
        self.since = np.zeros((len(rates), 2, len(rates)), np.int64)
