"""The main job end to end: a trained early-exit network is designed for, verified on and served by the simulated NPU.

Nothing here computes what a room computes: each step calls a room's surface and keeps its answer for the report.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from boards import load_board
from dse import Exploration, LatencyTable, explore
from hls import CsimReport, compile_program, csim_network, render_project, write_project
from host import Bundle, Driver, Served, open_device, serve
from models import (
    GuardReport,
    ImageSet,
    Network,
    QuantisedNetwork,
    accuracy_guard,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from scheduler import Metrics, Request, make_policy, measure, poisson, requests_at, simulate

from . import show
from .errors import NegativeAnswerError, UsageError
from .figures import LoadPoint
from .report import write_report
from .trace import trace

MODEL = "resnet8_fashion_mnist.onnx"
BOARDS = ("zc706", "zcu104")
POLICIES = ("serial", "greedy", "fluid")
NEAR_SATURATION = 0.95  # of what the NPU could serve in full batches
SLO_OVER_LATENCY = 5.0  # objective over the latency of one sample alone through the whole network
LOADS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05)
LOAD_REQUESTS = 10_000


@dataclass(kw_only=True)
class Demo:
    """Everything the demo found out, for the report."""

    network: Network
    qnet: QuantisedNetwork
    guard: GuardReport
    designs: list[Exploration] = field(default_factory=list)
    csim: CsimReport | None = None
    rate_per_s: float = 0.0
    slo_ns: int = 0
    served: list[Served] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    curves: dict[str, list[LoadPoint]] = field(default_factory=dict)
    near_saturation: float = NEAR_SATURATION
    load_requests: int = LOAD_REQUESTS


def run(out: Path, *, requests: int, seed: int, as_json: bool) -> None:
    """Run every step, print what it found, leave report, trace and projects in `out`."""
    started = time.monotonic()
    screen = show.console(as_json)
    images = shipped_images()
    if not 1 <= requests <= len(images):
        raise UsageError(f"--requests must lie in 1..{len(images)}, the images that come with fluidnpu, not {requests}")
    images = images[:requests]
    out.mkdir(parents=True, exist_ok=True)
    demo = _model(screen, images)
    _designs(screen, demo, out)
    _verify(screen, demo, images)
    _serve(screen, demo, images, seed)
    demo.curves = load_curves(demo.designs[0].design.latency, demo, _golden_exits(demo, images), seed)
    report, timeline = out / "report.html", out / "trace.json"
    timeline.write_text(trace([one.schedule for one in demo.served], demo.designs[0].design.exits), encoding="utf-8")
    write_report(demo, report)
    screen.print(
        f"\nreport [bold]{report}[/]   trace for Perfetto [bold]{timeline}[/]   projects [bold]{out}/zc706 {out}/zcu104[/]"
    )
    screen.print(f"{time.monotonic() - started:.0f} s in all")
    if as_json:
        show.emit(summary(demo))


def _model(screen: Console, images: ImageSet) -> Demo:
    with shipped_file(MODEL) as path:
        network = read_onnx(path)
    qnet = quantise(network)
    guard = accuracy_guard(network, qnet, images.images, images.labels)
    exits = ", ".join(f"{exit.name} above {exit.threshold:g}" for exit in network.exits[:-1])
    screen.print(
        f"[bold]{network.name}[/]: {len(network.layers)} layers, {network.workload.macs / 1e6:.2f} MMAC, exits {exits}, then {network.exits[-1].name}"
    )
    screen.print(
        f"accuracy with early exits on {guard.images} test images: float {100 * guard.float_accuracy:.2f} %, "
        f"int16 {100 * guard.int16_accuracy:.2f} % ({guard.saturations} saturations)\n"
    )
    return Demo(network=network, qnet=qnet, guard=guard)


def _designs(screen: Console, demo: Demo, out: Path) -> None:
    for name in BOARDS:
        board = load_board(name)
        demo.designs.append(explore(demo.network.workload, board))
        design = demo.designs[-1].design
        program = compile_program(demo.qnet, design)
        write_project(render_project(design, program, board), out / name)
    screen.print(show.design_table(demo.designs))
    for note in dict.fromkeys(note for one in demo.designs for note in one.notes):
        screen.print(f"  [dim]{note}[/]")


def _verify(screen: Console, demo: Demo, images: ImageSet) -> None:
    design = demo.designs[0].design
    with show.progress(screen, "C simulation of the generated HLS C++") as step:
        demo.csim = csim_network(demo.qnet, design, images.images, batches=(1, design.b_max), progress=step)
    name = demo.designs[0].board.name
    screen.print(f"\n[bold]C simulation[/] of the HLS C++ for {name} against golden: {demo.csim.summary()}")
    if not demo.csim.ok:
        raise NegativeAnswerError(f"C simulation must equal the golden model, and it does not: {demo.csim.summary()}")


def _golden_exits(demo: Demo, images: ImageSet) -> npt.NDArray[np.int64]:
    return golden.early_exit(demo.qnet, images.images)[0]


def _serve(screen: Console, demo: Demo, images: ImageSet, seed: int) -> None:
    design = demo.designs[0].design
    exits, classes, _ = golden.early_exit(demo.qnet, images.images)
    demo.slo_ns = round(SLO_OVER_LATENCY * design.latency.between(0, design.stages - 1, 1))
    demo.rate_per_s = NEAR_SATURATION * capacity(design.latency, exits)
    requests = poisson(demo.rate_per_s, len(images), slo_ns=demo.slo_ns, rng=np.random.default_rng(seed))
    program = compile_program(demo.qnet, design)
    bundle = Bundle(design=design, program=program)
    same, answered = [], []
    with show.progress(screen, "serving on the simulated NPU") as step:
        for index, name in enumerate(POLICIES):
            step(index, len(POLICIES))
            with open_device("simulated", bundle) as device:
                driver = Driver(device, program, design)
                driver.load()
                served = serve(requests, images.images, make_policy(name), driver)
            served.schedule.check()
            equal = sum(
                a.prediction == c and a.exit == e for a, c, e in zip(served.answers, classes, exits, strict=True)
            )
            same.append(f"{equal}/{len(requests)}")
            answered.append(
                f"{100 * np.mean([a.prediction == y for a, y in zip(served.answers, images.labels, strict=True)]):.2f} %"
            )
            demo.served.append(served)
            demo.metrics.append(measure_served(served, demo))
            if equal != len(requests):
                raise NegativeAnswerError(
                    f"served answers must equal the offline golden run, and under '{name}' only {same[-1]} do"
                )
    title = (
        f"{len(requests)} images served on the simulated {demo.designs[0].board.name} at {demo.rate_per_s:.0f}/s "
        f"({100 * NEAR_SATURATION:.0f} % of capacity), SLO {demo.slo_ns / 1e6:.2f} ms"
    )
    screen.print()
    screen.print(show.serving_table(title, demo.metrics, {"accuracy": answered, "equal to golden": same}))


def capacity(latency: LatencyTable, exits: npt.NDArray[np.int64]) -> float:
    """Samples a second in full batches only: what no policy can exceed where larger batches are never slower per sample."""
    stages, batch = latency.stages, latency.b_max
    reach = [float(np.mean(exits >= stage)) for stage in range(stages)]
    return 1e9 / sum(share * latency.ns[stage][batch - 1] / batch for stage, share in enumerate(reach))


def measure_served(served: Served, demo: Demo) -> Metrics:
    """Metrics of a schedule on the first design, every request counted."""
    design = demo.designs[0].design
    macs = [sum(design.layers[i].macs for i in design.stage_layers(stage)) for stage in range(design.stages)]
    return measure(served.schedule, warmup=0, macs=macs, peak_macs_per_s=float(design.macs_per_cycle * design.clock_hz))


def load_curves(
    latency: LatencyTable, demo: Demo, exits: npt.NDArray[np.int64], seed: int
) -> dict[str, list[LoadPoint]]:
    """Each policy over a range of loads in the simulator, samples drawn from the real images' exits."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(exits, LOAD_REQUESTS)
    gaps = rng.exponential(1e9, LOAD_REQUESTS)
    rates = tuple(float(np.mean(exits == stage)) for stage in range(latency.stages))
    curves: dict[str, list[LoadPoint]] = {name: [] for name in POLICIES}
    for load in LOADS:
        rate = load * capacity(latency, exits)
        requests: list[Request] = requests_at(np.cumsum(gaps / rate).astype(np.int64), demo.slo_ns)
        for name in POLICIES:
            found = measure(
                simulate(requests, make_policy(name), latency=latency, exits=drawn.tolist(), exit_rates=rates)
            )
            point = LoadPoint(
                rate_per_s=rate,
                average_ms=found.average_ms,
                p99_ms=found.p99_ms,
                violations_pct=found.violations_pct,
                utilisation_pct=found.busy_pct,
            )
            curves[name].append(point)
    return curves


def summary(demo: Demo) -> dict[str, object]:
    """The demo in plain JSON types."""
    assert demo.csim is not None
    return {
        "designs": [one.to_json() for one in demo.designs],
        "csim": {"layers": demo.csim.layers, "mismatches": demo.csim.mismatches},
        "accuracy": {
            "float": demo.guard.float_accuracy,
            "int16": demo.guard.int16_accuracy,
            "images": demo.guard.images,
        },
        "rate_per_s": demo.rate_per_s,
        "slo_ms": demo.slo_ns / 1e6,
        "serving": [m.to_dict() for m in demo.metrics],
    }
