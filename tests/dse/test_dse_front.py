"""The Pareto front of buildable designs: no design on it is dominated, and each can be built."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import FitError, Point, Question, answer, explore, fit
from fluidnpu.dse.exact.search import lower_bounds
from fluidnpu.dse.exploration.front import DEPTHS, ParetoFront, front
from fluidnpu.dse.hardware.space import DesignSpace
from fluidnpu.dse.resources import ram_bits
from fluidnpu.models import LayerShape, Window, Workload

BOARD = replace(load_board("zc706"), dsp=24)
WINDOWS = tuple(Window(kernel=(kernel, kernel), out=(9, 9), channels=10) for kernel in (1, 3))
WORK = Workload(
    name="small",
    layers=(
        LayerShape(name="one", r=81, p=10, c=12, window=WINDOWS[0]),
        LayerShape(name="three", r=81, p=90, c=20, window=WINDOWS[1]),
    ),
)

ASKED = Question(workload=WORK, board=BOARD, b_max=2, model="paper", core="rtl")


def _five(found: ParetoFront) -> list[tuple[float, ...]]:
    rows = found.rows()
    memory = -(-100 * np.array([row["memory_bits"] for row in rows]) // ram_bits(BOARD.ramb18, BOARD.uram288))
    lut = np.ceil(100 * np.array([row["lut"] for row in rows]) / BOARD.lut)
    return [
        (-row["objective_gops"], row["latency_1_ms"], row["dsp"], float(m), float(u))
        for row, m, u in zip(rows, memory, lut, strict=True)
    ]


@pytest.mark.parametrize("model", ["paper", "exact"])
def test_nobody_on_the_front_beats_another(model: str) -> None:
    found = front(replace(ASKED, model=model))
    five = _five(found)
    assert 2 < len(five) == len(found) < found.candidates
    for index, mine in enumerate(five):
        for other in five[:index] + five[index + 1 :]:
            assert any(a > b for a, b in zip(other, mine, strict=True)) or other == mine
    assert [row[0] for row in five] == sorted(row[0] for row in five)


def test_each_design_of_the_front_can_be_built_as_it_stands() -> None:
    for row in front(ASKED).rows():
        point = Point(t_r=row["t_r"], t_p=row["t_p"], t_c=row["t_c"])
        one = fit(point, ASKED.target)
        assert (one.t_r, one.dsp, one.lut.value) == (point.t_r, row["dsp"], row["lut"])


def test_shallower_accumulators_are_candidates_too() -> None:
    rows = front(ASKED).rows()
    assert {row["t_r"] for row in rows} & set(DEPTHS)


def test_the_figures_of_the_exact_model_are_its_bounds() -> None:
    question = replace(ASKED, weights=(0.0, 1.0), model="exact")
    row = front(question).rows(1)[0]
    space = DesignSpace(t_r=np.array([row["t_r"]]), t_p=np.array([row["t_p"]]), t_c=np.array([row["t_c"]]))
    one, two = lower_bounds(question, space, [1, 2])[:, 0]
    assert row["latency_1_ms"] == pytest.approx(1e3 * one / BOARD.clock_hz)
    assert row["objective_gops"] == pytest.approx(2e-9 * 2 * WORK.macs * BOARD.clock_hz / two)
    found = answer(question)
    assert found.objective_gops <= row["objective_gops"]


def test_a_front_is_thinned_with_both_ends_kept() -> None:
    found = front(ASKED)
    every, few = found.rows(), found.rows(limit=3)
    assert len(few) == 3
    assert (few[0], few[-1]) == (every[0], every[-1])
    assert found.rows(limit=10**6) == every


def test_a_board_on_which_nothing_fits_has_no_front() -> None:
    small = replace(BOARD, lut=10)
    assert len(front(Question(workload=WORK, board=small, b_max=1, model="paper", core="rtl"))) == 0
    with pytest.raises(FitError, match="LUTs"):
        explore(WORK, small, b_max=1, model="exact", core="rtl")
