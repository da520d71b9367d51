"""What `fluidnpu serve` does: labelled images as a Poisson stream through a bundle's network on a device. Reads files, asks the rooms, prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from fluidnpu.host import Bundle, DeviceError, Driver, ServeResult, open_device, serve_requests
from fluidnpu.models import ImageSet, read_image_file, shipped_images
from fluidnpu.rtl_tb import SimulationError
from fluidnpu.scheduler import Metrics, Outcome, Serving, make_policy, measure, parse_duration_ns, poisson

from .. import show
from ..errors import UsageError

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class Asked:
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


def serve(asked: Asked) -> None:
    """Serve and print what came of it."""
    out = show.console(asked.as_json)
    inside = asked.bundle / "bundle"  # of a project; `make bitstream` puts the bitstream there too
    folder = inside if inside.is_dir() else asked.bundle
    bundle, images = Bundle.read(folder), _images(asked)
    slo_ns = parse_duration_ns(asked.slo, "--slo")
    requests = poisson(asked.rate, len(images), slo_ns=slo_ns, rng=np.random.default_rng(asked.seed))
    policy = make_policy(asked.policy, Serving.of(bundle.design).setting(asked.rate, slo_ns))
    registers = None if asked.registers is None else _address("--registers", asked.registers)
    reserved = None if asked.reserved is None else parse_reserved(asked.reserved)
    with open_device(asked.device, bundle, folder, registers=registers, reserved=reserved) as device:
        driver = Driver(device, bundle.program, bundle.design)
        driver.load()
        with show.progress(out, f"serving on the {asked.device} device") as step, _counting(step, len(images)) as count:
            served = serve_requests(requests, images.images, policy, driver, progress=count)
    metrics = dataclasses.replace(measure(served.schedule, warmup=0), policy=asked.policy)
    accuracy = _accuracy(served, images)
    if asked.as_json:
        show.emit(_report(asked, served, metrics, accuracy))
        return
    title = f"{len(images)} images on the {asked.device} device at {asked.rate:g}/s, SLO {asked.slo}"
    extra = {"accuracy": ["-" if accuracy is None else f"{100 * accuracy:.2f} %"]}
    extra |= {
        name: [f"{share:.1f} %"]
        for name, share in (("early", metrics.anytime_pct), ("shed", metrics.shed_pct))
        if share
    }
    out.print(show.serving_table(title, [metrics], extra))
    for line in remarks(served, metrics):
        out.print(line)


def _images(asked: Asked) -> ImageSet:
    images = shipped_images() if asked.data is None else read_image_file(asked.data)
    if asked.requests is None:
        return images
    if asked.requests > len(images):
        raise UsageError(f"--requests must be at most {len(images)}, the images that there are, not {asked.requests}")
    return images[: asked.requests]


@contextmanager
def _counting(step: show.Step, total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress callback that knows, when the serving is stopped or the device dies, how many were answered."""
    answered = 0

    def count(done: int, of: int) -> None:
        nonlocal answered
        answered = done
        step(done, of)

    step(0, total)
    try:
        yield count
    except (KeyboardInterrupt, DeviceError, SimulationError) as error:
        error.add_note(f"{answered} of {total} requests were answered before")
        raise


def _accuracy(served: ServeResult, images: ImageSet) -> float | None:
    """Share of right predictions among the answered; None when nobody was."""
    right = [
        answer.prediction == label
        for answer, label in zip(served.replies, images.labels, strict=True)
        if answer.outcome is not Outcome.SHED
    ]
    return float(np.mean(right)) if right else None


def _report(asked: Asked, served: ServeResult, metrics: Metrics, accuracy: float | None) -> dict[str, Any]:
    return {
        **metrics.to_dict(),
        "accuracy": accuracy,
        "answered": sum(answer.outcome is not Outcome.SHED for answer in served.replies),
        "failures": len(served.failures),
        "missed_interrupts": served.missed_interrupts,
        "device": asked.device,
    }


def remarks(served: ServeResult, metrics: Metrics) -> list[str]:
    """What a reader must know about the numbers."""
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
            f"[yellow]{served.missed_interrupts} jobs ended without an interrupt[/], and each cost its whole deadline: see to the NPU's interrupt"
        )
    return lines


def parse_reserved(text: str) -> tuple[int, int]:
    """Physical address and bytes of memory. Raises UsageError.

    >>> parse_reserved("0x30000000:128MiB")
    (805306368, 134217728)
    """
    address, _, size = text.partition(":")
    found = re.fullmatch(rf"(\d+)({'|'.join(_UNITS)})", size, re.ASCII)
    if found is None:
        raise UsageError(f"--reserved must be ADDRESS:SIZE such as 0x30000000:128MiB, not '{text}'")
    return _address("--reserved", address), int(found[1]) * _UNITS[found[2]]


def _address(option: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{option} must have a physical address such as 0x30000000, not '{text}'") from None
