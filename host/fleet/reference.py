"""The bits that every board must give: a bundle's arithmetic on a simulated NPU, without its time.

It judges answers: whatever exit a sample has left at, its logits there are known.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fluidnpu.models.exits import stated

from ..bundle import Bundle
from ..devices.simulated import SimulatedNpu
from ..driver import Driver
from ..oip.tensors import Array


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
        with self._lock:
            self._driver.write_sample(0, image)
            self._driver.activate((0,))
            found = []
            for stage in range(self._driver.design.stages):
                self._driver.run_stage(stage)
                found.append(self._driver.logits((0,), stage)[0].astype(np.float32))
            self._driver.activate(())
        return found

    def objection(self, images: Array, outputs: Mapping[str, Array]) -> str:
        """Return a phrase on the first sample whose answer is not the bundle's; empty where all are right."""
        for row, (image, exit) in enumerate(zip(images, outputs["exit"], strict=True)):
            right = self.logits(image)
            if not 0 <= exit < len(right):
                return f"sample {row} left at exit {exit}, which there is not"
            wrong = int((right[exit] != outputs["logits"][row]).sum())
            if wrong:
                return f"{wrong} of {len(right[exit])} logits of exit {exit} have wrong bits"
            named = int(stated(right[exit][None], self._driver.program.check)[1][0])
            if int(outputs["label"][row]) != named:
                return f"label {int(outputs['label'][row])} is not that of its logits"
        return ""
