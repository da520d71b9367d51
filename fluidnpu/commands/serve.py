"""`fluidnpu serve`: a bundle behind the Open Inference Protocol, or a measured stream of labelled images."""

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
from fluidnpu.scheduler.policies import POLICY_FILES, SERVING_POLICY

from .. import show
from ..errors import UsageError, add_note
from ..options import DATA, EXIT_RATES, JSON, PATH, POWER, is_default, numbers, read_power, takes
from .addresses import ADDRESSES, physical
from .board_power import board_power, energies, energy_lines, read_meanwhile
from .data import CLASSES, given_classes, read_data, refuse_classes_without
from .networks import noise
from .serve_fleet import serve_fleet
from .serve_network import NetworkOptions, serve_network, surfaces

MOST_CLASSES = 12  # that a screen counts
NOISE_IMAGES = 1000  # where no images are named
RATED_IMAGES = 256  # on which exit rates are measured before the first request
*_BUT_LAST, _LAST = sorted(POLICY_FILES)


@dataclass(frozen=True, kw_only=True)
class ServeOptions(NetworkOptions):
    """The command line of `fluidnpu serve`, as text and numbers."""

    bundles: tuple[str, ...]
    device: str
    policy: str
    rate: float | None
    slo: str | None
    requests: int | None = None
    seed: int = 0
    data: Path | None = None
    exit_rates: str | None = None
    registers: str | None = None
    reserved: str | None = None
    criteria: str | None = None
    tenants: Path | None = None
    power: str | None = None
    adapt: Path | None = None
    distance: int | None = None
    shadow: float | None = None
    fleet: Path | None = None
    plan: Path | None = None
    engine: str = "local"
    shard: int = 32
    ray_address: str | None = None
    patience: float = 4.0
    audit: int = 100
    allow_absent: bool = False
    board_token_file: Path | None = None
    as_json: bool = False


@click.command("serve")
@click.argument("bundles", nargs=-1, metavar="[NAME=]BUNDLE...")
@click.option(
    "--fleet",
    type=PATH,
    metavar="FILE.toml",
    help="serve the boards of a fleet file as one server: those with an address there, the others simulated here",
)
@click.option(
    "--plan",
    type=PATH,
    metavar="PLAN.json",
    help="fleet: what runs where, as `place --out` wrote it  [default: every board serves all its networks]",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="fleet: one dispatcher here, or one a shard of boards, in actors that Ray places and restarts",
)
@click.option(
    "--shard",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="BOARDS",
    help="fleet, ray: most boards of one actor",
)
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="fleet, ray: of a cluster whose nodes have the resource npu_boards  [default: this machine alone]",
)
@surfaces
@click.option(
    "--device",
    default="simulated",
    show_default=True,
    type=click.Choice(["simulated", "cpu", "rtl", "cosim", "pynq", "devmem"]),
    help="where to run: simulated; on this processor, by a bundle of `fluidnpu measure` (cpu); in Verilator, with the core "
    "in SystemVerilog (rtl) or in C++ (cosim); on this board with PYNQ, or without",
)
@click.option(
    "--policy",
    default=SERVING_POLICY,
    show_default=True,
    metavar="P[:KEY=VALUE...]",
    help=f"{', '.join(_BUT_LAST)} or {_LAST}; each also with :drain=1, :shed=1 and :anytime=3%; docs/explanation/scheduling says more",
)
@click.option(
    "--rate", type=float, help="mean arrivals per second; with a port: expected ones  [default: half of capacity]"
)
@click.option(
    "--slo",
    metavar="200ms",
    help="latency objective of every request; with a port: of those that name none  [default: five lone latencies]",
)
@click.option(
    "--criteria",
    metavar="TEXT",
    help="when requests leave that do not say so themselves, such as 'confidence > 0.9 or slack < 5ms'  [default: the "
    "model's thresholds]",
)
@click.option(
    "--tenants",
    type=PATH,
    metavar="FILE.toml",
    help="with a port: tenants that share each NPU, of a fleet every board's, by the request's parameter tenant; --policy "
    "is that of each",
)
@click.option(
    "--adapt",
    type=PATH,
    metavar="PLAN.npz",
    help="with a port: change the active exits when the load changes, by a plan that `fluidnpu exits --select` wrote",
)
@click.option(
    "--distance",
    type=click.IntRange(min=1),
    metavar="N",
    help="with --adapt: requests between two false alarms, at least  [default: 5000]",
)
@click.option(
    "--shadow",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="with --adapt: of those that leave early, the share that runs on while alarmed  [default: 0.25]",
)
@POWER
@click.option(
    "--requests", type=click.IntRange(min=1), metavar="N", help="serve the first N images only  [default: all]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the arrivals")
@DATA
@CLASSES
@EXIT_RATES
@ADDRESSES
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=4.0,
    show_default=True,
    metavar="BATCHES",
    help="fleet: predicted batch times of silence after which a board is hung",
)
@click.option(
    "--audit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="fleet: one request in N of each board is asked of another, too, to compare the bits; 0: none",
)
@click.option(
    "--allow-absent", is_flag=True, help="fleet: start although boards do not answer; each is used as soon as it does"
)
@click.option(
    "--board-token-file", type=PATH, metavar="FILE", help="fleet: boards with an address ask for the token in this file"
)
@JSON
@takes(ServeOptions)
def command(options: ServeOptions) -> None:
    """Serve built BUNDLEs (or the projects around them) on simulated NPUs or on this board.

    With a port it is a server: the Open Inference Protocol v2 for any number of bundles, each under its
    folder's name or NAME, until SIGTERM. With --fleet the boards of a fleet file are one such server.
    Without a port, labelled images pass through one bundle as a Poisson stream at --rate and --slo, and the
    outcome is measured.

    Exit code: 0 all requests ended; 1 the device failed; 2 bad input; 130 or 143 the measured stream was
    stopped by Ctrl-C or SIGTERM.
    """
    if options.plan is not None and options.fleet is None:
        raise UsageError("--plan says what the boards of a fleet serve, so it needs --fleet FILE.toml")
    if options.fleet is not None:
        _check_fleet(options)
        serve_fleet(
            options.fleet,
            options,
            plan=options.plan,
            engine=options.engine,
            shard=options.shard,
            ray_address=options.ray_address,
            policy=None if is_default("policy") else options.policy,
            rate_per_s=options.rate,
            slo=options.slo,
            criteria=options.criteria,
            tenants=options.tenants,
            patience=options.patience,
            audit=options.audit,
            absent=options.allow_absent,
            token_file=options.board_token_file,
            as_json=options.as_json,
        )
    elif not options.bundles:
        raise UsageError("serve must be given a bundle, several, or --fleet FILE.toml, and it has none")
    elif options.wanted:
        if any(given is not None for given in (options.requests, options.data, given_classes())):
            raise UsageError(
                "--requests, --data and --classes are for a measured stream, which has no --http, --grpc or --admin"
            )
        serve_network(
            options.bundles,
            options,
            device=options.device,
            policy=options.policy,
            rate_per_s=options.rate,
            slo=options.slo,
            criteria=options.criteria,
            tenants=options.tenants,
            power=read_power(options.power),
            adapt=options.adapt,
            watching=_watching(options),
            as_json=options.as_json,
            **physical(options.registers, options.reserved),
        )
    else:
        if options.adapt is not None:
            raise UsageError("--adapt needs a port; simulate --adapt shows a load that changes")
        if options.tenants is not None:
            raise UsageError(
                "--tenants needs a port, where requests say whose they are; simulate --tenants has traffic"
            )
        serve_bundle(options)


def _watching(options: ServeOptions) -> tuning.Watching:
    """Return the settings of an adaptation. Raises UsageError where nothing adapts."""
    given = {"distance": options.distance, "shadow": options.shadow}
    told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if told and options.adapt is None:
        raise UsageError(f"--{next(iter(told))} is about adaptation, so it needs --adapt PLAN.npz")
    return tuning.Watching(**told)


def _check_fleet(options: ServeOptions) -> None:
    """Refuse options that a fleet has no use for."""
    if options.bundles:
        raise UsageError(
            f"--fleet names the bundles of every board, so none may be given, and {len(options.bundles)} are"
        )
    if options.device != "simulated" or options.registers is not None or options.reserved is not None:
        raise UsageError(
            "boards of a fleet that are no simulations must be served where they are: give their addresses"
        )
    for name, given in (
        ("--requests", options.requests),
        ("--data", options.data),
        ("--decisions", options.decisions),
        ("--adapt", options.adapt),
        ("--power", options.power),
    ):
        if given is not None:
            raise UsageError(f"{name} is for a server of its own, not for the front of a fleet")
    if not options.wanted:
        raise UsageError("the front of a fleet must have --http or --grpc, and it has neither")


def serve_bundle(options: ServeOptions) -> None:
    """Serve and print metrics and accuracy."""
    import numpy as np
    from rich.markup import escape

    out = show.console(options.as_json)
    if options.rate is None or options.slo is None:
        raise UsageError("a measured stream must have --rate and --slo, and a server --http or --grpc: one is missing")
    refuse_classes_without(options.data)
    if len(options.bundles) != 1:
        raise UsageError(f"a measured stream is of one bundle, not of {len(options.bundles)}")
    project = Path(options.bundles[0])

    inside = project / "bundle"  # of a project; `make bitstream` puts the bitstream there too
    folder = inside if inside.is_dir() else project
    bundle = host.Bundle.read(folder)
    images = _images(options, bundle.program)
    if not images.labelled:
        out.print(f"  [dim]{images.source} have no labels, so accuracy is not measured[/]")
    slo_ns = scheduler.parse_duration_ns(options.slo, "--slo")
    requests = scheduler.poisson(options.rate, len(images), slo_ns=slo_ns, rng=np.random.default_rng(options.seed))
    rates = numbers("--exit-rates", options.exit_rates)
    power = board_power(options.power, bundle, options.device)
    if power.unknown:
        out.print(f"  [dim]energy is not modelled: {escape(power.unknown)}[/]")
    with host.open_device(options.device, bundle, folder, **physical(options.registers, options.reserved)) as device:
        driver = host.Driver(device, bundle.program, bundle.design)
        driver.load()
        if rates is None and bundle.design.exit_rates is None and bundle.design.stages > 1:
            rates = driver.measure_exit_rates(list(images.images[:RATED_IMAGES]))
        expected = scheduler.Serving.of(bundle.design, rates).setting(options.rate, slo_ns)
        on_board = options.device in ("pynq", "devmem")
        setting, said = tuning.deployed(folder, options.policy, expected, may_solve=not on_board)
        if said:
            out.print(f"[dim]{said}[/]")
        policy = scheduler.make_policy(options.policy, setting)
        power = power.measured(driver, list(images.images[: bundle.design.b_max]))
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
                requests, images.images, policy, driver, exit_rates=rates, rule=criteria, progress=count
            )
    metrics = dataclasses.replace(scheduler.measure(served.schedule, warmup=0), policy=options.policy)
    accuracy = _accuracy(served, images, bundle.program.check)
    left = [answer.exit for answer in served.replies if isinstance(answer, host.Reply)]
    if options.as_json:
        told = energies(power, recording, criteria.profile, left)
        by_class = dict(_answered_classes(served, bundle.program.class_names))
        show.emit(_report(options, served, metrics, accuracy) | told | ({"classes": by_class} if by_class else {}))
        return
    title = f"{len(images)} images on the {options.device} device at {options.rate:g}/s, SLO {options.slo}"
    extra = {"accuracy": ["-" if accuracy is None else f"{100 * accuracy:.2f} %"]}
    shares = (("early", metrics.anytime_pct), ("shed", metrics.shed_pct))
    extra |= {name: [f"{share:.1f} %"] for name, share in shares if share}
    out.print(show.serving_table(title, [metrics], extra))
    for line in (*remarks(served, metrics), *energy_lines(power, recording, criteria.profile, left)):
        out.print(line)
    if classes := _answered_classes(served, bundle.program.class_names):
        told_classes = ", ".join(f"{escape(name)} {count}" for name, count in classes[:MOST_CLASSES])
        out.print(f"answers by class: {told_classes}{', ...' if len(classes) > MOST_CLASSES else ''}")
    if options.criteria is not None:
        causes = Counter(answer.because for answer in served.replies if isinstance(answer, host.Reply))
        out.print("left because: " + ", ".join(f"{escape(text)} {count}" for text, count in causes.most_common()))


def _images(options: ServeOptions, program: hls.Program) -> models.ImageSet:
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
def _counting(step: show.Step, total: int) -> Iterator[Callable[[int, int], None]]:
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
    answered = [one for one, answer in enumerate(served.replies) if isinstance(answer, host.Reply)]
    logits = [
        answer.logits for answer in served.replies if isinstance(answer, host.Reply) and answer.logits is not None
    ]
    if not logits or not logits[0].size:
        return None
    return float(model_exits.scores(np.stack(logits), images.labels[answered], check).mean())


def _answered_classes(served: host.ServeResult, names: tuple[str, ...]) -> list[tuple[str, int]]:
    """Count the answers by the names of their classes, the most frequent first; none where there are none."""
    known = [answer.prediction for answer in served.replies if isinstance(answer, host.Reply)]
    return Counter(names[number] for number in known if 0 <= number < len(names)).most_common()


def _report(
    options: ServeOptions, served: host.ServeResult, metrics: scheduler.Metrics, accuracy: float | None
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
        lines.append("[dim]early: answered with the exit they had passed, since the next was too far[/]")
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
