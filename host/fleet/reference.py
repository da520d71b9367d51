"""The bits that every board must give: a bundle's arithmetic on a simulated NPU, without its time.

It judges answers: whatever exit a sample has left at, its logits there are known.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fluidnpu.models.exits import exceeds_threshold, stated, sureness

from ..bundle import Bundle
from ..devices.simulated import SimulatedNpu
from ..driver import Driver
from ..oip.interface import OF_PARTS
from ..oip.wire.tensors import Array

JUDGED = ("label", "confidence", "exit", "logits")


class Reference:
    """A bundle's own answers, computed one sample at a time. Threads may share it."""

    def __init__(self, bundle: Bundle) -> None:
        self._driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
        self._driver.load()
        self._lock = threading.Lock()

    def logits(self, image: Array) -> list[npt.NDArray[np.float32]]:
        """Return the logits of one image (H, W, C) at every exit, float32 (classes,). Raises
        DriverUsageError.
        """
        return [values.astype(np.float32) for values in self.compute(image)[0]]

    def compute(self, image: Array) -> tuple[list[npt.NDArray[np.float64]], Array | None]:
        """Return the logits (classes,) of one image (H, W, C) at every exit, and of a part its onward tensor.

        Raises DriverUsageError.
        """
        with self._lock:
            self._driver.write_sample(0, image)
            self._driver.activate((0,))
            logits = []
            for stage in range(self._driver.design.stages):
                self._driver.run_stage(stage)
                logits.append(self._driver.logits((0,), stage)[0])
            onward = self._driver.onward((0,))[0] if self._driver.program.onward else None
            self._driver.activate(())
        return logits, onward

    @property
    def judged(self) -> tuple[str, ...]:
        """The outputs that two boards must agree in, to the bit."""
        return (*JUDGED, *(OF_PARTS if self._driver.program.onward else ()))

    def objection(self, images: Array, outputs: Mapping[str, Array]) -> str:
        """Return a phrase on the first sample whose answer is not the bundle's; empty where all are right.

        `images`: (N, H, W, C); `outputs`: (N, ...) by name.
        """
        tensors = iter(outputs.get("onward", ()))
        for row, (image, exit) in enumerate(zip(images, outputs["exit"], strict=True)):
            logits, onward = self.compute(image)
            if not 0 <= exit < len(logits):
                return f"sample {row} left at exit {exit}, which there is not"
            right = logits[exit]
            wrong = int((right.astype(np.float32) != outputs["logits"][row]).sum())
            if wrong:
                return f"{wrong} of {len(right)} logits of exit {exit} have wrong bits"
            program = self._driver.program
            named = int(stated(right[None], program.check)[1][0])
            if int(outputs["label"][row]) != named:
                return f"label {int(outputs['label'][row])} is not that of its logits"
            if onward is None:
                continue
            leaves = exceeds_threshold(sureness(right[None], program.check), program.onward_threshold)[0]
            goes_on = exit == len(logits) - 1 and not leaves
            if bool(outputs["goes_on"][row]) != goes_on:
                return f"sample {row} {'left' if goes_on else 'goes on'} at exit {exit}, where it must not"
            tensor = next(tensors, None) if goes_on else onward
            if not np.array_equal(onward, [] if tensor is None else tensor):
                return f"the tensor with which sample {row} goes on has wrong bits"
        return ""
