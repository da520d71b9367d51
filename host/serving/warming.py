"""The first batches of a model, computed before it is ready: its first client waits no longer than others."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..driver import Driver
from ..errors import DeviceError
from .tails import Run, run_tail

_log = logging.getLogger(__name__)


def warm_up(driver: Driver, engines: Sequence[Run | None], attempts: int = 1) -> None:
    """Run one batch of each size through all stages of every loaded program, and its tail on one of them.

    The samples are zeros as stored, which is what `Driver.load` left in the slots. `engines`: what runs the
    tail of each program. The batch is empty afterwards. Raises DeviceError where `attempts` have failed one
    after another, and HostError where a tail fails.
    """
    for attempt in range(1, attempts + 1):
        try:
            _run_all(driver)
            break
        except DeviceError as error:
            if attempt == attempts:
                raise
            _log.warning("attempt %d to warm up failed: %s", attempt, error)
            driver.recover()
    last = -1
    for program, engine, slots in zip(driver.programs, engines, driver.slots_of, strict=True):
        last += len(program.stages)
        if program.tail is not None:
            stored = driver.stored_outputs(slots[:1], last)
            run_tail(program, {name: values[0] for name, values in stored.items()}, engine)
    driver.activate(())


def _run_all(driver: Driver) -> None:
    first = 0
    for part, program, slots in zip(driver.parts, driver.programs, driver.slots_of, strict=True):
        for size in range(1, min(part.b_max, len(slots)) + 1):
            driver.activate(slots[:size])
            for stage in range(len(program.stages)):
                driver.run_stage(first + stage)
        first += len(program.stages)
