"""The main job end to end: a trained early-exit network is designed for, verified on and served by the simulated NPU.

Nothing here computes what a room computes: each step calls a room's surface and keeps its answer for the report.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from fluidnpu.boards import load_board
from fluidnpu.dse import Exploration, LatencyTable, explore
from fluidnpu.hls import CsimReport, compile_program, csim_network, render_project, write_project
from fluidnpu.host import Bundle, Driver, ServeResult, open_device, serve_requests
from fluidnpu.models import (
    ImageSet,
    Network,
    QuantisedNetwork,
    accuracy_guard,
    golden,
    quantise,
    read_layer_table,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.exits import equidistant_exits
from fluidnpu.models.numeric import GuardReport
from fluidnpu.rtl_tb import sources
from fluidnpu.scheduler import Metrics, Serving, draw_exits, make_policy, measure, poisson, requests_at, simulate

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..reports.demo import write_report
from ..reports.figures import LoadPoint
from ..reports.trace import trace

MODEL = "resnet8_fashion_mnist.onnx"
CORES = {"zc706": "hls", "zcu104": "rtl"}  # the core of each board's project: one of each kind
BOARDS = tuple(CORES)
POLICIES = ("serial", "greedy", "fluid")
SERVED = (*POLICIES, "credit")  # `credit` is solved for one rate, so it is shown at the demo's own, not over all loads
NEAR_SATURATION = 0.95  # of what the NPU could serve in full batches
SLO_OVER_LATENCY = 5.0  # objective over the latency of one sample alone through the whole network
LOADS = (0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05)
LOAD_REQUESTS = 4_000
# Fluid Batching, section IV: exit rates of ResNet-50, the range of Fig. 7 and its objective
PAPER_EXIT_RATES = (0.051, 0.169, 0.09, 0.69)
PAPER_RATES = (5.0, 10.0, 15.0, 17.5, 20.0, 22.5, 25.0)
PAPER_SLO_MS = 400.0
PAPER_REQUESTS = 4_000


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """ResNet-50 as in the paper's Fig. 7: our design for it, its traffic, every policy in the simulator."""

    found: Exploration
    slo_ms: float
    requests: int
    curves: dict[str, list[LoadPoint]]


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
    served: list[ServeResult] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    curves: dict[str, list[LoadPoint]] = field(default_factory=dict)
    paper: PaperRun | None = None
    near_saturation: float = NEAR_SATURATION
    load_requests: int = LOAD_REQUESTS


def run(out: Path, *, requests: int, seed: int, as_json: bool) -> None:
    """Run every step, print what it found, leave report, trace and projects in `out`."""
    started = time.monotonic()
    screen = show.console(as_json)
    all_images = shipped_images()
    if not 1 <= requests <= len(all_images):
        raise UsageError(
            f"--requests must lie in 1..{len(all_images)}, the images that come with fluidnpu, not {requests}"
        )
    images = all_images[:requests]
    out.mkdir(parents=True, exist_ok=True)
    demo = _model(screen, images)
    _designs(screen, demo, out)
    _verify(screen, demo, all_images)
    _serve(screen, demo, images, seed)
    exits = golden.early_exit(demo.qnet, images.images)[0]
    latency = demo.designs[0].design.latency
    loads = [load * capacity(latency, exits) for load in LOADS]
    demo.curves = load_curves(
        latency, np.random.default_rng(seed).choice(exits, LOAD_REQUESTS), loads, demo.slo_ns, seed
    )
    demo.paper = paper_run(seed)
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
        write_project(render_project(design, program, board, core=CORES[name], rtl=sources()), out / name)
    screen.print(show.design_table(demo.designs))
    for note in dict.fromkeys(note for one in demo.designs for note in one.notes):
        where = [one.board.name for one in demo.designs if note in one.notes]
        label = "" if len(where) == len(demo.designs) else f"{', '.join(where)}: "
        screen.print(f"  [dim]{label}{note}[/]")


def _verify(screen: Console, demo: Demo, images: ImageSet) -> None:
    design = demo.designs[0].design
    with show.progress(screen, "C simulation of the generated HLS C++") as step:
        demo.csim = csim_network(demo.qnet, design, images.images[: design.b_max], progress=step)
    name = demo.designs[0].board.name
    screen.print(f"\n[bold]C simulation[/] of the HLS C++ for {name} against golden: {demo.csim.summary()}")
    if not demo.csim.ok:
        raise NegativeAnswerError(f"C simulation must equal the golden model, and it does not: {demo.csim.summary()}")


def _serve(screen: Console, demo: Demo, images: ImageSet, seed: int) -> None:
    design = demo.designs[0].design
    exits, classes, _ = golden.early_exit(demo.qnet, images.images)
    demo.slo_ns = round(SLO_OVER_LATENCY * design.latency.between(0, design.stages - 1, 1))
    demo.rate_per_s = NEAR_SATURATION * capacity(design.latency, exits)
    requests = poisson(demo.rate_per_s, len(images), slo_ns=demo.slo_ns, rng=np.random.default_rng(seed))
    setting = Serving.of(design).setting(demo.rate_per_s, demo.slo_ns)
    program = compile_program(demo.qnet, design)
    bundle = Bundle(design=design, program=program)
    same, answered = [], []
    with show.progress(screen, "serving on the simulated NPU") as step:
        for index, name in enumerate(SERVED):
            step(index, len(SERVED))
            with open_device("simulated", bundle) as device:
                driver = Driver(device, program, design)
                driver.load()
                served = serve_requests(requests, images.images, make_policy(name, setting), driver)
            served.schedule.check()
            equal = sum(
                a.prediction == c and a.exit == e for a, c, e in zip(served.replies, classes, exits, strict=True)
            )
            same.append(f"{equal}/{len(requests)}")
            answered.append(
                f"{100 * np.mean([a.prediction == y for a, y in zip(served.replies, images.labels, strict=True)]):.2f} %"
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
    shares = ", ".join(f"{name} {m:.1f} %" for name, m in zip(design.exits, demo.metrics[0].exit_pct, strict=True))
    screen.print()
    screen.print(show.serving_table(title, demo.metrics, {"accuracy": answered, "equal to golden": same}))
    screen.print(f"  [dim]exits taken: {shares}; every request got exactly one answer[/]")
    screen.print(
        "  [dim]credit is ours: it favours answers that can still be in time, and pays with the tail (docs/scheduling.md)[/]"
    )


def capacity(latency: LatencyTable, exits: npt.NDArray[np.int64]) -> float:
    """Samples a second in full batches only: what no policy can exceed where larger batches are never slower per sample."""
    stages, batch = latency.stages, latency.b_max
    reach = [float(np.mean(exits >= stage)) for stage in range(stages)]
    return 1e9 / sum(share * latency.ns[stage][batch - 1] / batch for stage, share in enumerate(reach))


def measure_served(served: ServeResult, demo: Demo) -> Metrics:
    """Metrics of a schedule on the first design, every request counted."""
    design = demo.designs[0].design
    macs = [sum(design.layers[i].macs for i in design.stage_layers(stage)) for stage in range(design.stages)]
    return measure(served.schedule, warmup=0, macs=macs, peak_macs_per_s=float(design.macs_per_cycle * design.clock_hz))


def load_curves(
    latency: LatencyTable, exits: npt.NDArray[np.int64], rates_per_s: Sequence[float], slo_ns: int, seed: int
) -> dict[str, list[LoadPoint]]:
    """Each policy over a range of Poisson loads in the simulator; request i leaves at `exits[i]`, gaps are the same but for the rate."""
    gaps = np.random.default_rng(seed).exponential(1e9, len(exits))
    shares = tuple(float(np.mean(exits == stage)) for stage in range(latency.stages))
    curves: dict[str, list[LoadPoint]] = {name: [] for name in POLICIES}
    for rate in rates_per_s:
        requests = requests_at(np.cumsum(gaps / rate).astype(np.int64), slo_ns)
        for name in POLICIES:
            done = simulate(requests, make_policy(name), latency=latency, exits=exits.tolist(), exit_rates=shares)
            found = measure(done)
            curves[name].append(
                LoadPoint(
                    rate_per_s=rate,
                    average_ms=found.average_ms,
                    p99_ms=found.p99_ms,
                    violations_pct=found.violations_pct,
                    utilisation_pct=found.busy_pct,
                )
            )
    return curves


def paper_run(seed: int) -> PaperRun:
    """Fig. 7 of Fluid Batching in simulation: ResNet-50 cut at equal MACs on ZC706, the paper's exit rates, loads and objective."""
    with shipped_file("layers_resnet50.json") as path:
        work = equidistant_exits(read_layer_table(path), len(PAPER_EXIT_RATES), PAPER_EXIT_RATES)
    found = explore(work, load_board("zc706"))
    exits = draw_exits(PAPER_EXIT_RATES, PAPER_REQUESTS, np.random.default_rng(seed))
    curves = load_curves(found.design.latency, exits, PAPER_RATES, round(PAPER_SLO_MS * 1e6), seed)
    return PaperRun(found=found, slo_ms=PAPER_SLO_MS, requests=PAPER_REQUESTS, curves=curves)


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
