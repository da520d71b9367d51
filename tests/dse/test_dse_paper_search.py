"""The search is exhaustive, deterministic and says which rule broke a tie."""

from dataclasses import replace

import numpy as np
import pytest
from dse_strategies import small_boards, workloads
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import DesignError, Point, search
from fluidnpu.dse.hardware.space import legal_space
from fluidnpu.dse.paper import total_ticks
from fluidnpu.dse.paper.model import gops
from fluidnpu.dse.paper.search import pareto_front
from fluidnpu.models import Kind, LayerShape, Workload

ONE = Workload(name="one", layers=(LayerShape(name="conv", r=196, p=288, c=64),))


@settings(max_examples=25)
@given(small_boards(), workloads(), st.integers(1, 3))
def test_the_optimum_is_the_one_that_brute_force_finds(board: Board, workload: Workload, b_max: int) -> None:
    ranking = search(workload, board, b_max=b_max)
    words, clock = board.paper_words_per_cycle, board.clock_hz
    best, found = -1.0, []
    for t_p in range(1, board.dsp + 1):
        for t_c in range(1, board.dsp // t_p + 1):
            fits = [
                t_r
                for t_r in _even_depths(board, t_p, t_c)
                if Point(t_r=t_r, t_p=t_p, t_c=t_c).memory_bits <= board.paper_memory_bits
            ]
            if not fits:
                continue
            point = Point(t_r=fits[-1], t_p=t_p, t_c=t_c)
            value = 0.0
            for b in range(1, b_max + 1):
                value += gops(workload.macs, b, total_ticks(workload.layers, point, b, words), clock, words)
            found.append(point)
            best = max(best, value)
    assert len(found) == len(ranking)
    assert set(found) == {ranking.space[i] for i in range(len(ranking))}
    assert float(ranking.objective[ranking.order[0]]) == best


def _even_depths(board: Board, t_p: int, t_c: int) -> range:
    """Depths around the largest that could fit: brute force needs no more than a few."""
    guess = board.paper_memory_bits // (32 * (t_p + t_c)) // 2 * 2
    low = max(2, guess - 2 * (t_p * t_c // (t_p + t_c) + 4) // 2 * 2)
    return range(low, guess + 4, 2)


@given(small_boards())
def test_t_r_is_the_largest_even_number_that_fits(board: Board) -> None:
    space = legal_space(board)
    for index in range(len(space)):
        point = space[index]
        assert point.t_r % 2 == 0
        assert point.memory_bits <= board.paper_memory_bits < replace(point, t_r=point.t_r + 2).memory_bits
        assert point.dsp <= board.dsp
    assert (space.dsp == space.t_p * space.t_c).all()


def test_ties_go_to_fewer_dsps_then_smaller_t_p() -> None:
    """A 1 x 1 x 1 layer takes one cycle everywhere, so only the written rule decides."""
    work = Workload(name="dot", layers=(LayerShape(name="dot", r=1, p=1, c=1),))
    board = replace(load_board("zc706"), dsp=6, paper_words_per_cycle=64, sources={})
    ranking = search(work, board, b_max=1)
    assert not ranking.unique
    tied = [ranking.space[int(i)] for i in ranking.order]
    assert [(p.dsp, p.t_p) for p in tied] == sorted((p.dsp, p.t_p) for p in tied)
    assert ranking.best.dsp == 1


def test_the_same_answer_twice_and_progress_to_the_end() -> None:
    board, seen = load_board("zc706"), list[tuple[int, int]]()
    first = search(ONE, board, progress=lambda done, total: seen.append((done, total)))
    assert (first.order == search(ONE, board).order).all()
    assert seen[-1] == (6276, 6276)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(a >= b for (_, a), (_, b) in zip(first.top(100), first.top(100)[1:], strict=False))


def test_weights_move_the_optimum() -> None:
    """Width pays for a single image where columns are few, depth for many: w_b must reach the objective."""
    board = load_board("zc706")
    only_8 = search(ONE, board, weights=(0,) * 7 + (1,))
    assert np.array_equal(only_8.objective, only_8.gops[7])
    assert np.allclose(search(ONE, board).objective, only_8.gops.sum(axis=0))


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ((1.0,), "one weight for each of 8"),
        ((1.0,) * 7 + (-1.0,), "at least zero"),
        ((0.0,) * 8, "not all zero"),
        ((float("nan"),) * 8, "finite"),
    ],
)
def test_bad_weights(weights: tuple[float, ...], says: str) -> None:
    with pytest.raises(DesignError, match=says):
        search(ONE, load_board("zc706"), weights=weights)


@pytest.mark.parametrize("b_max", [0, -1, 17, 1000, 2.0, True])
def test_bad_b_max(b_max: int) -> None:
    with pytest.raises(DesignError, match=r"b_max must be a whole number in 1\.\.16"):
        search(ONE, load_board("zc706"), b_max=b_max)


def test_what_cannot_be_searched_is_refused() -> None:
    board = load_board("zc706")
    pools = Workload(name="pools", layers=(LayerShape(name="p", r=4, p=4, c=4, kind=Kind.SUM_POOL),))
    with pytest.raises(DesignError, match="at least one GEMM"):
        search(pools, board)
    for size in (10**6, 10**1000):
        huge = Workload(name="huge", layers=(LayerShape(name="x", r=size, p=size, c=size),))
        with pytest.raises(DesignError, match="too large for the paper model"):
            search(huge, board)
    with pytest.raises(DesignError, match="too small"):
        search(ONE, replace(board, paper_memory_bits=100, sources={}))


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40))
def test_the_front_is_what_nobody_dominates(rows: list[tuple[int, int, int]]) -> None:
    costs = np.array(rows, dtype=float)
    expected = {
        i
        for i, mine in enumerate(rows)
        if not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in rows)
    }
    front = pareto_front(costs)
    assert set(front.tolist()) == expected
    assert (np.diff(costs[front, 0]) >= 0).all()
