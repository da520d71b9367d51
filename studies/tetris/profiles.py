"""Devices and networks of the study.

The paper prints no latencies. Its GPUs are stood for by made-up profiles whose only claim is the shape: a
fixed part a layer, and a part a sample that larger GPUs have less of. Prices follow from the paper's two cost
equalities (16 V100 = 6 V100 + 8 P100 + 15 K80 = $0.013/s, and 26 P100 = 16 V100): 2.93, 1.80 and 0.99 dollars
an hour. Boards are ours: cycles of the exact model, which equal the RTL's.

>>> [round(price) for price in list(PRICES.values())[:3]], len(board_profile("zcu104").blocks)
([3, 2, 1], 17)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from fluidnpu.scheduler.placement import Block, Device, DeviceType, Fleet, Link, NetworkFacts, Profile

from ..running.cycles import resnet50_on

RAMPS = 12  # of BERT-Base, one a layer
LAYER_MS = {
    "V100": (0.42, 0.042),
    "P100": (0.46, 0.098),
    "K80": (0.62, 0.205),
    "T4": (0.50, 0.080),
    "M60": (0.70, 0.150),
}
HEAD_MS = (0.030, 0.002)
PRICES = {"V100": 2.93, "P100": 1.80, "K80": 0.99, "T4": 1.40, "M60": 1.20}
CUT_BYTES = 128 * 768 * 2  # 128 tokens of 768 half-precision numbers
GIGABIT, TEN_GIGABIT = 117_700_000, 1_177_000_000  # bytes a second of TCP at line rate
EXITS_FLUID = (0.051, 0.169, 0.09, 0.69)  # of ResNet-50 in Fluid Batching
EXITS_EASY = (0.40, 0.30, 0.15, 0.15)
RESNET_CUTS = (1_605_632, 802_816, 401_408, 200_704)  # bytes behind layer1 to layer4
B_MAX = 16


def mix_rates(easy: float, tolerance: float = 0.4) -> tuple[float, ...]:
    """Exit rates of a mix: easy samples leave at ramps 1 to 6, hard ones at 7 to 12, later the more.

    `tolerance`: the entropy at which a ramp lets go; a lower one moves everybody to later ramps.
    """
    early = np.array([1, 2, 3, 3, 2, 1] + [0] * 6, float)
    late = np.array([0] * 6 + [1, 1, 2, 2, 3, 6], float)
    rates = easy * early / early.sum() + (1 - easy) * late / late.sum()
    moved = max(0.0, min(1.0, (0.4 - tolerance) / 0.2))  # share that misses its ramp and takes the next but two
    found = np.zeros(RAMPS)
    for ramp, rate in enumerate(rates):
        found[ramp] += rate * (1 - moved)
        found[min(RAMPS - 1, ramp + 3)] += rate * moved
    if tolerance > 0.4:
        share = min(1.0, (tolerance - 0.4) / 0.2)
        for ramp in range(1, RAMPS):
            back = found[ramp] * share * 0.5
            found[ramp] -= back
            found[ramp - 1] += back
    return tuple(float(x) for x in found / found.sum())


def gpu_profile(kind: str, heads: bool = True) -> Profile:
    """BERT-like: twelve equal layers, each with a ramp."""
    fixed, each = LAYER_MS[kind]
    blocks = tuple(
        Block(
            name=f"layer{k}",
            ns=tuple(round(1e6 * (fixed + each * b)) for b in range(1, B_MAX + 1)),
            head_ns=tuple(round(1e6 * (HEAD_MS[0] + HEAD_MS[1] * b)) for b in range(1, B_MAX + 1)) if heads else (),
            exit=f"ramp{k}",
            cut_bytes=CUT_BYTES,
            weights_bytes=14_000_000,
        )
        for k in range(RAMPS)
    )
    return Profile(network="bert", blocks=blocks, slot_bytes=1_000_000, source="made up")


def gpu_fleet(counts: Mapping[str, int], rates: Sequence[float], bytes_per_s: int = TEN_GIGABIT) -> Fleet:
    """A fleet of made-up GPUs behind one switch."""
    types = {
        kind: DeviceType(
            name=kind,
            memory_bytes=16_000_000_000,
            cost_micros=round(1e6 * PRICES[kind]),
            cost_source="derived from the paper's cost equalities",
            profiles={"bert": gpu_profile(kind)},
        )
        for kind, count in counts.items()
        if count
    }
    return Fleet(
        name="made-up GPUs",
        networks={"bert": NetworkFacts(name="bert", exit_rates=tuple(rates), input_bytes=1024, answer_bytes=64)},
        types=types,
        links={"lan": Link(name="lan", bytes_per_s=bytes_per_s, latency_ns=100_000)},
        devices=tuple(Device(name=f"{kind}-{k}", type=kind, link="lan") for kind in types for k in range(counts[kind])),
    )


@lru_cache
def board_profile(board: str) -> Profile:
    """ResNet-50 in bottlenecks, exits behind layer1, layer2 and layer3; batches between counted ones are
    linear.

    A head costs what the final one does, by the share of its channels: an assumption.
    """
    counted = resnet50_on(board)
    groups: dict[str, list[str]] = {}
    for name in counted.layers:
        parts = name.split(".")
        key = (
            "stem"
            if parts[0] in ("conv1", "maxpool")
            else "head"
            if parts[0] in ("avgpool", "fc")
            else ".".join(parts[:2])
        )
        groups.setdefault(key, []).append(name)

    def ns(members: Sequence[str], share: float = 1.0) -> tuple[int, ...]:
        cycles = counted.cycles
        at = [share * sum(cycles[b][name] for name in members) * 1e9 / counted.clock_hz for b in counted.batches]
        return tuple(round(x) for x in np.interp(range(1, counted.batches[-1] + 1), counted.batches, at))

    ends = {"layer1.2": 0.125, "layer2.3": 0.25, "layer3.5": 0.5, "layer4.2": 1.0}
    blocks = []
    for key, members in groups.items():
        if key == "head":
            continue
        stage = 0 if key == "stem" else int(key[5])
        blocks.append(
            Block(
                name=key,
                ns=ns(members),
                head_ns=ns(groups["head"], ends[key]) if key in ends else (),
                exit=key if key in ends else "",
                cut_bytes=401_408 if key == "stem" else RESNET_CUTS[stage - 1],
                weights_bytes=3_000_000,
            )
        )
    return Profile(network="resnet50", blocks=tuple(blocks), slot_bytes=22_200_000, source="exact model")


def board_fleet(zc706: int, zcu104: int, rates: Sequence[float], bytes_per_s: int) -> Fleet:
    """Boards behind one switch; images as bytes; each board has what its document gives it for the NPU."""
    counts = {"zc706": zc706, "zcu104": zcu104}
    types = {
        board: DeviceType(name=board, memory_bytes=1_000_000_000, profiles={"resnet50": board_profile(board)})
        for board, count in counts.items()
        if count
    }
    facts = NetworkFacts(name="resnet50", exit_rates=tuple(rates), input_bytes=150_528, answer_bytes=2_000)
    return Fleet(
        name="boards",
        networks={"resnet50": facts},
        types=types,
        links={"lan": Link(name="lan", bytes_per_s=bytes_per_s, latency_ns=100_000)},
        devices=tuple(Device(name=f"{t}-{k}", type=t, link="lan") for t in types for k in range(counts[t])),
    )
