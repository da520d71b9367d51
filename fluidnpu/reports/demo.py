"""The demo's page: one self-contained file, pictures inline, no script and no font from elsewhere.

Each exhibit's headline is its finding, made of the numbers of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Exploration
from fluidnpu.hls import CsimReport
from fluidnpu.host import ServeResult
from fluidnpu.models import ImageSet, Network
from fluidnpu.scheduler import Metrics, Schedule
from fluidnpu.scheduler.comparison import Carried
from fluidnpu.studies.drawing import first_merge, page_template

from .. import show
from .demo_findings import (
    board_names,
    designs_finding,
    exits_finding,
    headline,
    loads_finding,
    merge_finding,
    price_finding,
    rate,
)
from .demo_pictures import Life, StageBox, data_url, ribbons, timeline
from .design import RESOURCES
from .device_pictures import floorplan, slice_columns

PICTURES = 3  # images of each exit
LIVES = 9  # requests of the timeline


@dataclass(frozen=True, kw_only=True)
class DemoAnswers:
    """The golden model's exit, class and confidence of each image (N,), and accuracies over the images."""

    exits: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    sureness: npt.NDArray[np.float64]
    accuracy: float
    float_accuracy: float  # with early exits, too
    last_accuracy: float  # where every image goes to the last exit


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The outcome of every step of the demo, for the screen, the report and `--json`."""

    network: Network
    images: ImageSet  # that are served
    answers: DemoAnswers
    designs: Sequence[Exploration]
    csim: CsimReport
    carried: Sequence[Carried]  # without exits, then with exits
    requests: int  # a seed of `carried`
    rate_per_s: float  # of the images
    slo_ns: int
    class_names: Sequence[str]
    served: ServeResult  # by the default policy
    schedules: Sequence[Schedule]  # of every policy, of the same arrivals
    metrics: Sequence[Metrics]

    @property
    def default(self) -> Carried:
        """The row of the policy that serves the images."""
        return self.row(self.served.schedule.policy, exits=True)

    def row(self, policy: str, *, exits: bool) -> Carried:
        """The row of a policy among `carried`."""
        return next(row for row in self.carried if row.policy == policy and row.exits == exits)

    def to_json(self) -> dict[str, object]:
        """Give the numbers in plain JSON types."""
        return {
            "designs": [show.design_report(design) for design in self.designs],
            "csim": {"layers": self.csim.layers, "mismatches": self.csim.mismatches},
            "accuracy": {
                "float": self.answers.float_accuracy,
                "int16": self.answers.accuracy,
                "last_exit": self.answers.last_accuracy,
                "images": len(self.images),
            },
            "carried": [row.to_json() for row in self.carried],
            "rate_per_s": self.rate_per_s,
            "slo_ms": self.slo_ns / 1e6,
            "serving": [m.to_dict() for m in self.metrics],
        }


def render_report(demo: DemoResult) -> str:
    """Render the page as HTML text."""
    design, merged = demo.designs[0].design, first_merge(demo.served.schedule)
    stages, lives = _stages(demo), _lives(demo, merged or 0)
    without = demo.row(demo.default.policy, exits=False)
    with_exits = [row for row in demo.carried if row.exits]
    boards = board_names(demo.designs)
    return page_template(__package__, "demo.html.j2").render(
        demo=demo,
        design=design,
        boards=boards,
        rate=rate,
        headline=headline(boards[0], demo.default, without),
        without=without,
        metric=next(m for m in demo.metrics if m.policy == demo.default.policy),
        most=max(row.interval.mean + row.interval.half for row in demo.carried),
        exits_finding=exits_finding(stages[0].name, stages[0].leave, stages[0].ms / sum(s.ms for s in stages)),
        price_finding=price_finding(demo.answers.last_accuracy, demo.answers.accuracy),
        loads_finding=loads_finding(with_exits, demo.default),
        merge_finding=merge_finding(merged is not None),
        designs_finding=designs_finding(demo.designs),
        ribbons=ribbons(stages, len(demo.images)),
        exits=list(_exits(demo, stages)),
        timelines=[(width, timeline(lives, design.exits, width)) for width in (1080, 360)],
        lives=lives,
        own_ms=float(np.mean([life.runs[-1][1] - life.arrival_ns for life in lives])) / 1e6,
        other_ms=float(np.mean([life.other_ns - life.arrival_ns for life in lives])) / 1e6,
        parts=list(_parts(demo)),
    )


def _stages(demo: DemoResult) -> list[StageBox]:
    """Give each stage with its work, its time for one image alone, and the shares that reach and leave it."""
    design, exits = demo.designs[0].design, demo.answers.exits
    return [
        StageBox(
            name=name,
            macs=[layer.macs for layer in (design.layers[i] for i in design.stage_layers(stage)) if layer.macs],
            ms=design.latency.between(stage, stage, 1) / 1e6,
            reach=float(np.mean(exits >= stage)),
            leave=float(np.mean(exits == stage)),
        )
        for stage, name in enumerate(design.exits)
    ]


def _exits(demo: DemoResult, stages: Sequence[StageBox]) -> Iterator[dict[str, Any]]:
    """Yield each exit with the images that left there, and the first `PICTURES` of them."""
    answers, labels, names, ms = demo.answers, demo.images.labels, demo.class_names, 0.0
    for stage, box in enumerate(stages):
        left = np.flatnonzero(answers.exits == stage)
        ms += box.ms
        yield {
            "name": box.name,
            "box": box,
            "left": len(left),
            "onward": int(np.sum(answers.exits > stage)),
            "right": int(np.sum(answers.classes[left] == labels[left])),
            "ms": ms,
            "pictures": [
                {
                    "url": data_url(demo.images.images[i]),
                    "said": names[answers.classes[i]],
                    "is": names[labels[i]],
                    "right": bool(answers.classes[i] == labels[i]),
                    "sure": float(answers.sureness[i]),
                }
                for i in left[:PICTURES]
            ],
        }


def _lives(demo: DemoResult, first: int) -> list[Life]:
    """Give the lives of the requests from the first on, and when greedy answers them."""
    schedule = demo.served.schedule
    other = next(s for s in demo.schedules if s.policy == "greedy")
    chosen = range(first, min(first + LIVES, len(schedule.requests)))
    runs: dict[int, list[tuple[int, int, int, int]]] = {schedule.requests[i].id: [] for i in chosen}
    for run in schedule.runs:
        for key in runs.keys() & set(run.ids):
            runs[key].append((run.start_ns, run.end_ns, run.stage, len(run.ids)))
    return [
        Life(
            name=f"{demo.class_names[demo.answers.classes[i]]} {i}",
            url=data_url(demo.images.images[i]),
            arrival_ns=schedule.requests[i].arrival_ns,
            runs=tuple(runs[schedule.requests[i].id]),
            other_ns=other.end_ns[i],
        )
        for i in chosen
    ]


def _parts(demo: DemoResult) -> Iterator[dict[str, Any]]:
    """Yield each board with its columns of DSP slices and the shares of its resources."""
    for one, name in zip(demo.designs, board_names(demo.designs), strict=True):
        columns = slice_columns(one)
        yield {
            "name": name,
            "one": one,
            "picture": floorplan(columns) if columns else "",
            "resources": [(RESOURCES[key], row) for key, row in one.fitted_resources.items()],
        }
