"""The steps of the demo. Each calls a room's surface, prints the outcome and keeps it for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, Exploration, explore
from fluidnpu.hls import CsimReport, compile_program, csim_network, render_project, write_project
from fluidnpu.host import Bundle, Driver, Reply, ServeResult, open_device, serve_requests
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
from fluidnpu.models.images import SHIPPED_CLASSES
from fluidnpu.models.numeric import GuardReport
from fluidnpu.rtl_tb import sources
from fluidnpu.scheduler import Metrics, Request, Serving, draw_exits, make_policy, measure, poisson
from fluidnpu.scheduler.policies import Setting

from ... import show
from ...errors import NegativeAnswerError
from ...reports.demo import DemoResult, PaperRun
from ..helpers.designs import Search, default_cycles, explore_designs
from .load_curves import capacity, load_curves

MODEL = "resnet8_fashion_mnist.onnx"
CORES = {"zc706": "hls", "zcu104": "rtl"}  # the core of each board's project: one of each kind
SERVED = ("serial", "greedy", "fluid", "credit")
NEAR_SATURATION = 0.95  # of what the NPU could serve in full batches
SLO_OVER_LATENCY = 5.0  # objective over the latency of one sample alone through the whole network
LOADS = (0.4, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05)
LOAD_REQUESTS = 3_000
# Fluid Batching, section IV: exit rates of ResNet-50, the range of Fig. 7 and its objective
PAPER_EXIT_RATES = (0.051, 0.169, 0.09, 0.69)
PAPER_RATES = (5.0, 10.0, 15.0, 17.5, 20.0, 22.5, 25.0)
PAPER_SLO_MS = 400.0
PAPER_REQUESTS = 4_000


@dataclass(frozen=True, kw_only=True)
class DemoStream:
    """The images that are served as requests, and the golden model's exit and class of each."""

    images: ImageSet
    requests: Sequence[Request]
    exits: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    rate_per_s: float
    slo_ns: int


def run_steps(screen: Console, images: ImageSet, out: Path, seed: int) -> DemoResult:
    """Run every step on these images; projects are written into folders of `out`."""
    network, qnet, guard, narrow = _prepare(screen, images)
    designs, beside = _search(screen, network, qnet, out)
    design = designs[0].design
    csim = _verify(screen, qnet, design)
    stream = _stream(qnet, design, images, seed)
    served = _serve(screen, qnet, design, stream)
    metrics = [_measured(run, design) for run in served]
    _print_served(screen, served, metrics, stream, design)
    loads = [load * capacity(design.latency, stream.exits) for load in LOADS]
    drawn = np.random.default_rng(seed).choice(stream.exits, LOAD_REQUESTS)
    return DemoResult(
        network=network,
        guard=guard,
        narrow=narrow,
        designs=designs,
        beside=beside,
        csim=csim,
        rate_per_s=stream.rate_per_s,
        slo_ns=stream.slo_ns,
        labels=images.labels.tolist(),
        class_names=network.class_names or SHIPPED_CLASSES,
        served=served,
        metrics=metrics,
        curves=load_curves(design.latency, drawn, loads, stream.slo_ns, seed, _setting(design, stream)),
        paper=_paper_run(seed),
        near_saturation=NEAR_SATURATION,
        load_requests=LOAD_REQUESTS,
    )


def _prepare(screen: Console, images: ImageSet) -> tuple[Network, QuantisedNetwork, GuardReport, GuardReport]:
    """Read and quantise the shipped network, and guard its accuracy with words of 16 and of 8 bits."""
    with shipped_file(MODEL) as path:
        network = read_onnx(path)
    qnet = quantise(network)
    guard = accuracy_guard(network, qnet, images.images, images.labels)
    beside = quantise(network, bits=8)  # shown, not built: nothing is refused
    narrow = accuracy_guard(network, beside, images.images, images.labels, tolerance_points=100)
    exits = ", ".join(f"{exit.name} above {exit.threshold:g}" for exit in network.exits[:-1])
    screen.print(
        f"[bold]{network.name}[/]: {len(network.layers)} layers, {network.workload.macs / 1e6:.2f} MMAC, "
        f"exits {exits}, then {network.exits[-1].name}"
    )
    screen.print(
        f"accuracy with early exits on {guard.images} test images: float {100 * guard.float_accuracy:.2f} %, "
        f"int16 {100 * guard.stored_accuracy:.2f} %, int8 {100 * narrow.stored_accuracy:.2f} %\n"
    )
    return network, qnet, guard, narrow


def _search(
    screen: Console, network: Network, qnet: QuantisedNetwork, out: Path
) -> tuple[list[Exploration], list[Exploration]]:
    """Search a design and write a project for each board, and search one beside it with words of 8 bits.

    The `paper` model knows no such words.
    """
    designs, beside = [], []
    for name, core in CORES.items():
        board = load_board(name)
        search = Search(cycle_model=default_cycles(), core=core)
        exploration = explore_designs(screen, network.workload, board, search)
        program = compile_program(qnet, exploration.design)
        files = render_project(exploration.design, program, board, core=core, rtl=sources())
        write_project(files, out / name)
        designs.append(exploration)
        if search.cycle_model == "exact":
            beside.append(explore_designs(screen, network.workload, board, replace(search, bits=8)))
    screen.print(show.design_table([*designs, *beside]))
    if designs[0].design.model == "paper":
        screen.print(
            "[dim]cycles of the publication's model, which knows no waiting: those of our RTL need Numba "
            "(pip install 'fluidnpu\\[design]')[/]"
        )
    return designs, beside


def _verify(screen: Console, qnet: QuantisedNetwork, design: Design) -> CsimReport:
    """Compare C simulation with golden, at every batch size. Raises NegativeAnswerError."""
    with show.progress(screen, "C simulation of the generated HLS C++") as step:
        csim = csim_network(qnet, design, shipped_images().images[: design.b_max], progress=step)
    screen.print(f"\n[bold]C simulation[/] of the HLS C++ for {design.board} against golden: {csim.summary()}")
    if not csim.ok:
        raise NegativeAnswerError(f"C simulation must equal the golden model, and it does not: {csim.summary()}")
    return csim


def _stream(qnet: QuantisedNetwork, design: Design, images: ImageSet, seed: int) -> DemoStream:
    """Draw Poisson arrivals near saturation."""
    exits, classes, _ = golden.early_exit(qnet, images.images)
    slo_ns = round(SLO_OVER_LATENCY * design.latency.between(0, design.stages - 1, 1))
    rate = NEAR_SATURATION * capacity(design.latency, exits)
    requests = poisson(rate, len(images), slo_ns=slo_ns, rng=np.random.default_rng(seed))
    return DemoStream(images=images, requests=requests, exits=exits, classes=classes, rate_per_s=rate, slo_ns=slo_ns)


def _serve(screen: Console, qnet: QuantisedNetwork, design: Design, stream: DemoStream) -> list[ServeResult]:
    """Serve the stream under each policy on a simulated NPU.

    Raises NegativeAnswerError for an answer that is not golden.
    """
    setting = _setting(design, stream)
    program = compile_program(qnet, design)
    bundle = Bundle(design=design, program=program)
    served = []
    with show.progress(screen, "serving on the simulated NPU") as step:
        for index, name in enumerate(SERVED):
            step(index, len(SERVED))
            with open_device("simulated", bundle) as device:
                driver = Driver(device, program, design)
                driver.load()
                result = serve_requests(stream.requests, stream.images.images, make_policy(name, setting), driver)
            result.schedule.check()
            equal = _golden_answers(result, stream)
            if equal != len(stream.requests):
                raise NegativeAnswerError(
                    "served answers must equal the offline golden run, and "
                    f"under '{name}' only {equal}/{len(stream.requests)} do"
                )
            served.append(result)
    return served


def _setting(design: Design, stream: DemoStream) -> Setting:
    """Give what a policy may know before it serves; one that is solved for it is solved once."""
    return Serving.of(design).setting(stream.rate_per_s, stream.slo_ns)


def _golden_answers(served: ServeResult, stream: DemoStream) -> int:
    """Count the answers whose class and exit are the golden model's."""
    golden_answers = zip(served.replies, stream.classes, stream.exits, strict=True)
    return sum(isinstance(a, Reply) and bool(a.prediction == c and a.exit == e) for a, c, e in golden_answers)


def _measured(served: ServeResult, design: Design) -> Metrics:
    """Measure a schedule with every request counted."""
    macs = [sum(design.layers[i].macs for i in design.stage_layers(stage)) for stage in range(design.stages)]
    return measure(served.schedule, warmup=0, macs=macs, peak_macs_per_s=float(design.macs_per_cycle * design.clock_hz))


def _print_served(
    screen: Console, served: Sequence[ServeResult], metrics: Sequence[Metrics], stream: DemoStream, design: Design
) -> None:
    count, labels = len(stream.requests), stream.images.labels
    right = [
        sum(isinstance(a, Reply) and bool(a.prediction == y) for a, y in zip(run.replies, labels, strict=True))
        for run in served
    ]
    title = (
        f"{count} images served on the simulated {design.board} at {stream.rate_per_s:.0f}/s "
        f"({100 * NEAR_SATURATION:.0f} % of capacity), SLO {stream.slo_ns / 1e6:.2f} ms"
    )
    extra = {
        "accuracy": [f"{100 * (n / count):.2f} %" for n in right],
        "equal to golden": [f"{_golden_answers(run, stream)}/{count}" for run in served],
    }
    shares = ", ".join(f"{name} {m:.1f} %" for name, m in zip(design.exits, metrics[0].exit_pct, strict=True))
    screen.print()
    screen.print(show.serving_table(title, metrics, extra))
    screen.print(f"  [dim]exits taken: {shares}; every request got exactly one answer[/]")
    gain = 100 * (batch_gain(design) - 1)
    screen.print(
        f"  [dim]a full batch is {gain:.0f} % faster an image than single ones; the report shows ResNet-50 on the "
        "hardware of Fluid Batching, too[/]"
    )
    screen.print(f"  [dim]{why_default(metrics)}[/]")


def why_default(metrics: Sequence[Metrics]) -> str:
    """Say what `fluid`, the default of a server, holds that `credit` does not, with the tails of this run."""
    p99_ms = {metric.policy: metric.p99_ms for metric in metrics}
    return (
        "fluid is a server's default: it need not know the load and bounds every wait; credit is solved for this load, "
        f"and its p99 is {p99_ms['credit'] / p99_ms['fluid']:.1f} times fluid's (docs/explanation/scheduling)"
    )


def batch_gain(design: Design) -> float:
    """Give the images a second in full batches over those one by one, through the whole network."""
    last, most = design.stages - 1, design.b_max
    return most * design.latency.between(0, last, 1) / design.latency.between(0, last, most)


def _paper_run(seed: int) -> PaperRun:
    """Simulate Fig. 7 of Fluid Batching: ResNet-50 on ZC706, at the paper's rates, loads and objective.

    The network is cut at equal MACs.
    """
    with shipped_file("layers_resnet50.json") as path:
        work = equidistant_exits(read_layer_table(path), len(PAPER_EXIT_RATES), PAPER_EXIT_RATES)
    exploration = explore(work, load_board("zc706"), memory="ps", model="paper", core="rtl")
    exits = draw_exits(PAPER_EXIT_RATES, PAPER_REQUESTS, np.random.default_rng(seed))
    curves = load_curves(exploration.design.latency, exits, PAPER_RATES, round(PAPER_SLO_MS * 1e6), seed)
    return PaperRun(exploration=exploration, slo_ms=PAPER_SLO_MS, requests=PAPER_REQUESTS, curves=curves)
