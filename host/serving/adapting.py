"""The table of active exits of a loaded program: its times, its changes by hand, and its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fluidnpu.dse import Design
from fluidnpu.hls import Program
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.exits import Criteria
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, PartTimes
from fluidnpu.scheduler.tuning import Adaptation

from ..devices.timing import JobTimes
from ..driver import Driver


def part_times(program: Program, design: Design) -> PartTimes:
    """Return the times of every stage with and without its head.

    A stage's time is the design's; its layers share it by their beats, as on the simulated device. Raises
    DriverUsageError for a stage that is all head.
    """
    return JobTimes(design).parts(program.segments)


def active_exits(
    driver: Driver, criteria: Criteria, exits: ExitSet | None = None, rates: Sequence[float] | None = None
) -> ActiveExits:
    """Return a table for a driver's program, which sets the usual criterion of `criteria` as it changes.

    `exits`: the set at first (None: the exits of the program that a sample can leave at). `rates`: the share
    that leaves at each exit (None: the design's, or equal ones). Raises DriverUsageError, SchedulerError.
    """
    design = driver.design
    exits = ExitSet.of(driver.program.thresholds) if exits is None else exits
    if rates is None:
        rates = design.exit_rates or (1 / design.stages,) * design.stages
    return ActiveExits(part_times(driver.program, design), exits, rates, criteria.obey)


def certified_exits(driver: Driver, criteria: Criteria) -> ActiveExits:
    """Return the table of a network whose thresholds a certificate sets; every head runs, for evidence."""
    latency, early = driver.design.latency, driver.design.stages - 1
    times = PartTimes(whole=latency, bare=latency)
    return ActiveExits(times, ExitSet((1.0,) * early), (0.0,) * early + (1.0,), criteria.obey)


def describe_exits(
    program: Program, active: ActiveExits, adaptation: Adaptation | None, adoption_ns: Sequence[int]
) -> dict[str, Any]:
    """Return the active exits as an object for people and programs; shares are of 1, times in ms."""
    now = active.latest
    rows = [
        {"name": exit.name, "active": value is not None, "threshold": value}
        for exit, value in zip(program.exits, now.exits.thresholds, strict=False)
    ]
    report: dict[str, Any] = {"exits": rows, "changes": now.number, "why": now.why}
    if adoption_ns:
        report["adopted_after_ms"] = adoption_ns[-1] / 1e6
    if adaptation is not None:
        for row, share in zip(rows, adaptation.expected, strict=True):
            row["expected_leave_share"] = share
        counts = adaptation.counts
        report["adaptation"] = {
            "alarmed": adaptation.alarmed,
            "requests": counts.requests,
            "alarms": counts.alarms,
            "shadows": counts.shadows,
            "shadow_npu_ms": counts.shadow_ns / 1e6,
            "labels": counts.labels,
            "batches": counts.batches,
            "late_batches": counts.late_batches,
            "kept": adaptation.kept(),
            "events": [
                {
                    "kind": event.kind,
                    "requests": event.requests,
                    "why": event.why,
                    "exits": list(event.exits.thresholds),
                }
                for event in list(adaptation.events)[-20:]
            ],
        }
    return report


def with_thresholds(program: Program, active: ActiveExits, thresholds: Mapping[str, float | None]) -> ExitSet:
    """Return the present set with thresholds of exits by name. Raises SchedulerError for an unknown name."""
    names = [exit.name for exit in program.exits[:-1]]
    exits = active.latest.exits
    for name, value in thresholds.items():
        if name not in names:
            raise SchedulerError(f"an early exit must be one of {', '.join(names)}, not '{name:.60}'")
        exits = exits.with_exit(names.index(name), value)
    return exits
