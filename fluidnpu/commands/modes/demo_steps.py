"""The steps of the demo. Each calls a room's surface, shows its progress and keeps its outcome."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, Exploration, answer
from fluidnpu.hls import CsimReport, compile_program, csim_network, write_project
from fluidnpu.host import Bundle, Driver, ServeResult, open_device, serve_requests
from fluidnpu.models import (
    ImageSet,
    Network,
    QuantisedNetwork,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.exits import early_exit_predictions
from fluidnpu.models.images import SHIPPED_CLASSES
from fluidnpu.models.numeric import run_float
from fluidnpu.scheduler import Metrics, Schedule, Serving, World, make_policy, measure, poisson, simulate
from fluidnpu.scheduler.comparison import Carried, OfferedLoad, carried_load

from ... import show
from ...errors import NegativeAnswerError
from ...reports.demo import DemoAnswers, DemoResult
from ..helpers.designs import Search, default_cycles, question_of
from ..helpers.projects import project_files

MODEL = "resnet8_fashion_mnist.onnx"
Progress = Callable[[int, int], None]  # (done, in all)
CORES = {"zc706": "hls", "zcu104": "rtl"}  # the core of each board's project: one of each kind
DEFAULT = "fluid"  # the policy that serves the images, a server's default
POLICIES = ("serial", "greedy", DEFAULT, "credit")
WITHOUT_EXITS = ("serial", DEFAULT)
SLO_OVER_LATENCY = 5.0  # objective over the latency of one sample alone through the whole network
MOST_LOST = 0.5  # points of accuracy that words of 16 bits may lose against float
EVALUATIONS = 2  # arrays that a search counts; 8, as `fluidnpu dse` counts, give the same two designs
SEEDS, REQUESTS = 5, 3_000  # of the search for what a policy carries


def run_steps(screen: Console, images: ImageSet, out: Path, seed: int) -> DemoResult:
    """Run every step on these images; projects are written into folders of `out`.

    Raises NegativeAnswerError where integers, generated C++ or an answer are not what they must be.
    """
    with (
        show.dotted(screen, f"answers of {len(images)} images, in float and int16") as step,
        shipped_file(MODEL) as path,
    ):
        network = read_onnx(path)
        qnet = quantise(network)
        answers = _answers(network, qnet, images, step)
    designs = [_design(screen, network, qnet, board, core, out) for board, core in CORES.items()]
    design = designs[0].design
    csim = _verify(screen, qnet, design)
    slo_ns = round(SLO_OVER_LATENCY * design.latency.between(0, design.stages - 1, 1))
    load = OfferedLoad.drawn(answers.exits, slo_ns, seed, (SEEDS, REQUESTS))
    carried = _carried(screen, design, load)
    rate = next(row for row in carried if row.exits and row.policy == DEFAULT).interval.mean
    served, schedules = _serve(screen, qnet, design, images, answers, rate, slo_ns, seed)
    return DemoResult(
        network=network,
        images=images,
        answers=answers,
        designs=designs,
        csim=csim,
        carried=carried,
        requests=REQUESTS,
        rate_per_s=rate,
        slo_ns=slo_ns,
        class_names=network.class_names or SHIPPED_CLASSES,
        served=served,
        schedules=schedules,
        metrics=[_measured(schedule, design) for schedule in schedules],
    )


def _answers(network: Network, qnet: QuantisedNetwork, images: ImageSet, step: Progress) -> DemoAnswers:
    """Give the golden model's answers, with and without early exits, beside float.

    Raises NegativeAnswerError.
    """
    labels, total = images.labels, 2 * len(images)
    real = run_float(network, images.images, lambda done, _: step(done, total))
    stored = golden.run(qnet, images.images, lambda done, _: step(len(images) + done, total))
    logits = [qnet.logits(index, words) for index, words in enumerate(stored)]
    exits, classes, sureness = early_exit_predictions(logits, network.thresholds, network.check)
    never = [*([np.inf] * (len(logits) - 1)), network.thresholds[-1]]
    answers = DemoAnswers(
        exits=exits,
        classes=classes,
        sureness=sureness,
        accuracy=float(np.mean(classes == labels)),
        float_accuracy=float(np.mean(early_exit_predictions(real, network.thresholds, network.check)[1] == labels)),
        last_accuracy=float(np.mean(early_exit_predictions(logits, never, network.check)[1] == labels)),
    )
    if 100 * (answers.float_accuracy - answers.accuracy) > MOST_LOST:
        raise NegativeAnswerError(
            f"int16 must stay within {MOST_LOST:g} points of float's accuracy, {100 * answers.float_accuracy:.2f} "
            f"%, and has {100 * answers.accuracy:.2f} %"
        )
    return answers


def _design(screen: Console, network: Network, qnet: QuantisedNetwork, name: str, core: str, out: Path) -> Exploration:
    """Search a design for a board and write its project, whose bundle is that of `fluidnpu build`."""
    board, model = load_board(name), default_cycles()
    with show.dotted(screen, f"search of an array for {name}, and its project") as step:
        counting = False

        def report(done: int, total: int) -> None:
            nonlocal counting
            counting = counting or done == 0  # only the second part of an exact search begins with no step done
            step(done + counting * total, 2 * total)

        exploration = answer(
            question_of(
                network.workload,
                board,
                Search(cycle_model=model, core=core, evaluations=EVALUATIONS if model == "exact" else None),
            ),
            report,
        )
        program = compile_program(qnet, exploration.design)
        write_project(project_files(exploration.design, program, board, core), out / name)
    return exploration


def _verify(screen: Console, qnet: QuantisedNetwork, design: Design) -> CsimReport:
    """Compare C simulation with golden, at every batch size. Raises NegativeAnswerError."""
    with show.dotted(screen, f"C simulation of the HLS C++ for {design.board}") as step:
        csim = csim_network(qnet, design, shipped_images().images[: design.b_max], progress=step)
    if not csim.ok:
        raise NegativeAnswerError(f"C simulation must equal the golden model, and it does not: {csim.summary()}")
    return csim


def _carried(screen: Console, design: Design, load: OfferedLoad) -> list[Carried]:
    """Search what each policy carries on one load.

    One that must be told the load is told what the default carries.
    """
    to_the_end = OfferedLoad(slo_ns=load.slo_ns, exits=np.full_like(load.exits, design.stages - 1), gaps=load.gaps)
    never = Serving.of(design, [*([0.0] * (design.stages - 1)), 1.0])
    jobs = [(never, to_the_end, name, False) for name in WITHOUT_EXITS]
    jobs += [(Serving.of(design), load, name, True) for name in sorted(POLICIES, key=lambda name: name != DEFAULT)]
    rows, told = [], 1.0
    with show.dotted(screen, "load that each policy carries in time") as step:
        for index, (serving, asked, name, exits) in enumerate(jobs):
            policy = make_policy(name, serving.setting(told, load.slo_ns))
            rows.append(carried_load(serving, policy, asked, exits=exits, progress=_part(step, index, len(jobs))))
            told = rows[-1].interval.mean if name == DEFAULT else told
    return sorted(rows, key=lambda row: (row.exits, row.interval.mean))


def _part(step: Progress, index: int, parts: int) -> Progress:
    """Give the progress of one of equal parts."""
    return lambda done, total: step(index * total + done, parts * total)


def _serve(
    screen: Console,
    qnet: QuantisedNetwork,
    design: Design,
    images: ImageSet,
    answers: DemoAnswers,
    rate_per_s: float,
    slo_ns: int,
    seed: int,
) -> tuple[ServeResult, list[Schedule]]:
    """Serve the images on a simulated NPU by the default policy, at the rate that it carries.

    The other policies meet the same arrivals in the simulator. Raises NegativeAnswerError for an answer that
    is not golden.
    """
    requests = poisson(rate_per_s, len(images), slo_ns=slo_ns, rng=np.random.default_rng(seed))
    serving = Serving.of(design)
    setting, program = serving.setting(rate_per_s, slo_ns), compile_program(qnet, design)
    with show.dotted(screen, f"{len(images)} images served on the simulated {design.board}") as step:
        with open_device("simulated", Bundle(design=design, program=program)) as device:
            driver = Driver(device, program, design)
            driver.load()
            served = serve_requests(requests, images.images, make_policy(DEFAULT, setting), driver, progress=step)
        world = World(latency=design.latency, exits=answers.exits.tolist(), exit_rates=serving.exit_rates)
        schedules = [
            served.schedule if name == DEFAULT else simulate(requests, make_policy(name, setting), world)
            for name in POLICIES
        ]
    for schedule in schedules:
        schedule.check()
    given = zip(served.answers, answers.classes, answers.exits, strict=True)
    equal = sum(bool(a.prediction == c and a.exit == e) for a, c, e in given)
    if equal != len(images):
        raise NegativeAnswerError(f"served answers must equal the golden model's, and only {equal}/{len(images)} do")
    return served, schedules


def _measured(schedule: Schedule, design: Design) -> Metrics:
    """Measure a schedule with every request counted."""
    macs = [sum(design.layers[i].macs for i in design.stage_layers(stage)) for stage in range(design.stages)]
    return measure(schedule, warmup=0, macs=macs, peak_macs_per_s=float(design.macs_per_cycle * design.clock_hz))
