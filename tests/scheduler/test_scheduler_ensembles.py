"""Ensembles: matrices against every matrix, searches never below their start, sums that know no order."""

import importlib.util
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fluidnpu.scheduler.errors import FleetError, PlacementError
from fluidnpu.scheduler.placement import Problem, Rule, allocate
from fluidnpu.scheduler.placement.ensembles.greedy import bounded_greedy, changed_rates, neighbours, soft_greedy
from fluidnpu.scheduler.placement.ensembles.worst_fit import worst_fit
from fluidnpu.scheduler.placement.testing import toy_fleet

needs_scipy = pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="needs scipy")


def drawn(seed: int, devices: int = 4, networks: int = 5, batches: tuple[int, ...] = (1, 4), types: int = 2) -> Problem:
    """Networks of different size on devices of two types and a slow CPU with room for all."""
    rng = np.random.default_rng(seed)
    work, weights = rng.uniform(1, 20, networks), rng.integers(10, 300, networks)
    speed = rng.uniform(50, 400, types)
    kind = np.sort(rng.integers(0, types, devices))
    seconds = np.zeros((devices, networks, len(batches)))
    need = np.zeros(seconds.shape, np.int64)
    for d, m, k in np.ndindex(*seconds.shape):
        rate = speed[kind[d]] if d < devices - 1 else 10
        seconds[d, m, k] = (0.3 + batches[k] * rng.uniform(0.9, 1.0)) * work[m] / rate
        need[d, m, k] = weights[m] + 5 * batches[k]
    room = np.r_[np.full(devices - 1, 500), 5000]
    return Problem(
        devices=tuple(f"d{d}" for d in range(devices)),
        networks=tuple(f"n{m}" for m in range(networks)),
        kinds=("npu",) * (devices - 1) + ("cpu",),
        batches=batches,
        demand=tuple(rng.uniform(0.5, 2, networks)),
        seconds=seconds,
        need=need,
        room=room,
    )


def best_of_all(problem: Problem) -> float:
    """The best shares of every matrix there is."""
    sizes = (0, *problem.batches)
    shape = (len(problem.devices), len(problem.networks))
    best = 0.0
    for values in product(sizes, repeat=shape[0] * shape[1]):
        matrix = np.array(values, np.int64).reshape(shape)
        if problem.fits(matrix):
            best = max(best, problem.shared(matrix).rate)
    return best


def lies_between(seed: int) -> None:
    problem = drawn(seed, devices=3, networks=2, batches=(1, 4) if seed % 2 else (2,))
    found, best = allocate(problem, gap=1e-4), best_of_all(problem)
    assert problem.fits(found.matrix)
    assert found.rate <= best * (1 + 1e-6) <= found.bound * (1 + 1e-5), seed
    assert found.rate >= best * 0.97, seed


@needs_scipy
def test_an_allocation_lies_between_worst_fit_and_its_bound_as_every_matrix_shows() -> None:
    lies_between(0)


@needs_scipy
@pytest.mark.long
def test_an_allocation_lies_between_worst_fit_and_its_bound_sixty_times() -> None:
    for seed in range(2, 62):
        lies_between(seed)


@needs_scipy
@pytest.mark.parametrize("seed", range(3))
def test_no_search_is_below_its_start_and_shares_not_below_turns(seed: int) -> None:
    problem = drawn(seed, devices=5, networks=6, batches=(1, 2, 4, 8))
    start = worst_fit(problem)
    assert problem.fits(start)
    assert sorted(set(start[start > 0])) == [1]
    published = bounded_greedy(problem, start, np.random.default_rng(seed), max_neighs=20)
    soft = soft_greedy(problem, start)
    again = bounded_greedy(problem, start, np.random.default_rng(seed), max_neighs=20)
    assert np.array_equal(published.matrix, again.matrix), "the same seed, the same matrix"
    for one in (published, soft):
        assert problem.fits(one.matrix)
        assert one.rate == pytest.approx(problem.turns(one.matrix))
        assert one.rate >= problem.turns(start)
        assert problem.shared(one.matrix).rate >= one.rate * (1 - 1e-9)
    best = allocate(problem, nodes=20)
    assert best.rate >= problem.shared(soft.matrix).rate * (1 - 1e-9)
    assert best.rate >= problem.turns(start)
    assert (best.shares.weights.sum(axis=1) <= 1 + 1e-9).all()


def test_neighbours_differ_in_one_element_and_their_rates_are_those_of_their_matrices() -> None:
    problem = drawn(7)
    start = worst_fit(problem)
    changes = neighbours(problem, start)
    rates = changed_rates(problem, start, changes)
    valid = 0
    for d, m, batch in product(range(4), range(5), (0, *problem.batches)):
        other = start.copy()
        other[d, m] = batch
        valid += not np.array_equal(other, start) and problem.fits(other)
    assert len(changes) == valid
    for (d, m, batch), rate in zip(changes, rates, strict=True):
        other = start.copy()
        other[d, m] = batch
        assert rate == pytest.approx(problem.turn_rates(other))


def test_a_network_that_fits_nowhere_is_named_with_need_and_room() -> None:
    problem = drawn(1)
    heavy = Problem(**{**vars_of(problem), "need": problem.need + 6000})
    with pytest.raises(PlacementError, match=r"network 'n\d' must fit a device, and it needs \d+ bytes"):
        worst_fit(heavy)
    with pytest.raises(PlacementError, match=r"must be on a device, and n0, .* is on none"):
        problem.check(np.zeros((4, 5), np.int64))
    crowded = np.full((4, 5), 4)
    with pytest.raises(PlacementError, match=r"networks on 'd0' must fit 500 bytes, and they need \d+"):
        problem.check(crowded)
    with pytest.raises(FleetError, match="must have a demand above zero"):
        Problem(**{**vars_of(problem), "demand": (0.0,) * 5})


def vars_of(problem: Problem) -> dict[str, Any]:
    names = ("devices", "networks", "kinds", "batches", "demand", "seconds", "need", "room")
    return {name: getattr(problem, name) for name in names}


def test_a_fleet_is_a_problem() -> None:
    fleet = toy_fleet(3)
    problem = Problem.of(fleet)
    assert problem.seconds.shape == (3, 1, 4)
    kind = fleet.types["board"].profiles["toy"]
    alone = sum(block.ns[0] + block.head_ns[0] for block in kind.blocks[:2])
    rest = sum(block.ns[0] + block.head_ns[0] for block in kind.blocks[2:])
    assert problem.seconds[0, 0, 0] == pytest.approx((alone + 0.6 * rest) / 1e9)
    assert problem.digest == Problem.of(toy_fleet(3)).digest != Problem.of(toy_fleet(2)).digest


logits = st.lists(st.integers(-(2**15), 2**15 - 1), min_size=3, max_size=3)


@settings(max_examples=60)
@given(
    rows=st.lists(logits, min_size=1, max_size=4),
    bits=st.lists(st.integers(0, 14), min_size=4, max_size=4),
    weights=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    name=st.sampled_from(["average", "weighted", "majority"]),
)
def test_a_combination_is_the_same_bits_in_any_order(
    rows: list[list[int]], bits: list[int], weights: list[int], name: str
) -> None:
    names = tuple("abcd"[: len(rows)])
    given_weights = tuple(weights[: len(rows)]) if name == "weighted" and any(weights[: len(rows)]) else ()
    if name == "weighted" and not given_weights:
        name = "average"
    rule = Rule(networks=names, name=name, weights=given_weights, fractions=tuple(bits[: len(rows)]))
    seen = set()
    for order in permutations(range(len(rows))):
        tally = rule.tally(samples=2, classes=3)
        for k in order:
            both = np.array([rows[k], rows[k][::-1]], np.int16)
            assert [tally.add(names[k], 1, both[1:]), tally.add(names[k], 0, both)] == [1, 1]
            assert tally.add(names[k], 0, both[::-1]) == 0, "a part that is sent again counts once"
        assert tally.whole
        assert not tally.missing
        seen.add((tally.total.tobytes(), tally.scores.tobytes(), tuple(tally.labels.tolist())))
    assert len(seen) == 1
    parts = list(zip(rule.weights, rows, rule.fractions, strict=True))
    exact = [sum(w * v[c] / 2**b for w, v, b in parts) for c in range(3)]
    votes = [sum(max(range(3), key=lambda c: (v[c], -c)) == c for v in rows) for c in range(3)]
    best = max(range(3), key=(lambda c: (votes[c], exact[c], -c)) if name == "majority" else lambda c: (exact[c], -c))
    assert tally.labels[0] == best
    if name != "majority":
        assert tally.scores[0] == pytest.approx([value / sum(rule.weights) for value in exact])


def test_a_tally_says_whose_parts_are_missing() -> None:
    tally = Rule(networks=("a", "b", "c"), name="majority").tally(samples=2, classes=3)
    assert tally.parts.tolist() == [0, 0]
    tally.add("c", 0, np.array([[0, 5, 5]]))
    assert (tally.labels.tolist()[0], tally.parts.tolist(), tally.missing) == (1, [1, 0], ("a", "b", "c"))
    tally.add("a", 0, np.array([[0, 0, 1]]))
    assert tally.labels[0] == 2, "one vote each: the larger sum decides"
    tally.add("c", 0, np.array([[9, 0, 0], [4, 0, 0]]))
    assert (tally.labels.tolist(), tally.parts.tolist(), tally.missing) == ([2, 0], [2, 1], ("a", "b"))
    assert tally.scores.tolist() == [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"networks": ()}, "names of their own"),
        ({"networks": ("a", "a")}, "names of their own"),
        ({"networks": ("a",), "name": "best"}, "a rule must be one of average, weighted, majority"),
        ({"networks": ("a", "b"), "name": "weighted", "weights": (1,)}, "weights must be 2 whole numbers"),
        ({"networks": ("a", "b"), "name": "weighted", "weights": (0, 0)}, "must not all be 0"),
        ({"networks": ("a", "b"), "weights": (1, 2)}, "only 'weighted' and rules of one's own take weights"),
        ({"networks": ("a", "b"), "fractions": (0, 17)}, "must lie within 16 bits"),
        ({"networks": ("a", "b"), "name": "weighted", "weights": (1, 1 << 14)}, "must sum to at most 16384"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(facts: dict[str, object], said: str) -> None:
    with pytest.raises(FleetError, match=said):
        Rule(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("network", "first", "values", "said"),
    [
        ("b", 0, np.array([[0.5, 1.0]]), "logits of 'b' must be integers"),
        ("b", 0, np.array([1, 2]), r"must be integers \(count, 2\), not int64 \(2,\)"),
        ("b", 0, np.array([[1, 2, 3]]), "logits of 'b' must be"),
        ("b", 1, np.array([[1, 2], [3, 4]]), r"must lie in samples 0..1, not 1..2"),
        ("c", 0, np.array([[1, 2]]), "one of a, b, not 'c'"),
    ],
)
def test_parts_that_are_no_logits_are_refused(network: str, first: int, values: NDArray[np.int64], said: str) -> None:
    tally = Rule(networks=("a", "b")).tally(samples=2, classes=2)
    with pytest.raises(FleetError, match=said):
        tally.add(network, first, values)
    assert not tally.seen.any()
