"""A question is validated once; `explore` only puts its arguments into one."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from fluidnpu.boards import BoardFileError, load_board
from fluidnpu.dse import DesignError, Question, Target, answer, explore
from fluidnpu.dse.testing import tiny_design
from fluidnpu.models import Kind, LayerShape, Window, Workload

BOARD = load_board("zc706")
WORK = Workload(name="small", layers=(LayerShape(name="conv", r=784, p=9, c=16),))
POOLS = Workload(
    name="pools",
    layers=(
        LayerShape(name="p", r=4, p=4, c=4, kind=Kind.SUM_POOL, window=Window(kernel=(2, 2), out=(2, 2), channels=4)),
    ),
)
TINY = Workload(
    name="tiny",
    layers=(LayerShape(name="c", r=4, p=4, c=4, window=Window(kernel=(1, 1), out=(2, 2), channels=4)),),
)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model": "magic"}, "model must be 'exact' or 'paper', not 'magic'"),
        ({"core": "verilog"}, "core must be 'hls' or 'rtl', not 'verilog'"),
        ({"objective": "size"}, "objective must be 'throughput' or 'latency', not 'size'"),
        ({"objective": "latency", "weights": (1.0,) * 8}, "weights of batch sizes must not be given"),
        ({"b_max": 0}, r"b_max must be a whole number in 1\.\.16, not 0"),
        ({"weights": (1.0,)}, "one weight for each of 8 batch sizes, not 1"),
        ({"weights": (0.0,) * 8}, "not all zero"),
        ({"model": "exact"}, "the window of every layer, and 'conv' has none: give the network as ONNX"),
        ({"model": "exact", "evaluations": 0, "workload": TINY}, "evaluations must be at least 1, not 0"),
        ({"model": "exact", "workload": POOLS}, "at least one GEMM layer"),
    ],
)
def test_questions_that_cannot_be_asked(wrong: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"workload": WORK, "board": BOARD, "model": "paper"} | wrong
    with pytest.raises(DesignError, match=says):
        Question(**given)
    with pytest.raises(DesignError, match=says):
        explore(**given)


def test_a_memory_that_the_board_lacks_is_refused() -> None:
    with pytest.raises(BoardFileError, match="memory of board 'zc706' must be one of ps_striped, ps, pl, not 'hbm'"):
        Question(workload=WORK, board=BOARD, memory="hbm", model="paper", core="rtl")


def test_explore_takes_what_a_question_holds() -> None:
    """All but the width of sums, which only `build_design` lets one choose, and a mix (`Question.of_mix`)."""
    taken = set(inspect.signature(explore).parameters) - {"progress"}
    assert taken == {field.name for field in fields(Question) if field.init} - {"acc_bits", "mix"}
    found = explore(WORK, BOARD, b_max=2, memory="pl", core="hls", model="paper")
    again = answer(Question(workload=WORK, board=BOARD, b_max=2, memory="pl", core="hls", model="paper"))
    assert found.design == again.design
    assert found.to_json() == again.to_json()


def test_the_batch_sizes_that_weigh_something() -> None:
    assert Question(workload=WORK, board=BOARD, b_max=3, model="paper", core="rtl").batches == (1, 2, 3)
    assert Question(
        workload=WORK, board=BOARD, b_max=3, weights=(0.0, 2.0, 1.0), model="paper", core="rtl"
    ).batches == (2, 3)
    latency = Question(workload=WORK, board=BOARD, b_max=3, objective="latency", model="paper", core="rtl")
    assert (latency.batches, latency.batch_weights) == ((1,), (1.0, 0.0, 0.0))


def test_the_target_of_a_question_is_that_of_its_design() -> None:
    question = Question(workload=WORK, board=BOARD, b_max=2, memory="pl", core="hls", model="paper")
    found = answer(question)
    assert Target.of(found.design, BOARD, "hls") == question.target
    assert question.target.ports.port_bits == 512
    assert Target.of(tiny_design(), BOARD).layers == 2
