"""The demo's page: one self-contained file, figures inline, no script and no font from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluidnpu.dse import Exploration
from fluidnpu.hls import CsimReport
from fluidnpu.host import ServeResult
from fluidnpu.models import Network
from fluidnpu.models.numeric import GuardReport
from fluidnpu.scheduler import Metrics
from fluidnpu.studies.drawing import (
    PALETTE,
    first_merge,
    inline_figure,
    inline_panels,
    page_template,
    schedule_timeline,
)

from .. import show
from .design import plan_map
from .figures import LoadPoint, load_curves, speed_panels


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """ResNet-50 as in the paper's Fig. 7: our design for it, its traffic, every policy in the simulator."""

    exploration: Exploration
    slo_ms: float
    requests: int
    curves: Mapping[str, Sequence[LoadPoint]]


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The outcome of every step of the demo, for the report and for `--json`."""

    network: Network
    guard: GuardReport
    narrow: GuardReport  # with words of 8 bits
    designs: Sequence[Exploration]
    beside: Sequence[Exploration]  # the same boards with words of 8 bits; empty of the `paper` model
    csim: CsimReport
    rate_per_s: float
    slo_ns: int
    labels: Sequence[int]  # of the images that are served
    class_names: Sequence[str]
    served: Sequence[ServeResult]
    metrics: Sequence[Metrics]
    curves: Mapping[str, Sequence[LoadPoint]]
    paper: PaperRun
    near_saturation: float  # load of the serving, over what full batches could sustain
    load_requests: int  # a point of the curves

    @property
    def every_design(self) -> list[Exploration]:
        """The designs with words of 16 bits, then those of 8."""
        return [*self.designs, *self.beside]

    def to_json(self) -> dict[str, object]:
        """Give the numbers in plain JSON types."""
        return {
            "designs": [show.design_report(design) for design in self.designs],
            "designs_int8": [show.design_report(design, front=False) for design in self.beside],
            "csim": {"layers": self.csim.layers, "mismatches": self.csim.mismatches},
            "accuracy": {
                "float": self.guard.float_accuracy,
                "int16": self.guard.stored_accuracy,
                "int8": self.narrow.stored_accuracy,
                "images": self.guard.images,
            },
            "rate_per_s": self.rate_per_s,
            "slo_ms": self.slo_ns / 1e6,
            "serving": [m.to_dict() for m in self.metrics],
        }


def _named_answers(demo: DemoResult, served: ServeResult) -> dict[int, str]:
    """Return the class of each answer by the number of its request."""
    return {
        request.id: demo.class_names[answer.prediction]
        for request, answer in zip(served.schedule.requests, served.answers, strict=True)
    }


def _class_rows(demo: DemoResult) -> list[dict[str, Any]]:
    """Return a row a class of the images: how many, how many right answers, and how many left at each exit.

    Every policy gives the same answers, so they are those of the first.
    """
    answers, exits = demo.served[0].answers, demo.designs[0].design.exits
    rows = []
    for index, name in enumerate(demo.class_names):
        own = [answer for answer, label in zip(answers, demo.labels, strict=True) if label == index]
        left = [sum(answer.exit == exit for answer in own) for exit in range(len(exits))]
        right = sum(answer.prediction == index for answer in own)
        rows.append(
            {"name": name, "images": len(own), "right": right, "left": list(zip(exits, left, PALETTE, strict=False))}
        )
    return rows


def render_report(demo: DemoResult) -> str:
    """Render the page as HTML text."""
    design = demo.designs[0].design
    merges = (first_merge(run.schedule) for run in demo.served)
    first = next(
        (index for index in merges if index), 0
    )  # where a policy first merges a halted batch with newer samples
    return page_template(__package__, "demo.html.j2").render(
        demo=demo,
        board=demo.designs[0].board,
        design=design,
        speed=inline_panels(speed_panels({design.board.name: design.batch_ms for design in demo.designs})),
        plan=inline_figure(plan_map(demo.designs[0]), "Use of the array by layer and batch size"),
        curves=inline_figure(load_curves(demo.curves, demo.slo_ns / 1e6, demo.rate_per_s), "Policies by arrival rate"),
        paper_curves=inline_figure(
            load_curves(demo.paper.curves, demo.paper.slo_ms), "Policies by arrival rate, ResNet-50"
        ),
        classes=_class_rows(demo),
        exits_key=[(name, colour, None) for name, colour in zip(design.exits, PALETTE, strict=False)],
        timelines=[
            (policy, inline_figure(drawn, f"Batches over time, {policy}"))
            for policy, drawn in (
                (
                    served.schedule.policy,
                    schedule_timeline(
                        served.schedule, first, design.exits, label="sample", answers=_named_answers(demo, served)
                    ),
                )
                for served in reversed(demo.served)
            )
        ],
    )
