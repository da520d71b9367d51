"""One-sided confidence bounds on shares of right answers, without SciPy, which a board has not.

>>> round(share_below(right=950, samples=1000, risk=0.05), 4)
0.9371
>>> round(gain_below(both=900, first=30, second=20, neither=50, ratio=0.99, risk=0.05), 4)
0.0065
"""

from __future__ import annotations

import math
from statistics import NormalDist

from ..errors import SchedulerError


def share_below(*, right: int, samples: int, risk: float) -> float:
    """Return a share that the true one exceeds with probability 1 - risk: Clopper and Pearson's, exact.

    `right` of `samples` independent samples were right. Raises SchedulerError.
    """
    _check(risk)
    if not 0 <= right <= samples or samples < 1:
        raise SchedulerError(f"right answers must be 0..{samples} of at least one sample, not {right}")
    if right == 0:
        return 0.0
    low, high = 0.0, right / samples
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(right, samples, middle) < risk else (low, middle)
    return low


def gain_below(*, both: int, first: int, second: int, neither: int, ratio: float, risk: float) -> float:
    """Return a value that the first share less `ratio` times the second exceeds with probability 1 - risk.

    The counts are of paired samples: both answers right, only the first, only the second, none. Normal
    approximation of the mean of the paired differences, so for hundreds of samples, not for ten; with one
    unlucky sample added, so that samples without a difference prove nothing.
    """
    _check(risk)
    n = both + first + second + neither + 1
    if n < 3:
        raise SchedulerError(f"a paired bound must have at least two samples, not {n - 1}")
    lost = second + 1  # as if the next sample were one that only the second gets right: it was not seen, yet may exist
    mean = (both + first - ratio * (both + lost)) / n
    square = (both * (1 - ratio) ** 2 + first + lost * ratio**2) / n
    deviation = math.sqrt(max(square - mean * mean, 0.0) * n / (n - 1))
    return mean - NormalDist().inv_cdf(1 - risk) * deviation / math.sqrt(n)


def _check(risk: float) -> None:
    if not 0 < risk < 0.5:
        raise SchedulerError(f"a risk must lie above 0 and below 50 %, not {100 * risk:g} %")


def _at_least(right: int, samples: int, share: float) -> float:
    """Return the probability of at least `right` of `samples` when each is right with this share."""
    if share <= 0:
        return 0.0
    odds = share / (1 - share)
    term = math.exp(
        math.lgamma(samples + 1)
        - math.lgamma(right + 1)
        - math.lgamma(samples - right + 1)
        + right * math.log(share)
        + (samples - right) * math.log1p(-share)
    )
    total = 0.0
    for k in range(right, samples + 1):
        total += term
        term *= odds * (samples - k) / (k + 1)
        if term < 1e-18 * total:
            break
    return total
