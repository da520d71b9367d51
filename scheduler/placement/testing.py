"""Small fleets for tests and examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .fleet import DeviceType, Fleet, FleetDevice, Link, NetworkFacts
from .profile import Block, Profile


def toy_fleet(boards: int = 2, *, bytes_per_s: int = 10**9) -> Fleet:
    """Make a fleet of equal boards that run a network of four blocks and two exits."""
    blocks = tuple(
        Block(
            name=f"b{k}",
            ns=tuple(2_000_000 + 1_000_000 * b for b in range(1, 5)),
            head_ns=(100_000,) * 4 if k % 2 else (),
            exit=f"exit{k // 2}" if k % 2 else "",
            cut_bytes=100_000,
            weights_bytes=1_000_000,
        )
        for k in range(4)
    )
    kind = DeviceType(
        name="board",
        memory_bytes=1 << 30,
        cost_micros=100_000,
        cost_source="made up",
        profiles={"toy": Profile(network="toy", blocks=blocks, slot_bytes=100_000, source="made up")},
    )
    return Fleet(
        name="toy",
        networks={"toy": NetworkFacts(name="toy", exit_rates=(0.4, 0.6), input_bytes=10_000, answer_bytes=100)},
        types={"board": kind},
        links={"lan": Link(name="lan", bytes_per_s=bytes_per_s, latency_ns=100_000)},
        devices=tuple(FleetDevice(name=f"board-{k}", type="board", link="lan") for k in range(boards)),
    )


def divided_fleet(exit_rates: tuple[float, float], boards: int = 4) -> Fleet:
    """Make a fleet of equal boards of which none has room for the whole network: two halves, an exit each."""
    blocks = tuple(
        Block(
            name=f"b{k}",
            ns=tuple(1_000_000 + 1_000_000 * b for b in range(1, 5)),
            exit=f"exit{k}",
            cut_bytes=10_000,
            weights_bytes=1_000_000,
        )
        for k in range(2)
    )
    profile = Profile(network="toy", blocks=blocks, slot_bytes=10_000, source="made up")
    kind = DeviceType(name="board", memory_bytes=1_500_000, profiles={"toy": profile})
    return Fleet(
        name="divided",
        networks={"toy": NetworkFacts(name="toy", exit_rates=exit_rates, input_bytes=1000, answer_bytes=10)},
        types={"board": kind},
        links={"lan": Link(name="lan", bytes_per_s=10**9)},
        devices=tuple(FleetDevice(name=f"board-{k}", type="board", link="lan") for k in range(boards)),
    )


def random_fleet(
    rng: np.random.Generator, *, blocks: int, counts: Sequence[int], b_max: int = 4, exits: bool = True
) -> Fleet:
    """Draw a fleet with one network: types of different speed, gain by batching and cost, links of any
    width.
    """
    ends = sorted({blocks - 1, *(int(k) for k in rng.integers(0, blocks, blocks // 2 if exits else 0))})
    cuts = rng.integers(1, 200_000, blocks)
    links = {
        name: Link(name=name, bytes_per_s=int(rng.integers(10**6, 10**9)), latency_ns=int(rng.integers(0, 10**6)))
        for name in ("lan", "wan")
    }
    shape = rng.uniform(1, 4, blocks)
    types, devices = {}, []
    for k, count in enumerate(counts):
        alone, more = (
            rng.uniform(0.1, 3) * 1e6 * shape,
            rng.uniform(0.05, 2) * 1e6 * shape * rng.uniform(0.7, 1.4, blocks),
        )
        made = tuple(
            Block(
                name=f"b{i}",
                ns=tuple(max(1, int(alone[i] + more[i] * b)) for b in range(1, b_max + 1)),
                head_ns=tuple(int(2e5 + 1e4 * b) for b in range(1, b_max + 1)) if i in ends else (),
                exit=f"exit{i}" if i in ends else "",
                cut_bytes=int(cuts[i]),
                weights_bytes=1000,
            )
            for i in range(blocks)
        )
        name = f"type{k}"
        types[name] = DeviceType(
            name=name,
            memory_bytes=1 << 30,
            cost_micros=int(rng.integers(1, 20)) * 100_000,
            cost_source="made up",
            profiles={"net": Profile(network="net", blocks=made)},
        )
        link = str(rng.choice(list(links)))
        devices += [FleetDevice(name=f"{name}-{n}", type=name, link=link) for n in range(count)]
    rates = rng.dirichlet(np.ones(len(ends)))
    rates[-1] = 1 - rates[:-1].sum()
    facts = NetworkFacts(name="net", exit_rates=tuple(map(float, rates)), input_bytes=1000, answer_bytes=10)
    return Fleet(name="random", networks={"net": facts}, types=types, links=links, devices=tuple(devices))


def two_networks(boards: int = 3) -> Fleet:
    """Make a fleet of equal boards with room for both of two networks, one four times the other."""

    def profile(name: str, scale: int) -> Profile:
        ns = tuple(scale * (1_000_000 + 500_000 * b) for b in range(1, 5))
        block = Block(name="all", ns=ns, exit="final", weights_bytes=scale * 1_000_000)
        return Profile(network=name, blocks=(block,), slot_bytes=100_000, source="made up")

    kind = DeviceType(
        name="board", memory_bytes=20_000_000, profiles={"big": profile("big", 4), "small": profile("small", 1)}
    )
    facts = {
        name: NetworkFacts(name=name, exit_rates=(1.0,), input_bytes=1000, answer_bytes=40) for name in ("big", "small")
    }
    return Fleet(
        name="two networks",
        networks=facts,
        types={"board": kind},
        links={"lan": Link(name="lan", bytes_per_s=10**8)},
        devices=tuple(FleetDevice(name=f"board-{k}", type="board", link="lan") for k in range(boards)),
    )
