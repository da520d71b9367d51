"""One simulated board of a fleet, or one worker, in a process of its own: the usual server, on gRPC alone.

    python -m fluidnpu.host.fleet.boards.board --port 0 demo=project/bundle

It prints its address as JSON when it takes requests, drains on SIGTERM, and ends with its standard input, so
that no board outlives the front that started it; one that takes no requests yet ends at once. `--processor`:
a worker, whose bundle was measured here.
`--wrong-bits` is for campaigns: a device that lies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.exits import Promise
from fluidnpu.scheduler.policies import SERVING_POLICY
from fluidnpu.scheduler.tenants import Tenancy, parse_tenants

from ...bundle import Bundle
from ...devices.device import Device, WallClock
from ...devices.occupancy import Occupancy
from ...devices.processor import ProcessorNpu
from ...devices.recall import Recall
from ...devices.simulated import SimulatedNpu
from ...driver import MASK_SLOTS
from ...oip.admission.limits import Limits
from ...oip.running import NetworkServer, ServeOptions, run_server
from ...serving.models import Models, named_folders
from ...serving.options import ModelOptions
from ..duties import Duty


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """The circumstances of a board that is started here: see `ModelOptions`.

    `policy`: None for that of a plan, or else `fluid`; `slots`: samples that a board holds (0: as many as the
    largest batch). `certify`: the text of a promise. `tenants`: the file of those that share each model's
    NPU, on every board alike; each of `boards` boards expects its part of their rates. `processor`: in the
    place of an NPU, as a worker's bundle says. `decisions`: folder of their decision logs, of which each
    board has one of its own.
    """

    policy: str | None = None
    slots: int = 0
    slo_ns: int | None = None
    rate_per_s: float | None = None
    criteria: str | None = None
    certify: str | None = None
    tenants: Path | None = None
    boards: int = 1
    queue: int = 1024
    guarded: bool = False
    wrong_bits: float = 0.0
    processor: bool = False
    decisions: Path | None = None

    def by_plan(self, duties: Mapping[str, Duty], b_max: int) -> BoardOptions:
        """Return the options of a board with these duties: a single network's splits take turns by plan.

        Where several networks share a board their turns are the front's, and each has the usual policy.
        `b_max`: largest batch of the board.
        """
        if self.policy is not None or self.tenants is not None or len(duties) != 1:
            return self
        (duty,) = duties.values()
        slots = max(b_max, min(duty.slots, MASK_SLOTS)) if duty.splits else 0
        return replace(self, policy=duty.policy or None, slots=slots)

    def words(self) -> list[str]:
        """Return the command line that says the same."""
        arguments = [
            ("policy", self.policy or SERVING_POLICY),
            ("slots", self.slots or None),
            ("slo-ns", self.slo_ns),
            ("rate", self.rate_per_s),
            ("criteria", self.criteria),
            ("certify", self.certify),
            ("tenants", self.tenants),
            ("boards", self.boards),
        ]
        arguments += [("queue", self.queue), ("wrong-bits", self.wrong_bits or None), ("decisions", self.decisions)]
        words = [f"--{name}={value}" for name, value in arguments if value is not None]
        flags = [("--guarded", self.guarded), ("--processor", self.processor)]
        return [*words, *(name for name, given in flags if given)]


def shared_by(file: Path, boards: int = 1) -> Tenancy:
    """Read the tenants of each board of a fleet. Raises SchedulerError for what a fleet cannot hold.

    A board has some of the models only, and no recorded confidences.
    """
    tenancy = parse_tenants(file.read_text(encoding="utf-8"), str(file))
    if tenancy.networks:
        raise SchedulerError(f"{file}: tenants of a fleet share every model, so none may name its network")
    if tenancy.confidences or any(tenant.mode == "pareto" or tenant.accuracy is not None for tenant in tenancy.tenants):
        raise SchedulerError(
            f"{file}: tenants of a fleet may have criteria, or the mode per-workload; what needs recorded confidences "
            "is for a board with a server of its own"
        )
    parts = {
        tenant.name: replace(tenant, rate_per_s=tenant.rate_per_s / boards)
        for tenant in tenancy.tenants
        if tenant.rate_per_s
    }
    return tenancy.with_tenants(parts)


class LyingNpu(SimulatedNpu):
    """A simulated NPU that flips a bit in the results of a share of its jobs, and says nothing."""

    def __init__(self, bundle: Bundle, share: float, seed: int = 0, occupancy: Occupancy | None = None) -> None:
        super().__init__(bundle.design, clock=WallClock(), recall=Recall(256 << 20), occupancy=occupancy)
        self._share, self._random = share, random.Random(seed)
        self.lies = 0

    def _compute(self, job: object, until_ns: int) -> None:
        steps, slots, before = job.steps, job.slots, job.ran  # type: ignore[attr-defined]
        super()._compute(job, until_ns)  # type: ignore[arg-type]
        ends_now = before < job.ran == len(steps)  # type: ignore[attr-defined]
        if ends_now and self._random.random() < self._share:
            for index in range(len(slots.active)):
                result = steps[-1].output.inside(self._plane.slot(slots, index))
                result[(0,) * result.ndim] ^= 1
            self.lies += 1


def _one_npu(lying: float, processor: bool) -> Callable[[Bundle], Device]:
    """Return the function that opens a bundle's device; all bundles of this board share its NPU's time."""
    occupancy = Occupancy()

    def open_npu(bundle: Bundle) -> Device:
        if lying:
            return LyingNpu(bundle, lying, occupancy=occupancy)
        if processor:
            return ProcessorNpu(bundle.design)
        return SimulatedNpu(bundle.design, clock=WallClock(), recall=Recall(256 << 20), occupancy=occupancy)

    return open_npu


def main(words: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM, or until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundles", nargs="+", metavar="NAME=BUNDLE")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--admin-port", type=int, default=0)
    parser.add_argument("--decisions", type=Path)
    parser.add_argument("--policy", default=SERVING_POLICY)
    parser.add_argument("--slots", type=int)
    parser.add_argument("--slo-ns", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--criteria")
    parser.add_argument("--certify")
    parser.add_argument("--tenants", type=Path)
    parser.add_argument("--boards", type=int, default=1)
    parser.add_argument("--queue", type=int, default=1024)
    parser.add_argument("--guarded", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--wrong-bits", type=float, default=0.0, metavar="SHARE")
    given = parser.parse_args(words)
    options = ModelOptions(
        policy=given.policy,
        slo_ns=given.slo_ns,
        rate_per_s=given.rate,
        criteria=given.criteria,
        certify=None if given.certify is None else Promise.of(given.certify),
        tenancy=None if given.tenants is None else shared_by(given.tenants, given.boards),
        queue=given.queue,
        slots=given.slots,
        guarded=given.guarded,
        decisions=given.decisions,
        opened=_one_npu(given.wrong_bits, given.processor),
    )
    surfaces = ServeOptions(http=None, grpc=given.port, admin_grpc=given.admin_port, limits=Limits(queue=given.queue))
    serving = threading.Event()

    def report(server: NetworkServer) -> None:
        serving.set()
        with contextlib.suppress(BrokenPipeError):  # nobody reads it: the end of standard input says so, too
            addresses = {"address": server.url("grpc"), "admin": server.url("admin_grpc"), "pid": os.getpid()}
            os.write(1, json.dumps(addresses).encode() + b"\n")

    threading.Thread(target=_until_alone, args=(serving,), name="stdin", daemon=True).start()
    run_server(Models(named_folders(given.bundles), options), surfaces, report)


def _until_alone(serving: threading.Event) -> None:
    """Drain when whoever started this process has gone; what takes no requests yet ends at once."""
    while os.read(0, 1 << 12):  # unbuffered: a buffer's lock would be held when the interpreter ends
        pass
    if not serving.is_set():
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
