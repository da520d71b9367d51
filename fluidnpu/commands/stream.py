"""`fluidnpu stream`: labelled images through one bundle as a stream of requests, measured."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fluidnpu import hls, host, models, rtl_tb, scheduler
from fluidnpu.host import serving
from fluidnpu.models import exits as model_exits
from fluidnpu.models import images as model_images
from fluidnpu.models.graph import Check
from fluidnpu.scheduler import exits, tuning
from fluidnpu.scheduler.policies import SERVING_POLICY

from .. import show
from ..errors import UsageError, add_note
from ..options import DATA, EXIT_RATES, JSON, PATH, numbers, takes
from ..outputs import TextWithPath
from .helpers.addresses import ADDRESSES, physical
from .helpers.board_power import BoardPower, board_power, energies, energy_lines, read_meanwhile
from .helpers.configuration import config_option, place_errors
from .helpers.data import CLASSES, read_data, refuse_classes_without
from .helpers.networks import noise
from .helpers.surfaces import CRITERIA, POLICIES, Sectioned, device_option

MOST_CLASSES = 12  # that a screen counts
NOISE_IMAGES = 1000  # where no images are named
RATED_IMAGES = 256  # on which exit rates are measured before the first request


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The command line of `fluidnpu stream`, as text and numbers."""

    bundle: Path
    device: str
    policy: str
    rate: float
    slo: str
    requests: int | None
    seed: int
    data: Path | None
    exit_rates: str | None
    criteria: str | None
    power: str | None
    registers: str | None
    reserved: str | None
    as_json: bool


@click.command(
    "stream",
    cls=Sectioned,
    examples={
        "fluidnpu stream project --rate 3000 --slo 5ms": "a simulated NPU",
        "fluidnpu stream bundle --device pynq --rate 100 --slo 50ms": "this board",
        "fluidnpu stream project --rate 9 --slo 1s --data set.npz": "your images",
    },
    sections={
        "rate": "The stream",
        "device": "How it is answered",
        "registers": "Addresses of a board without PYNQ",
        "as_json": "Output",
    },
)
@click.argument("bundle", type=PATH, metavar="BUNDLE")
@config_option
@click.option("--rate", type=float, required=True, help="mean arrivals per second, a Poisson stream")
@click.option("--slo", required=True, metavar="200ms", help="latency objective of every request")
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help="the first N images only  [default: all]")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="seed of the arrivals"
)
@DATA
@CLASSES
@EXIT_RATES
@device_option(
    "rtl",
    "cosim",
    help="simulated; this processor, with a bundle of `fluidnpu measure` (cpu); Verilator, with the core in SystemVerilog "
    "(rtl) or in C++ (cosim); this board with PYNQ, or without",
)
@click.option("--policy", default=SERVING_POLICY, show_default=True, metavar="P[:KEY=VALUE...]", help=POLICIES)
@CRITERIA
@click.option(
    "--power",
    metavar="WATTS",
    type=TextWithPath(ending=".toml"),
    help="for energies: IDLE,ACTIVE watts of the board; `measured`, on a board with a sensor; or BOARD.toml  [default: the "
    "bundle's board]",
)
@ADDRESSES
@JSON
@takes(StreamOptions)
def command(options: StreamOptions) -> None:
    """Pass labelled images through a BUNDLE (or the project around it) as a stream, and measure the outcome.

    Exit code: 0 all requests ended; 1 the device failed; 2 bad input; 130 or 143 it was stopped by Ctrl-C or
    SIGTERM.
    """
    out = show.console(options.as_json)
    with place_errors():
        ready = prepare_stream(options)
    for note in ready.notes:
        out.print(f"  [dim]{note}[/]")
    measure(options, ready)


@dataclass(frozen=True, kw_only=True)
class StreamInputs:
    """Everything that the options name, read; `folder` is the bundle's, `notes` are for the screen."""

    folder: Path
    bundle: host.Bundle
    images: models.ImageSet
    requests: list[scheduler.Request]
    slo_ns: int
    rates: tuple[float, ...] | None
    power: BoardPower
    addresses: dict[str, Any]

    @property
    def notes(self) -> list[str]:
        """The reasons for which something is not measured."""
        from rich.markup import escape

        labels = [] if self.images.labelled else [f"{self.images.source} have no labels, so accuracy is not measured"]
        return labels + ([f"energy is not modelled: {escape(self.power.unknown)}"] if self.power.unknown else [])


def prepare_stream(options: StreamOptions) -> StreamInputs:
    """Read the bundle and the images, and what the options say of them. Raises ValueErrors of the rooms."""
    import numpy as np

    refuse_classes_without(options.data)
    inside = options.bundle / "bundle"  # of a project; `make bitstream` puts the bitstream there too
    folder = inside if inside.is_dir() else options.bundle
    bundle = host.Bundle.read(folder)
    images, slo_ns = _images(options, bundle.program), scheduler.parse_duration_ns(options.slo, "--slo")
    rng = np.random.default_rng(options.seed)
    return StreamInputs(
        folder=folder,
        bundle=bundle,
        images=images,
        requests=scheduler.poisson(options.rate, len(images), slo_ns=slo_ns, rng=rng),
        slo_ns=slo_ns,
        rates=numbers("--exit-rates", options.exit_rates),
        power=board_power(options.power, bundle, options.device),
        addresses=physical(options.registers, options.reserved),
    )


def check(options: StreamOptions) -> None:
    """Serve nothing, but read what the options name. Raises ValueErrors of the rooms."""
    ready = prepare_stream(options)
    design = ready.bundle.design
    rates = ready.rates or design.exit_rates or (1 / design.stages,) * design.stages
    _policy(options, ready, scheduler.Serving.of(design, rates))


def _policy(options: StreamOptions, ready: StreamInputs, serving: scheduler.Serving) -> tuple[scheduler.Policy, str]:
    """Return the policy for a network as it leaves, and a remark on its plan; a board solves nothing."""
    expected = serving.setting(options.rate, ready.slo_ns)
    may_solve = options.device not in ("pynq", "devmem")
    setting, remark = tuning.deployed(ready.folder, options.policy, expected, may_solve=may_solve)
    return scheduler.make_policy(options.policy, setting), remark


def measure(options: StreamOptions, ready: StreamInputs) -> None:
    """Serve the stream, and print metrics and accuracy."""
    from rich.markup import escape

    out, bundle, images, rates = show.console(options.as_json), ready.bundle, ready.images, ready.rates
    with host.open_device(options.device, bundle, ready.folder, **ready.addresses) as device:
        driver = host.Driver(device, bundle.program, bundle.design)
        driver.load()
        if rates is None and bundle.design.exit_rates is None and bundle.design.stages > 1:
            rates = driver.measure_exit_rates(list(images.images[:RATED_IMAGES]))
        policy, remark = _policy(options, ready, scheduler.Serving.of(bundle.design, rates))
        if remark:
            out.print(f"[dim]{remark}[/]")
        power = ready.power.measured(driver, list(images.images[: bundle.design.b_max]))
        criteria = serving.criteria_of(driver, options.criteria, power.model)
        for warning in exits.warnings_of(criteria.usual, criteria.profile):
            out.print(f"[yellow]warning[/]: {escape(warning)}")
        title = f"serving on the {options.device} device"
        with (
            show.progress(out, title) as step,
            _counting(step, len(images)) as count,
            read_meanwhile(power) as recording,
        ):
            served = host.serve_requests(
                ready.requests, images.images, policy, driver, exit_rates=rates, rule=criteria, progress=count
            )
    metrics = dataclasses.replace(scheduler.measure(served.schedule, warmup=0), policy=options.policy)
    accuracy = _accuracy(served, images, bundle.program.check)
    left = [answer.exit for answer in served.replies if isinstance(answer, host.Reply)]
    if options.as_json:
        modelled = energies(power, recording, criteria.profile, left)
        by_class = dict(_answered_classes(served, bundle.program.class_names))
        show.emit(_report(options, served, metrics, accuracy) | modelled | ({"classes": by_class} if by_class else {}))
        return
    title = f"{len(images)} images on the {options.device} device at {options.rate:g}/s, SLO {options.slo}"
    extra = {"accuracy": ["-" if accuracy is None else f"{100 * accuracy:.2f} %"]}
    shares = (("anytime", metrics.anytime_pct), ("shed", metrics.shed_pct))
    extra |= {name: [f"{share:.1f} %"] for name, share in shares if share}
    out.print(show.serving_table(title, [metrics], extra))
    for line in (*remarks(served, metrics), *energy_lines(power, recording, criteria.profile, left)):
        out.print(line)
    if classes := _answered_classes(served, bundle.program.class_names):
        counted = ", ".join(f"{escape(name)} {count}" for name, count in classes[:MOST_CLASSES])
        out.print(f"answers by class: {counted}{', ...' if len(classes) > MOST_CLASSES else ''}")
    if options.criteria is not None:
        causes = Counter(answer.because for answer in served.replies if isinstance(answer, host.Reply))
        out.print("left because: " + ", ".join(f"{escape(text)} {count}" for text, count in causes.most_common()))


def _images(options: StreamOptions, program: hls.Program) -> models.ImageSet:
    """Give the images to serve: those of --data, those that the network was trained for, or noise."""
    if options.data is not None:
        images = read_data(program.task, program.input_intake, options.data)
    elif program.data == model_images.SHIPPED_DATA:
        images = models.shipped_images()
    else:
        images = noise(program.input_intake, NOISE_IMAGES if options.requests is None else options.requests)
    if options.requests is None:
        return images
    if options.requests > len(images):
        raise UsageError(f"--requests must be at most {len(images)}, the images that there are, not {options.requests}")
    return images[: options.requests]


@contextmanager
def _counting(step: show.ProgressStep, total: int) -> Iterator[Callable[[int, int], None]]:
    """Note on an error that ends the serving the number of requests that were answered before."""
    answered = 0

    def count(done: int, of: int) -> None:
        nonlocal answered
        answered = done
        step(done, of)

    step(0, total)
    try:
        yield count
    except (KeyboardInterrupt, host.DeviceError, rtl_tb.SimulationError) as error:
        add_note(error, f"{answered} of {total} requests were answered before")
        raise


def _accuracy(served: host.ServeResult, images: models.ImageSet, check: Check) -> float | None:
    """Give the mean score of the answered, the share of right ones of classes; None where nothing was, or
    without labels.
    """
    import numpy as np

    if not images.labelled:
        return None
    answered = [index for index, answer in enumerate(served.replies) if isinstance(answer, host.Reply)]
    logits = [
        answer.logits for answer in served.replies if isinstance(answer, host.Reply) and answer.logits is not None
    ]
    if not logits or not logits[0].size:
        return None
    return float(model_exits.scores(np.stack(logits), images.labels[answered], check).mean())


def _answered_classes(served: host.ServeResult, names: tuple[str, ...]) -> list[tuple[str, int]]:
    """Count the answers by the names of their classes, the most frequent first; none where there are none."""
    predictions = [answer.prediction for answer in served.replies if isinstance(answer, host.Reply)]
    return Counter(names[number] for number in predictions if 0 <= number < len(names)).most_common()


def _report(
    options: StreamOptions, served: host.ServeResult, metrics: scheduler.Metrics, accuracy: float | None
) -> dict[str, Any]:
    return {
        **metrics.to_dict(),
        "accuracy": accuracy,
        "answered": sum(isinstance(answer, host.Reply) for answer in served.replies),
        "failures": len(served.failures),
        "missed_interrupts": served.missed_interrupts,
        "device": options.device,
        "left_because": dict(Counter(answer.because for answer in served.replies if isinstance(answer, host.Reply))),
    }


def remarks(served: host.ServeResult, metrics: scheduler.Metrics) -> list[str]:
    """Give the remarks without which a reader would misread the numbers."""
    from rich.markup import escape

    lines = []
    if metrics.unstable:
        lines.append(
            "[yellow]unstable[/]: the backlog grew through the whole run, so the latencies only tell its length"
        )
    if metrics.shed_pct:
        lines.append("[dim]shed requests missed their SLO; they have no latency and no part in the accuracy[/]")
    if metrics.anytime_pct:
        lines.append("[dim]anytime: answered with the exit they had passed, since the next was too far[/]")
    if served.failures:
        lines.append(
            f"{len(served.failures)} jobs failed and were run again; the last said: {escape(str(served.failures[-1]))}"
        )
    if served.missed_interrupts:
        lines.append(
            f"[yellow]{served.missed_interrupts} jobs ended without an interrupt[/], and each cost its whole deadline: "
            "see to the NPU's interrupt"
        )
    return lines
