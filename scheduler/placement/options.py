"""Every piece of a network that a kind of device can run, with its rate and latency. Pure arithmetic.

A split of blocks [i, j) at batch b takes t = sum of the blocks' expected times: with its ramps on the batch
shrinks inside, binomially. It runs as often as samples reach block i, the share S_i, so one device carries
b / (S_i t) samples a second of the whole network. In a chain of splits on one device, the times of all of
them add. A batch starts as soon as a device of the pool is free, so at full load a sample waits up to
(b - 1) / b of t / m for its batch to fill in a pool of m devices, and then t.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import comb, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable

from ..errors import FleetError, PlacementError
from .fleet import Fleet, Link, NetworkFacts
from .profile import Profile

Floats = NDArray[np.float64]
NS = 10**9
MOST_WAYS, MOST_CHAINS = 6, 8  # batches of a split and chains to a cut that are followed
LONGEST_NS = 1 << 62  # no objective
TURNS = 2  # a chain of splits on one device: a sample may meet the device at work on another split each time


class Split(NamedTuple):
    """Blocks [first, end) of a network in batches of `batch`; `ramps` as in `Job`."""

    first: int
    end: int
    batch: int
    ramps: str


class Option(NamedTuple):
    """One way in which a device runs blocks [first, end): a split, or a chain of splits in turns.

    `rate`: samples a second of the whole network that one device carries. In a pool of m devices a sample
    takes at most `base_ns + fill_ns / m`. `chain` are the splits.
    """

    rate: float
    base_ns: float
    fill_ns: float
    chain: tuple[Split, ...]

    def latency_ns(self, devices: int) -> float:
        """Longest planned time of a sample in a pool of some devices."""
        return self.base_ns + self.fill_ns / devices


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """Devices that a plan cannot distinguish: one type on one link."""

    type: str
    link: Link
    profile: Profile
    devices: tuple[str, ...]
    cost_micros: int
    memory_bytes: int

    @property
    def count(self) -> int:
        """Number of the devices."""
        return len(self.devices)


@dataclass(frozen=True, kw_only=True)
class Space:
    """The plans of one network on a fleet: kinds of devices and the options of every piece on each.

    `slo_ns`: the longest time that a sample may take, slack already taken off. `overlap`: transfers continue
    while a device computes (a pipeline); without it a device waits for them. `serial`: chains of splits on
    one device are options. `batches`: batch sizes to consider, by default all. `ramps`:
    ways with exits that may be chosen, as in `Job`; `on` always may.
    """

    network: NetworkFacts
    kinds: tuple[DeviceKind, ...]
    slo_ns: int
    head: Link | None = None
    overlap: bool = True
    serial: bool = True
    batches: tuple[int, ...] = ()
    ramps: tuple[str, ...] = ("on", "last", "none")

    def __post_init__(self) -> None:
        if self.slo_ns <= 0:
            raise FleetError(f"the objective must leave time above zero, not {self.slo_ns} ns")
        if not self.kinds:
            raise PlacementError(f"network '{self.network.name}' must run on at least one device, and no type has it")
        if self.network.exit_rates is None:
            raise FleetError(
                f"network '{self.network.name}' has {len(self.kinds[0].profile.exits)} exits, so exit_rates must be given"
            )

    @classmethod
    def of(cls, fleet: Fleet, network: str, slo_ns: int, **settings: object) -> Space:
        """Make the space of one network of a fleet. Raises FleetError and PlacementError."""
        if network not in fleet.networks:
            raise FleetError(f"network must be one of {', '.join(fleet.networks)}, not '{network}'")
        members: dict[tuple[str, str], list[str]] = {}
        for device in fleet.devices:
            if network in fleet.types[device.type].profiles:
                members.setdefault((device.type, device.link), []).append(device.name)
        kinds = tuple(
            DeviceKind(
                type=kind,
                link=fleet.links[link],
                profile=fleet.types[kind].profiles[network],
                devices=tuple(names),
                cost_micros=fleet.types[kind].cost_micros,
                memory_bytes=fleet.types[kind].memory_bytes,
            )
            for (kind, link), names in members.items()
        )
        head = fleet.links[fleet.head] if fleet.head else None
        return cls(network=fleet.networks[network], kinds=kinds, slo_ns=slo_ns, head=head, **settings)  # type: ignore[arg-type]

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.kinds[0].profile.blocks)

    @cached_property
    def reach(self) -> tuple[float, ...]:
        """Share of samples that reach each block, and 0 past the last."""
        rates, left, out = self.network.exit_rates or (), 1.0, []
        ends = dict(zip(self.kinds[0].profile.exits, rates, strict=True))
        for block in range(self.blocks):
            out.append(max(left, 0.0))
            left -= ends.get(block, 0.0)
        return (*out, 0.0)

    @property
    def head_rate(self) -> float:
        """Samples a second that the head's link carries: inputs out, answers in, both ways at once."""
        size = max(self.network.input_bytes, self.network.answer_bytes)
        return self.head.bytes_per_s / size if self.head is not None and size else inf

    @cached_property
    def pieces(self) -> dict[tuple[int, int, int], tuple[Option, ...]]:
        """Options by (kind, first, end) that no other of the piece beats. Raises PlacementError.

        A piece that no sample reaches costs nothing and is nobody's; it has no options.
        """
        options_of: dict[tuple[int, int, int], tuple[Option, ...]] = {}
        for index, kind in enumerate(self.kinds):
            for (first, end), options in _Pieces(self, kind).all():
                if options:
                    options_of[index, first, end] = options
        if not any(first == 0 for _, first, _ in options_of) or not any(end == self.blocks for _, _, end in options_of):
            raise PlacementError(_why_nothing(self))
        return options_of


def undominated(options: Sequence[Option], slo_ns: float) -> tuple[Option, ...]:
    """Keep options within the objective that are better in rate or in latency, best rate first.

    >>> slow, fast = Option(1.0, 50, 0, ()), Option(2.0, 40, 5, ())
    >>> undominated([slow, fast], 100) == (fast,)
    True
    """
    kept, base, total = [], inf, inf
    for option in sorted(options, key=lambda o: (-o.rate, o.base_ns + o.fill_ns, o.base_ns)):
        if option.base_ns <= slo_ns and (option.base_ns < base or option.base_ns + option.fill_ns < total):
            kept.append(option)
            base, total = min(base, option.base_ns), min(total, option.base_ns + option.fill_ns)
    return tuple(kept)


def whole_options(space: Space, kind: DeviceKind) -> list[Option]:
    """Give every option of the whole network on a kind, also those that others beat."""
    pieces, end = _Pieces(space, kind), space.blocks
    for first in range(end):
        if space.reach[first] > 0:
            for cut in range(first + 1, end + 1):
                pieces.times[first, cut] = pieces.ways(first, cut)
    return [*pieces.splits(0, end), *(pieces.turns(chain) for chain in pieces.chains(0).get(end, ()))]


def whole_times(space: Space, kind: DeviceKind) -> dict[int, float]:
    """Give the expected time in ns of the whole network with its exits, by batch size."""
    pieces = _Pieces(space, kind)
    times = pieces.run_ns(0, space.blocks, "on", list(pieces.exits))
    return {int(batch): float(t) for batch, t in zip(pieces.batches, times, strict=True)}


class _Priced(NamedTuple):
    """Options as columns: rate, latency of one sample in a large pool, what a pool of one adds."""

    rate: Floats
    base_ns: Floats
    fill_ns: Floats

    def front(self, slo_ns: float) -> NDArray[np.int64]:
        """Indices of options within the objective that are better in rate or in latency, best rate first."""
        order = np.lexsort((self.base_ns, self.base_ns + self.fill_ns, -self.rate))
        order = order[self.base_ns[order] <= slo_ns]
        if not len(order):
            return np.zeros(0, np.int64)
        kept = np.ones(len(order), bool)
        for column in (self.base_ns, self.base_ns + self.fill_ns):
            least = np.minimum.accumulate(column[order])
            better = np.r_[True, column[order][1:] < least[:-1]]
            kept = better if column is self.base_ns else kept | better
        return np.asarray(order[kept], np.int64)


class _Pieces:
    """The options of one kind of device; vectors run over batch sizes."""

    def __init__(self, space: Space, kind: DeviceKind) -> None:
        self.space, self.kind, self.profile = space, kind, kind.profile
        b_max = self.profile.b_max
        self.batches = np.array([b for b in (space.batches or range(1, b_max + 1)) if b <= b_max])
        if not len(self.batches):
            raise FleetError(
                f"batches must hold one of at most {b_max}, which type '{kind.type}' has, not {space.batches}"
            )
        self.ns = np.array([(0, *block.ns) for block in self.profile.blocks], float)
        self.head_ns = np.array([(0, *block.head_ns) for block in self.profile.blocks], float)
        self.exits = self.profile.exits
        self.weights = np.concatenate([[0], np.cumsum([block.weights_bytes for block in self.profile.blocks])])
        self.cuts = [e + 1 for e in self.exits if e + 1 < space.blocks and space.reach[e + 1] > 0]
        self.times: dict[tuple[int, int], list[tuple[str, Floats]]] = {}

    def all(self) -> Iterator[tuple[tuple[int, int], tuple[Option, ...]]]:
        """Yield first and end of every piece with its options, best rate first."""
        space, blocks = self.space, self.space.blocks
        for first in range(blocks):
            if space.reach[first] > 0:
                for end in range(first + 1, blocks + 1):
                    self.times[first, end] = self.ways(first, end)
        for first in range(blocks):
            if space.reach[first] > 0:
                chains = self.chains(first) if space.serial else {}
                for end in range(first + 1, blocks + 1):
                    options = [*self.splits(first, end), *(self.turns(chain) for chain in chains.get(end, ()))]
                    yield (first, end), undominated(options, space.slo_ns)

    def ways(self, first: int, end: int) -> list[tuple[str, Floats]]:
        """Duration of one run by batch size, for every way with the ramps of a piece."""
        inside = [e for e in self.exits if first <= e < end]
        variants = [("on", self.run_ns(first, end, "on", inside))]
        if len(inside) > 1 and "last" in self.space.ramps:
            variants.append(("last", self.run_ns(first, end, "last", inside)))
        if len(inside) > 1 and "none" in self.space.ramps and first == 0 and end == self.space.blocks:
            variants.append(("none", self.run_ns(first, end, "none", inside)))
        return variants

    def run_ns(self, first: int, end: int, ramps: str, inside: list[int]) -> Floats:
        """Expected duration of one run by batch size."""
        reach = self.space.reach
        heads = {"on": set(inside), "last": set(inside[-1:]), "none": {self.exits[-1]}}[ramps]
        total, start, stay = np.zeros(len(self.batches)), first, 1.0
        for stop in [*(e for e in inside if e in heads and e < end - 1), end - 1]:
            rows = self.ns[start : stop + 1].sum(axis=0)
            rows = rows + self.head_ns[stop] if stop in heads else rows
            total += rows[self.batches] if stay >= 1 else shrunk(stay, self.profile.b_max)[self.batches] @ rows
            if ramps != "none":
                stay = reach[stop + 1] / reach[first]
            start = stop + 1
        return total

    def room(self, first: int, end: int) -> float:
        """Largest number of samples whose slots fit beside the weights of a piece."""
        left = self.kind.memory_bytes - int(self.weights[end] - self.weights[first])
        return left / self.profile.slot_bytes if self.profile.slot_bytes else inf if left >= 0 else -1.0

    def splits(self, first: int, end: int) -> list[Option]:
        """The options that are one split, those that no other beats."""
        options = []
        fits = 2 * self.batches <= self.room(first, end)  # slots of the batch that runs and of the one that gathers
        batch = self.batches[fits]
        for ramps, times in self.times[first, end]:
            share = 1.0 if ramps == "none" else self.space.reach[first]
            priced = self.priced(first, end, share * times[fits] / batch, times[fits], batch, batch, chain=False)
            for k in priced.front(self.space.slo_ns):
                split = Split(first, end, int(batch[k]), ramps)
                options.append(
                    Option(float(priced.rate[k]), float(priced.base_ns[k]), float(priced.fill_ns[k]), (split,))
                )
        return options

    def chains(self, first: int) -> dict[int, list[_Chain]]:
        """Chains of two and more splits that begin at a cut, by their end; inner cuts lie at exits."""
        reach, blocks = self.space.reach, self.space.blocks
        inner = [cut for cut in self.cuts if cut > first]
        fronts: dict[int, list[_Chain]] = {first: [_Chain(0.0, 0.0, 0, ())]}
        chains: dict[int, list[_Chain]] = {}
        for end in [*inner, *(e for e in range(first + 1, blocks + 1) if e not in inner)]:
            longer: list[_Chain] = []
            for start in [first, *(cut for cut in inner if cut < end)]:
                begun = fronts.get(start, [])
                for ramps, batch, t in self.least(start, end):
                    work, split = reach[start] * t / batch, Split(start, end, batch, ramps)
                    longer += [_Chain(c.work + work, c.ns + t, c.held + batch, (*c.splits, split)) for c in begun]
            front = _front(longer)
            if end in inner:
                fronts[end] = front
            room = self.room(first, end)
            chains[end] = [c for c in front if len(c.splits) > 1 and c.held + self.batches[0] <= room]
        return chains

    def least(self, first: int, end: int) -> list[tuple[str, int, float]]:
        """Ways and batches of a split that are better in work a sample or in time, and its time."""
        rows = [
            (float(t) / int(b), float(t), ramps, int(b))
            for ramps, times in self.times[first, end]
            if ramps != "none"
            for b, t in zip(self.batches, times, strict=True)
        ]
        kept: list[tuple[str, int, float]] = []
        for _, t, ramps, batch in sorted(rows):
            if not kept or t < kept[-1][2]:
                kept.append((ramps, batch, t))
        return kept[:: max(1, -(-len(kept) // MOST_WAYS))]

    def turns(self, chain: _Chain) -> Option:
        """Price a chain of splits in turns on one device."""
        first, last = chain.splits[0], chain.splits[-1]
        alone = np.ones(1)
        work, ns = chain.work * alone, chain.ns * alone
        priced = self.priced(first.first, last.end, work, ns, first.batch * alone, last.batch * alone, chain=True)
        return Option(float(priced.rate[0]), float(priced.base_ns[0]), 0.0, chain.splits)

    def priced(
        self, first: int, end: int, work: Floats, ns: Floats, batch_in: Floats, batch_out: Floats, *, chain: bool
    ) -> _Priced:
        """Rate and latency from device time a sample, links both ways and the time of a run."""
        space, link = self.space, self.kind.link
        share, on = space.reach[first], space.reach[end]
        facts, blocks = space.network, self.profile.blocks
        per_byte = NS / link.bytes_per_s
        enters = per_byte * (facts.input_bytes if first == 0 else blocks[first - 1].cut_bytes)
        leaves = per_byte * (facts.answer_bytes if end == space.blocks else blocks[end - 1].cut_bytes)
        sends = on * leaves + (share - on) * per_byte * facts.answer_bytes
        busiest = np.maximum(work, max(share * enters, sends)) if space.overlap else work + share * enters + sends
        move = batch_in * enters + batch_out * leaves
        hops = link.latency_ns * (2 if end == space.blocks else 1)
        if chain:
            return _Priced(NS / busiest, TURNS * ns + move + hops, np.zeros_like(ns))
        run = ns if space.overlap else ns + move
        return _Priced(NS / busiest, ns + move + hops, run * (batch_in - 1) / batch_in)


class _Chain(NamedTuple):
    work: float
    ns: float
    held: int
    splits: tuple[Split, ...]


def _front(chains: list[_Chain]) -> list[_Chain]:
    """Keep chains that are better in work or in time, evenly thinned, the best in work always."""
    kept: list[_Chain] = []
    for chain in sorted(chains, key=lambda c: (c.work, c.ns)):
        if not kept or chain.ns < kept[-1].ns:
            kept.append(chain)
    return kept[:: max(1, -(-len(kept) // MOST_CHAINS))]


def expected_ns(latency: LatencyTable, exit_rates: Sequence[float]) -> tuple[float, ...]:
    """Give the expected time in ns of a batch through all stages, by batch size, as samples leave at exits.

    >>> expected_ns(LatencyTable(ns=((10, 12), (20, 24))), (0.5, 0.5))
    (20.0, 28.0)
    """
    b_max, stay = len(latency.ns[0]), 1.0
    total = np.zeros(b_max + 1)
    for row, rate in zip(latency.ns, exit_rates, strict=True):
        times = np.array([0, *row], float)
        total += times if stay >= 1 else shrunk(stay, b_max) @ times
        stay -= rate
    return tuple(map(float, total[1:]))


@lru_cache(maxsize=4096)
def shrunk(stay: float, b_max: int) -> Floats:
    """Probability that of a batch b (row) n samples stay (column), each independently with `stay`.

    The table is (b_max + 1, b_max + 1).

    >>> shrunk(0.5, 2).tolist()
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]
    """
    stay = min(1.0, max(0.0, stay))
    table = np.zeros((b_max + 1, b_max + 1))
    for batch in range(b_max + 1):
        for n in range(batch + 1):
            table[batch, n] = comb(batch, n) * stay**n * (1 - stay) ** (batch - n)
    return table


def obstacles(space: Space) -> str:
    """Say why no device has the whole network alone: its need and the room, or its time and the objective."""
    lines = []
    for kind in space.kinds:
        pieces = _Pieces(replace(space, slo_ns=LONGEST_NS), kind)
        need, room = kind.profile.memory_bytes(2 * int(pieces.batches[0])), kind.memory_bytes
        if need > room:
            lines.append(f"on '{kind.type}' it needs {need} bytes and there are {room}")
            continue
        pieces.times[0, space.blocks] = pieces.ways(0, space.blocks)
        least = min(split.latency_ns(kind.count) for split in pieces.splits(0, space.blocks))
        lines.append(
            f"on '{kind.type}' one sample takes {least / 1e6:.3g} ms and there are {space.slo_ns / 1e6:.3g} ms"
        )
    return "; ".join(lines)


def _why_nothing(space: Space) -> str:
    return f"network '{space.network.name}' must fit a device and the objective, and it fits none: {obstacles(space)}"
