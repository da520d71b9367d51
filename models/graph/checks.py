"""Exit checks: the number of 0..1 that an exit's values become, before the exit's threshold is compared.

>>> read_check("segmentation:shape=24x32x5,count=0.75,every=2").text
'segmentation:shape=24x32x5,count=0.75,every=2'
>>> read_check("margin")
<ExitCheck.MARGIN: 'margin'>
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import NetworkError
from .shapes import Shape

MOST_LABELS = 256  # so that a label map is a byte a pixel


class ExitCheck(str, Enum):
    """The check of a classifier's exits; every exit has a threshold of its own on it (PAME, section 5.3).

    top: the largest softmax probability. certainty: 1 less the entropy over that of no knowledge. margin: the
    largest probability less the second. agreement: the largest probability where the exit before named the
    same class, else 0, so nobody leaves at the first exit (after PABEE).
    """

    TOP = "top"
    CERTAINTY = "certainty"
    MARGIN = "margin"
    AGREEMENT = "agreement"

    @property
    def text(self) -> str:
        """The check as a model file has it."""
        return self.value


class MapTask(str, Enum):
    """The meaning of an exit's maps: heat maps of landmarks, or a score of every label for each pixel."""

    LANDMARKS = "landmarks"
    SEGMENTATION = "segmentation"


@dataclass(frozen=True, kw_only=True)
class MapCheck:
    """The check of exits that give maps: a reduction to principal values, and a count (PAME, Fig. 6).

    The exits' values are `shape` (height, width, channels): a heat map a landmark, or a score a label. The
    reduction takes of landmarks the `top` highest values of each map (through a sigmoid), of a segmentation
    the largest softmax probability of every `every`-th pixel of every `every`-th row. A sample leaves if more
    than the share `count` of these principal values exceed the exit's threshold, which is the confidence.
    Raises NetworkError.
    """

    task: MapTask
    shape: Shape
    count: float = 0.5
    top: int = 5
    every: int = 1

    def __post_init__(self) -> None:
        """Refuse a check that no map can meet; what is not the task's is as if not given."""
        spare = "every" if self.task is MapTask.LANDMARKS else "top"
        object.__setattr__(self, spare, type(self).__dataclass_fields__[spare].default)
        height, width, channels = self.shape
        if min(self.shape) < 1 or (self.task is MapTask.SEGMENTATION and not 2 <= channels <= MOST_LABELS):
            raise NetworkError(
                f"maps must have pixels, and of a segmentation 2 to {MOST_LABELS} labels, not {self.shape}"
            )
        if not 0 <= self.count < 1:
            raise NetworkError(f"the count of principal values must be a share of at least 0 below 1, not {self.count}")
        if self.task is MapTask.LANDMARKS and not 1 <= self.top <= height * width:
            raise NetworkError(
                f"the highest values of a heat map must be 1..{height * width} of its pixels, not {self.top}"
            )
        if self.task is MapTask.SEGMENTATION and not 1 <= self.every <= min(height, width):
            raise NetworkError(f"the step between pixels must be 1..{min(height, width)} of this map, not {self.every}")

    @property
    def values(self) -> int:
        """The number of principal values of a sample."""
        height, width, channels = self.shape
        if self.task is MapTask.LANDMARKS:
            return channels * self.top
        return -(-height // self.every) * -(-width // self.every)

    @property
    def needed(self) -> int:
        """The least number of principal values above the threshold with which a sample leaves."""
        return int(self.count * self.values + 1e-9) + 1  # 0.7 * 10 must be 7 whatever the last bit says

    @property
    def text(self) -> str:
        """The check as a model file has it; `read_check` inverts it."""
        own = f"top={self.top}" if self.task is MapTask.LANDMARKS else f"every={self.every}"
        return f"{self.task.value}:shape={'x'.join(map(str, self.shape))},count={self.count!r},{own}"


Check = ExitCheck | MapCheck


def read_check(text: str) -> Check:
    """Read a check as a model file has it. Raises NetworkError."""
    word, colon, rest = text.partition(":")
    if not colon and word in set(ExitCheck):
        return ExitCheck(word)
    own = {MapTask.LANDMARKS.value: "top", MapTask.SEGMENTATION.value: "every"}
    facts = dict(pair.split("=", 1) for pair in rest.split(",") if "=" in pair)
    if word not in own or set(facts) != {"shape", "count", own[word]}:
        names = ", ".join([*(check.value for check in ExitCheck), *(f"{task}:..." for task in own)])
        raise NetworkError(f"the exit check must be one of {names}, not '{text[:60]}'")
    try:
        height, width, channels = (int(size) for size in facts["shape"].split("x"))
        given = {own[word]: int(facts[own[word]])}
        count = float(facts["count"])
    except ValueError:
        raise NetworkError(f"the exit check's shape, count and step must be numbers, not '{text[:80]}'") from None
    return MapCheck(task=MapTask(word), shape=(height, width, channels), count=count, **given)
