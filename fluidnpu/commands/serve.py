"""`fluidnpu serve`: labelled images as a Poisson stream through a bundle's network on a device."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fluidnpu import host, models, rtl_tb, scheduler
from fluidnpu.scheduler.policies import POLICY_FILES

from .. import show
from ..errors import UsageError, add_note
from ..options import DATA, JSON, takes

*_BUT_LAST, _LAST = sorted(POLICY_FILES)
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The command line of `fluidnpu serve`, as text and numbers."""

    bundle: Path
    device: str
    policy: str
    rate: float
    slo: str
    requests: int | None = None
    seed: int = 0
    data: Path | None = None
    registers: str | None = None
    reserved: str | None = None
    as_json: bool = False


@click.command("serve")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--device",
    default="simulated",
    show_default=True,
    type=click.Choice(["simulated", "rtl", "cosim", "pynq", "devmem"]),
    help="where to run: simulated; in Verilator, with the core in SystemVerilog (rtl) or in C++ (cosim); on this board "
    "with PYNQ, or without",
)
@click.option(
    "--policy",
    default="fluid",
    show_default=True,
    metavar="P[:KEY=VALUE...]",
    help=f"{', '.join(_BUT_LAST)} or {_LAST}; each also with :shed=1 and :anytime=3%; docs/scheduling.md says more",
)
@click.option("--rate", required=True, type=float, help="mean arrivals per second")
@click.option("--slo", required=True, metavar="200ms", help="latency objective of every request")
@click.option(
    "--requests", type=click.IntRange(min=1), metavar="N", help="serve the first N images only  [default: all]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the arrivals")
@DATA
@click.option(
    "--registers",
    metavar="ADDRESS",
    help="devmem: physical address of the NPU's registers  [default: that of the board's generated design]",
)
@click.option(
    "--reserved",
    metavar="ADDRESS:SIZE",
    help="devmem: physical memory that Linux leaves to the NPU, such as 0x30000000:128MiB  [default: the programmable "
    "logic's own]",
)
@JSON
@takes(ServeOptions)
def command(options: ServeOptions) -> None:
    """Serve images through a built BUNDLE (or the project around it), on a simulated NPU or on this board.

    Exit code: 0 all requests ended; 1 the device failed; 2 bad input; 130 or 143 stopped by Ctrl-C or
    SIGTERM.
    """
    serve_bundle(options)


def serve_bundle(options: ServeOptions) -> None:
    """Serve and print metrics and accuracy."""
    import numpy as np

    out = show.console(options.as_json)
    inside = options.bundle / "bundle"  # of a project; `make bitstream` puts the bitstream there too
    folder = inside if inside.is_dir() else options.bundle
    bundle, images = host.Bundle.read(folder), _images(options)
    slo_ns = scheduler.parse_duration_ns(options.slo, "--slo")
    requests = scheduler.poisson(options.rate, len(images), slo_ns=slo_ns, rng=np.random.default_rng(options.seed))
    setting = scheduler.Serving.of(bundle.design).setting(options.rate, slo_ns)
    policy = scheduler.make_policy(options.policy, setting)
    registers = None if options.registers is None else _address("--registers", options.registers)
    reserved = None if options.reserved is None else parse_reserved(options.reserved)
    with host.open_device(options.device, bundle, folder, registers=registers, reserved=reserved) as device:
        driver = host.Driver(device, bundle.program, bundle.design)
        driver.load()
        title = f"serving on the {options.device} device"
        with show.progress(out, title) as step, _counting(step, len(images)) as count:
            served = host.serve_requests(requests, images.images, policy, driver, progress=count)
    metrics = dataclasses.replace(scheduler.measure(served.schedule, warmup=0), policy=options.policy)
    accuracy = _accuracy(served, images)
    if options.as_json:
        show.emit(_report(options, served, metrics, accuracy))
        return
    title = f"{len(images)} images on the {options.device} device at {options.rate:g}/s, SLO {options.slo}"
    extra = {"accuracy": ["-" if accuracy is None else f"{100 * accuracy:.2f} %"]}
    shares = (("early", metrics.anytime_pct), ("shed", metrics.shed_pct))
    extra |= {name: [f"{share:.1f} %"] for name, share in shares if share}
    out.print(show.serving_table(title, [metrics], extra))
    for line in remarks(served, metrics):
        out.print(line)


def _images(options: ServeOptions) -> models.ImageSet:
    images = models.shipped_images() if options.data is None else models.read_image_file(options.data)
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


def _accuracy(served: host.ServeResult, images: models.ImageSet) -> float | None:
    """Give the share of right predictions among the answered; None where nothing was answered."""
    right = [
        bool(answer.prediction == label)
        for answer, label in zip(served.replies, images.labels, strict=True)
        if answer.outcome is not scheduler.Outcome.SHED
    ]
    return sum(right) / len(right) if right else None


def _report(
    options: ServeOptions, served: host.ServeResult, metrics: scheduler.Metrics, accuracy: float | None
) -> dict[str, Any]:
    return {
        **metrics.to_dict(),
        "accuracy": accuracy,
        "answered": sum(answer.outcome is not scheduler.Outcome.SHED for answer in served.replies),
        "failures": len(served.failures),
        "missed_interrupts": served.missed_interrupts,
        "device": options.device,
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


def parse_reserved(text: str) -> tuple[int, int]:
    """Read physical address and bytes of memory. Raises UsageError.

    >>> parse_reserved("0x30000000:128MiB")
    (805306368, 134217728)
    """
    address, _, size = text.partition(":")
    match = re.fullmatch(rf"(\d+)({'|'.join(_UNITS)})", size, re.ASCII)
    if match is None:
        raise UsageError(f"--reserved must be ADDRESS:SIZE such as 0x30000000:128MiB, not '{text}'")
    return _address("--reserved", address), int(match[1]) * _UNITS[match[2]]


def _address(option: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{option} must have a physical address such as 0x30000000, not '{text}'") from None
