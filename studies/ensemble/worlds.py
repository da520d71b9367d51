"""Ensembles and devices of the study.

Multiply-accumulates and weights are those of the published architectures. Times are made up: on a GPU a fixed
part and a part a sample in proportion to the work, on a board ResNet-50's counted time in proportion to the
work. The paper prints no time of a network but through its tables. So that no statement hangs on one made-up
world, others are drawn; a statement is judged by the share of them on which it holds. FOS14 and CIF36 are not
published: their networks are drawn as the paper describes them, residual networks of 10 to 132 layers whose
filters are multiplied by 0.5 to 3.

>>> problem = gpu_problem("IMN4", 4)
>>> problem.seconds.shape, problem.kinds[-1]
((5, 4, 5), 'cpu')
"""

from __future__ import annotations

from dataclasses import dataclass

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
UNPUBLISHED = {"FOS14": (14, 224), "CIF36": (36, 32)}  # networks, and the side of their images
NAMES = (*ENSEMBLES, *UNPUBLISHED)
GPU_BATCHES, BOARD_BATCHES = (8, 16, 32, 64, 128), tuple(range(1, 9))
GB = 10**9
THIN = ("DenseNet121", "MobileNetV2", "Xception", "ResNeXt50")  # fill an array half as well


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """Times and memory on the paper's machine. `odd`: factors on the time of each network, in the order of
    the ensemble.
    """

    fixed_s: float = 0.020
    s_a_gmac: float = 0.45e-3
    thin: float = 1.6  # times as long, for what fills an array less well
    cpu_slower: float = 40.0
    fixed_gb: float = 2.4  # of a network on a device, beside its weights and its batch
    cpu_gb: float = 400.0
    odd: tuple[float, ...] = (1.0,) * 36
    seed: int = 0  # of the networks that are not published


MADE_UP = Gpus()


def draw_gpus(seed: int) -> Gpus:
    """Draw a world, evenly on logarithmic scales around the made-up one."""
    rng = np.random.default_rng([62, seed])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return Gpus(
        fixed_s=between(0.005, 0.05),
        s_a_gmac=between(0.1e-3, 1e-3),
        thin=between(1.0, 3.0),
        cpu_slower=between(10.0, 100.0),
        fixed_gb=between(1.0, 5.0),
        cpu_gb=between(4.0, 400.0),
        odd=tuple(np.exp(rng.normal(0, 0.25, 36)).tolist()),
        seed=seed,
    )


def networks_of(ensemble: str, seed: int) -> dict[str, tuple[float, float]]:
    """Give work and weights of an ensemble's networks, drawn where they are not published."""
    if ensemble in ENSEMBLES:
        return {name: WORK[name] for name in ENSEMBLES[ensemble]}
    count, side = UNPUBLISHED[ensemble]
    rng = np.random.default_rng([63, seed, count])
    (gmac, weights), out = WORK["ResNet50"], {}
    for number in range(count):
        depth, width = rng.integers(10, 133) / 50, float(np.exp(rng.uniform(np.log(0.5), np.log(3))))
        out[f"{ensemble}-{number}"] = (gmac * depth * width**2 * (side / 224) ** 2, weights * depth * width**2)
    return out


def gpu_problem(ensemble: str, gpus: int, world: Gpus = MADE_UP) -> Problem:
    """An ensemble on GPUs of 16 GB and one CPU, as in the paper."""
    networks = networks_of(ensemble, world.seed)
    seconds = np.zeros((gpus + 1, len(networks), len(GPU_BATCHES)))
    need = np.zeros(seconds.shape, np.int64)
    for m, (name, (work, weights)) in enumerate(networks.items()):
        scale = world.odd[m] * (world.thin if name in THIN else 1.0)
        for k, batch in enumerate(GPU_BATCHES):
            gpu = world.fixed_s + world.s_a_gmac * work * batch * scale
            seconds[:, m, k] = gpu
            seconds[-1, m, k] = world.cpu_slower * gpu
            need[:, m, k] = round(GB * (world.fixed_gb + 0.008 * weights + 0.02 * batch))
    room = np.array([16 * GB] * gpus + [round(world.cpu_gb * GB)])
    return _problem(tuple(networks), seconds, need, room, gpus, GPU_BATCHES)


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
