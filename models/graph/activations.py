"""Activations that follow a layer's words: a function by table, a product, or channels' own lines.

A function of `FUNCTIONS` has parameters with usual values, and bounds where it has some. Far from zero most
are lines, their asymptotes, which a table's outer pieces follow (ADR 69). Definitions: Ramachandran et al.
2017 (SiLU), Howard et al. 2019 (hard swish), Hendrycks and Gimpel 2016 (GELU), Misra 2019 (Mish), Clevert et
al. 2015 (ELU), Klambauer et al. 2017 (SELU), as ONNX 1.16 has them.

>>> silu = Activation(use=Use.TABLE, function="silu")
>>> silu.parameters, silu.real(np.array([0.0, 20.0])).round(6).tolist()
((1.0,), [0.0, 20.0])
>>> silu.below, silu.above
(Line(offset=0.0, slope=0.0), Line(offset=0.0, slope=1.0))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError

Doubles = npt.NDArray[np.float64]
Clip = tuple[float | None, float | None]

NO_CLIP: Clip = (None, None)

_erf = np.frompyfunc(math.erf, 1, 1)


class Use(str, Enum):
    """The way in which a layer uses the activation unit; at most one a layer."""

    __str__ = str.__str__  # as of enum.StrEnum, which Python 3.10 lacks

    TABLE = "table"  # a function of FUNCTIONS
    PRODUCT = "product"  # times the residual, which is then not added
    SLOPE = "slope"  # times its channel's slope where negative: PReLU
    AFFINE = "affine"  # times its channel's slope, plus its channel's offset: a batch norm


@dataclass(frozen=True)
class Line:
    """The line offset + slope * x."""

    offset: float
    slope: float


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of a real number and its parameters.

    `usual` values of the parameters have their names as keys. `below` and `above`: the lines that it
    approaches, by its parameters; None where it approaches none. `least` and `most`: its bounds.
    `keeps_sign`: it is at least 0 wherever its input is. `scales`: f(a * x) = a * f(x) for any a > 0.
    `factor`: it is made to multiply by, so that its errors count as shares of it.
    """

    real: Callable[..., Doubles]
    usual: Mapping[str, float] = field(default_factory=dict)
    below: Callable[..., Line] | None = None
    above: Callable[..., Line] | None = None
    least: Callable[..., float] | None = None
    most: Callable[..., float] | None = None
    keeps_sign: bool = True
    scales: bool = False
    factor: bool = False
    positive: tuple[str, ...] = ()  # parameters that must be above 0


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _expm1(x: Doubles) -> Doubles:
    return np.asarray(np.expm1(np.minimum(x, 0.0)))


def _within(value: float | None, clip: Clip) -> float | None:
    """Return a value clipped; None stays."""
    low, high = clip
    value = value if value is None or low is None else max(value, low)
    return value if value is None or high is None else min(value, high)


def _line(offset: float, slope: float) -> Callable[..., Line]:
    return lambda *_: Line(offset, slope)


def _constant(value: float) -> Callable[..., float]:
    return lambda *_: value


_ZERO, _SAME = _line(0.0, 0.0), _line(0.0, 1.0)

FUNCTIONS: Mapping[str, Function] = {
    "silu": Function(
        real=lambda x, beta: x * _sigmoid(beta * x),
        usual={"beta": 1.0},
        below=_ZERO,
        above=_SAME,
        least=lambda beta: -0.2784645428 / beta,
        positive=("beta",),
    ),
    "hard_swish": Function(
        real=lambda x: x * np.clip(x / 6 + 0.5, 0, 1), below=_ZERO, above=_SAME, least=_constant(-0.375)
    ),
    "hard_sigmoid": Function(
        real=lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
        usual={"alpha": 0.2, "beta": 0.5},
        below=_line(0.0, 0.0),
        above=_line(1.0, 0.0),
        least=_constant(0.0),
        most=_constant(1.0),
        positive=("alpha",),
    ),
    "gelu": Function(
        real=lambda x: 0.5 * x * (1 + np.asarray(_erf(x / math.sqrt(2)), np.float64)),
        below=_ZERO,
        above=_SAME,
        least=_constant(-0.1699712075),
    ),
    "gelu_tanh": Function(
        real=lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
        below=_ZERO,
        above=_SAME,
        least=_constant(-0.1700407506),
    ),
    "mish": Function(
        real=lambda x: x * np.tanh(np.logaddexp(0.0, x)), below=_ZERO, above=_SAME, least=_constant(-0.3088434130)
    ),
    "elu": Function(
        real=lambda x, alpha: np.where(x > 0, x, alpha * _expm1(x)),
        usual={"alpha": 1.0},
        below=lambda alpha: Line(-alpha, 0.0),
        above=_SAME,
        least=lambda alpha: min(-alpha, 0.0),
    ),
    "celu": Function(
        real=lambda x, alpha: np.where(x > 0, x, alpha * _expm1(x / alpha)),
        usual={"alpha": 1.0},
        below=lambda alpha: Line(-alpha, 0.0),
        above=_SAME,
        least=lambda alpha: -alpha,
        positive=("alpha",),
    ),
    "selu": Function(
        real=lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * _expm1(x)),
        usual={"alpha": 1.6732631921768188, "gamma": 1.0507010221481323},
        below=lambda alpha, gamma: Line(-alpha * gamma, 0.0),
        above=lambda alpha, gamma: Line(0.0, gamma),
        least=lambda alpha, gamma: min(-alpha * gamma, 0.0),
        positive=("gamma",),
    ),
    "softplus": Function(
        real=lambda x, beta: np.logaddexp(0.0, beta * x) / beta,
        usual={"beta": 1.0},
        below=_ZERO,
        above=_SAME,
        least=_constant(0.0),
        positive=("beta",),
    ),
    "sigmoid": Function(
        real=lambda x: _sigmoid(x),
        below=_line(0.0, 0.0),
        above=_line(1.0, 0.0),
        least=_constant(0.0),
        most=_constant(1.0),
    ),
    "tanh": Function(
        real=lambda x: np.tanh(x),
        below=_line(-1.0, 0.0),
        above=_line(1.0, 0.0),
        least=_constant(-1.0),
        most=_constant(1.0),
    ),
    "leaky_relu": Function(
        real=lambda x, alpha: np.where(x < 0, alpha * x, x),
        usual={"alpha": 0.01},
        below=lambda alpha: Line(0.0, alpha),
        above=_SAME,
        scales=True,
    ),
    "reciprocal_root": Function(  # of a variance, which is never negative, as norms need it
        real=lambda x, epsilon: 1 / np.sqrt(np.maximum(x, 0.0) + epsilon),
        usual={"epsilon": 1e-5},
        below=lambda epsilon: Line(epsilon**-0.5, 0.0),
        above=_ZERO,
        least=_constant(0.0),
        most=lambda epsilon: float(epsilon**-0.5),
        factor=True,
        positive=("epsilon",),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Activation:
    """The use that a layer makes of the activation unit; the word that it takes is the layer's, clipped.

    `function` of FUNCTIONS and its `parameters` (none: the usual ones) belong to a table. Slopes and offsets
    of channels are the layer's parameters. `clip` bounds the result in real units. Raises NetworkError.
    """

    use: Use
    function: str = ""
    parameters: tuple[float, ...] = ()
    clip: Clip = NO_CLIP

    def __post_init__(self) -> None:
        """Fill in the usual parameters, and refuse what is no activation."""
        low, high = self.clip
        if low is not None and high is not None and not low <= high:
            raise NetworkError(f"an activation must be clipped to bounds that rise, not to {low:g}..{high:g}")
        if self.use is not Use.TABLE:
            if self.function or self.parameters:
                raise NetworkError(f"an activation by {self.use} must name no function, not '{self.function}'")
            return
        if self.function not in FUNCTIONS:
            raise NetworkError(f"a table must hold one of {', '.join(FUNCTIONS)}, not '{self.function}'")
        usual = FUNCTIONS[self.function].usual
        if not self.parameters:
            object.__setattr__(self, "parameters", tuple(usual.values()))
        if len(self.parameters) != len(usual) or not all(map(math.isfinite, self.parameters)):
            raise NetworkError(f"'{self.function}' takes {len(usual)} numbers, not {self.parameters}")
        for name, value in zip(usual, self.parameters, strict=True):
            if name in FUNCTIONS[self.function].positive and value <= 0:
                raise NetworkError(f"'{self.function}' needs a {name} above 0, not {value:g}")

    @property
    def of(self) -> Function:
        """The function of a table."""
        return FUNCTIONS[self.function]

    def real(self, x: npt.ArrayLike) -> Doubles:
        """Return a table's function of real numbers, unclipped: float64, in the shape of x."""
        return np.asarray(self.of.real(np.asarray(x, np.float64), *self.parameters), np.float64)

    @property
    def below(self) -> Line | None:
        """The line that a table's function approaches far below zero."""
        return None if self.of.below is None else self.of.below(*self.parameters)

    @property
    def above(self) -> Line | None:
        """The line that a table's function approaches far above zero."""
        return None if self.of.above is None else self.of.above(*self.parameters)

    @property
    def bounds(self) -> Clip:
        """The bounds of the result: those of a table's function, within the clip."""
        low, high = self.clip
        if self.use is Use.TABLE:
            least = None if self.of.least is None else self.of.least(*self.parameters)
            most = None if self.of.most is None else self.of.most(*self.parameters)
            low, high = (_within(bound, self.clip) for bound in (least, most))
            low, high = (own if end is None else end for own, end in zip(self.clip, (low, high), strict=True))
        return low, high

    @property
    def saturating(self) -> bool:
        """True if a table's function is constant far from zero on both sides."""
        return self.use is Use.TABLE and all(line is not None and line.slope == 0 for line in (self.below, self.above))
