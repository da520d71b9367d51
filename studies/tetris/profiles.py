"""Devices and networks of the study.

The paper prints no latencies. Its GPUs are stood for by made-up profiles whose only claim is the shape: a
fixed part a layer, and a part a sample that larger GPUs have less of. Prices follow from the paper's two cost
equalities (16 V100 = 6 V100 + 8 P100 + 15 K80 = $0.013/s, and 26 P100 = 16 V100): 2.93, 1.80 and 0.99 dollars
an hour. So that no statement hangs on one made-up profile, others are drawn that have the shape, too, and a
statement is judged by the share of them on which it holds. Boards are ours: cycles of the exact model, which
equal the RTL's.

>>> [round(price) for price in list(PRICES.values())[:3]], len(board_profile("zcu104").blocks)
([3, 2, 1], 17)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fluidnpu.scheduler.placement import Block, DeviceType, Fleet, FleetDevice, Link, NetworkFacts, Profile

from ..fluid_batching.paper import table2_rows
from ..pame.recorded import recording
from ..running.cycles import resnet50_on

RAMPS = 12  # of BERT-Base, one a layer
LAYER_MS = {  # a fixed part, and a part a sample
    "V100": (0.42, 0.042),
    "P100": (0.46, 0.098),
    "K80": (0.62, 0.205),
    "T4": (0.50, 0.080),
    "M60": (0.70, 0.150),
}
HEAD_MS = (0.030, 0.002)
FIXED_MS, EACH_OVER_FIXED = (0.15, 0.6), (0.02, 0.5)  # of the drawn V100s
SLOWER = {"P100": (1.0, 1.5, 1.2, 3.0), "K80": (1.2, 2.5, 2.0, 7.0)}  # times a V100: fixed from, to, each from, to
HEAD_SHARE = (0.01, 0.15)  # of a layer
PRICES = {"V100": 2.93, "P100": 1.80, "K80": 0.99, "T4": 1.40, "M60": 1.20}
CUT_BYTES = 128 * 768 * 2  # 128 tokens of 768 half-precision numbers
GIGABIT, TEN_GIGABIT = 117_700_000, 1_177_000_000  # bytes a second of TCP at line rate
EXITS_FLUID = table2_rows()[0].serving.exit_rates  # of ResNet-50 in Fluid Batching
EXITS_EASY = (0.40, 0.30, 0.15, 0.15)
RESNET_CUTS = (1_605_632, 802_816, 401_408, 200_704)  # bytes behind layer1 to layer4
B_MAX = 16


@dataclass(frozen=True, kw_only=True)
class GpuTimes:
    """Times of a layer and of a ramp on each type, in ms: a fixed part, and a part a sample."""

    layer_ms: Mapping[str, tuple[float, float]]
    head_ms: tuple[float, float]


MADE_UP = GpuTimes(layer_ms=LAYER_MS, head_ms=HEAD_MS)


def draw_profile(seed: int) -> GpuTimes:
    """Draw a profile of the shape that the paper's argument needs, evenly on logarithmic scales.

    >>> gpus = draw_profile(1)
    >>> list(gpus.layer_ms), gpus.layer_ms["V100"][1] < gpus.layer_ms["P100"][1] < gpus.layer_ms["K80"][1]
    (['V100', 'P100', 'K80'], True)
    """
    rng = np.random.default_rng([61, seed])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    fixed = between(*FIXED_MS)
    per_sample = fixed * between(*EACH_OVER_FIXED)
    layers = {"V100": (fixed, per_sample)}
    for kind, (*first, low, high) in SLOWER.items():
        layers[kind] = (fixed * between(*first), per_sample * between(low, high))
    if layers["K80"][1] < layers["P100"][1]:
        layers["P100"], layers["K80"] = layers["K80"], layers["P100"]
    share = between(*HEAD_SHARE)
    return GpuTimes(layer_ms=layers, head_ms=(share * fixed, share * per_sample))


def patience_rates(patience: int) -> tuple[float, ...]:
    """Exit rates of PABEE's counter: leave where `patience` exits in a row agree with the one before.

    Answers are those of a network of seven exits trained here, to garments that it never saw; its exits
    stand for as many ramps, evenly apart.
    """
    classes = recording("fashion").classes
    agrees = classes[:, 1:] == classes[:, :-1]
    run, leaves = np.zeros(len(classes), int), np.full(len(classes), classes.shape[1] - 1)
    for exit in range(1, classes.shape[1]):
        run = np.where(agrees[:, exit - 1], run + 1, 0)
        leaves = np.where(run >= patience, np.minimum(leaves, exit), leaves)
    ramps = (leaves + 1) * RAMPS // classes.shape[1] - 1
    return tuple(float(x) for x in np.bincount(ramps, minlength=RAMPS) / len(classes))


def mix_rates(easy: float, tolerance: float = 0.4) -> tuple[float, ...]:
    """Exit rates of a mix: easy samples leave at ramps 1 to 6, hard ones at 7 to 12, later the more.

    `tolerance`: the entropy at which a ramp lets go; a lower one moves everybody to later ramps.
    """
    early = np.array([1, 2, 3, 3, 2, 1] + [0] * 6, float)
    late = np.array([0] * 6 + [1, 1, 2, 2, 3, 6], float)
    rates = easy * early / early.sum() + (1 - easy) * late / late.sum()
    moved = max(0.0, min(1.0, (0.4 - tolerance) / 0.2))  # share that misses its ramp and takes the next but two
    shares = np.zeros(RAMPS)
    for ramp, rate in enumerate(rates):
        shares[ramp] += rate * (1 - moved)
        shares[min(RAMPS - 1, ramp + 3)] += rate * moved
    if tolerance > 0.4:
        share = min(1.0, (tolerance - 0.4) / 0.2)
        for ramp in range(1, RAMPS):
            back = shares[ramp] * share * 0.5
            shares[ramp] -= back
            shares[ramp - 1] += back
    return tuple(float(x) for x in shares / shares.sum())


def gpu_profile(kind: str, gpus: GpuTimes = MADE_UP, layers: int = RAMPS) -> Profile:
    """BERT-like: equal layers, each with a ramp."""
    (fixed, per_sample), (head_fixed, head_each) = gpus.layer_ms[kind], gpus.head_ms
    blocks = tuple(
        Block(
            name=f"layer{k}",
            ns=tuple(round(1e6 * (fixed + per_sample * b)) for b in range(1, B_MAX + 1)),
            head_ns=tuple(round(1e6 * (head_fixed + head_each * b)) for b in range(1, B_MAX + 1)),
            exit=f"ramp{k}",
            cut_bytes=CUT_BYTES,
            weights_bytes=14_000_000,
        )
        for k in range(layers)
    )
    return Profile(network="bert", blocks=blocks, slot_bytes=1_000_000, source="made up")


def gpu_fleet(counts: Mapping[str, int], rates: Sequence[float], gpus: GpuTimes = MADE_UP) -> Fleet:
    """A fleet of made-up GPUs behind one switch; as many layers as there are rates."""
    types = {
        kind: DeviceType(
            name=kind,
            memory_bytes=16_000_000_000,
            cost_micros=round(1e6 * PRICES[kind]),
            cost_source="derived from the paper's cost equalities",
            profiles={"bert": gpu_profile(kind, gpus, len(rates))},
        )
        for kind, count in counts.items()
        if count
    }
    return Fleet(
        name="made-up GPUs",
        networks={"bert": NetworkFacts(name="bert", exit_rates=tuple(rates), input_bytes=1024, answer_bytes=64)},
        types=types,
        links={"lan": Link(name="lan", bytes_per_s=TEN_GIGABIT, latency_ns=100_000)},
        devices=tuple(
            FleetDevice(name=f"{kind}-{k}", type=kind, link="lan") for kind in types for k in range(counts[kind])
        ),
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
        devices=tuple(FleetDevice(name=f"{t}-{k}", type=t, link="lan") for t in types for k in range(counts[t])),
    )
