"""Ensembles and devices of the study.

Multiply-accumulates and weights are those of the published architectures. Times are made up: on a GPU a fixed
part and a part a sample in proportion to the work, on a board ResNet-50's counted time in proportion to the
work. The paper prints no time of a network but through its tables.

>>> problem = gpu_problem("IMN4", 4)
>>> problem.seconds.shape, problem.kinds[-1]
((5, 4, 5), 'cpu')
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler.placement import Problem

from ..running.cycles import resnet50_on

# Network: 10^9 multiply-accumulates of a 224x224 image (299x299 for Inception-v3 and Xception), 10^6 weights.
WORK = {
    "ResNet18": (1.8, 11.7),
    "ResNet34": (3.7, 21.8),
    "ResNet50": (4.1, 25.6),
    "ResNet101": (7.8, 44.5),
    "ResNet152": (11.5, 60.2),
    "ResNeXt50": (4.2, 25.0),
    "DenseNet121": (2.9, 8.0),
    "VGG16": (15.5, 138.4),
    "VGG19": (19.6, 143.7),
    "InceptionV3": (5.7, 23.8),
    "Xception": (8.4, 22.9),
    "MobileNetV2": (0.3, 3.5),
}
ENSEMBLES = {
    "IMN1": ("ResNet152",),
    "IMN4": ("ResNet50", "ResNet101", "DenseNet121", "VGG19"),
    "IMN12": tuple(WORK),
}
GPU_BATCHES, BOARD_BATCHES = (8, 16, 32, 64, 128), tuple(range(1, 9))
GPU_FIXED_S, GPU_S_A_GMAC = 0.020, 0.45e-3
CPU_SLOWER = 40.0
GB = 10**9
THIN = ("DenseNet121", "MobileNetV2", "Xception", "ResNeXt50")  # fill an array half as well


def gpu_problem(ensemble: str, gpus: int) -> Problem:
    """An ensemble on GPUs of 16 GB and one CPU, as in the paper."""
    names = ENSEMBLES[ensemble]
    seconds = np.zeros((gpus + 1, len(names), len(GPU_BATCHES)))
    need = np.zeros(seconds.shape, np.int64)
    for m, name in enumerate(names):
        work, weights = WORK[name]
        for k, batch in enumerate(GPU_BATCHES):
            gpu = GPU_FIXED_S + GPU_S_A_GMAC * work * batch * (1.6 if name in THIN else 1.0)
            seconds[:, m, k] = gpu
            seconds[-1, m, k] = CPU_SLOWER * gpu
            need[:, m, k] = round(GB * (2.4 + 0.008 * weights + 0.02 * batch))
    return _problem(names, seconds, need, np.array([16 * GB] * gpus + [400 * GB]), gpus, GPU_BATCHES)


def board_problem(ensemble: str, boards: int) -> Problem:
    """An ensemble on as many ZCU104 as ZC706, 512 MB for the NPU on each, and a CPU."""
    names = ENSEMBLES[ensemble]
    seconds = np.zeros((boards + 1, len(names), len(BOARD_BATCHES)))
    need = np.zeros(seconds.shape, np.int64)
    for d in range(boards + 1):
        counted = resnet50_on("zcu104" if d < boards // 2 else "zc706")
        alone, eight = counted.milliseconds(1), counted.milliseconds(8)
        for m, name in enumerate(names):
            work, weights = WORK[name]
            scale = work / WORK["ResNet50"][0] * (2.0 if name in THIN else 1.0)
            for k, batch in enumerate(BOARD_BATCHES):
                ms = scale * (alone + (eight - alone) * (batch - 1) / 7)
                seconds[d, m, k] = ms * 1e-3 * (10.0 if d == boards else 1.0)
                need[d, m, k] = round(2e6 * weights + 2 * batch * 5e6 * max(1.0, work / 4.1) ** 0.5)
    return _problem(names, seconds, need, np.array([512 * 10**6] * boards + [16 * GB]), boards, BOARD_BATCHES)


def _problem(
    names: tuple[str, ...],
    seconds: NDArray[np.float64],
    need: NDArray[np.int64],
    room: NDArray[np.int64],
    devices: int,
    batches: tuple[int, ...],
) -> Problem:
    return Problem(
        devices=(*(f"device{d}" for d in range(devices)), "cpu"),
        networks=names,
        kinds=("npu",) * devices + ("cpu",),
        batches=batches,
        demand=(1.0,) * len(names),
        seconds=seconds,
        need=need,
        room=room,
    )
