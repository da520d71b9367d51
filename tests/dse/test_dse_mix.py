"""One array for several networks: the objective is an average request's, and the search stays exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import DesignError, Question, answer, has_numba
from fluidnpu.models import Workload
from fluidnpu.models.zoo import random_network

BOARD = replace(load_board("zc706"), dsp=24)  # few arrays, so that every one can be evaluated
EVERY = 10**6


def work_of(seed: int) -> Workload:
    return replace(random_network(seed, exits=2).workload, name=f"n{seed}")


def mix(*shares: float, **more: object) -> Question:
    works = [work_of(seed) for seed in (4, 16)]
    return Question.of_mix(
        list(zip(works, shares, strict=True)), BOARD, **{"b_max": 2, "model": "paper", "core": "rtl", **more}
    )


def alone(seed: int, **more: object) -> Question:
    return Question(workload=work_of(seed), board=BOARD, **{"b_max": 2, "model": "paper", "core": "rtl", **more})  # type: ignore[arg-type]


def test_a_mix_weighs_work_and_time_by_requests() -> None:
    question = mix(3, 1)
    small, large = (work_of(seed) for seed in (4, 16))
    assert [share for _, share in question.mix] == [0.75, 0.25]
    assert question.macs == pytest.approx(0.75 * small.macs + 0.25 * large.macs)
    assert question.weighed(len) == 0.75 * len(small.layers) + 0.25 * len(large.layers)
    assert len(question.layer_shares) == len(question.workload.layers)
    assert question.workload.exits == small.exits + large.exits


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_the_paper_models_best_array_is_the_best_of_all_for_the_mix(objective: str) -> None:
    question = mix(0.7, 0.3, objective=objective)
    found = answer(question)
    gops = [answer(alone(seed, objective=objective)).ranking for seed in (4, 16)]
    works = [work_of(seed).macs for seed in (4, 16)]
    for row in range(2):  # time of a request on each array is the mean of the networks' times
        times = [2 * macs / ranking.gops[row] for macs, ranking in zip(works, gops, strict=True)]
        mean = 0.7 * times[0] + 0.3 * times[1]
        np.testing.assert_allclose(2 * question.macs / found.ranking.gops[row], mean)
    assert found.ranking.objective.argmax() == found.ranking.order[0]


def test_a_share_of_almost_one_finds_the_array_of_that_network() -> None:
    for seed, shares in ((4, (1 - 1e-9, 1e-9)), (16, (1e-9, 1 - 1e-9))):
        assert answer(mix(*shares)).published == answer(alone(seed)).published


def test_the_design_is_for_all_networks() -> None:
    found = answer(mix(0.7, 0.3))
    assert [(part.network, part.share) for part in found.design.parts] == [("n4", 0.7), ("n16", 0.3)]
    for index, (seed, part) in enumerate(zip((4, 16), found.parts, strict=True)):
        assert part.design == found.design.part(index) == found.design.part_for(work_of(seed))
        assert part.fitted_gops[0] == pytest.approx(2e-9 * work_of(seed).macs * part.frames_per_second[0])
    rates = [part.frames_per_second[1] for part in found.parts]
    assert found.frames_per_second[1] == pytest.approx(1 / (0.7 / rates[0] + 0.3 / rates[1]))
    assert [row["network"] for row in found.to_json(front=False)["mix"]] == ["n4", "n16"]
    assert len(found.front) > 0


@pytest.mark.skipif(not has_numba(), reason="the exact model takes minutes without Numba")
@pytest.mark.parametrize(("objective", "dsp"), [("throughput", 24), ("latency", 16)])
def test_the_exact_search_of_a_mix_beats_every_other_array(objective: str, dsp: int) -> None:
    """Branch and bound against evaluating every array, by the mean time of a request."""
    works = [work_of(seed) for seed in (4, 16)]
    asked = {"b_max": 1, "model": "exact", "objective": objective, "core": "rtl", "evaluations": EVERY}
    board = replace(BOARD, dsp=dsp, dsp_columns=())
    question = Question.of_mix(list(zip(works, (0.6, 0.4), strict=True)), board, **asked)
    found = answer(question)
    assert found.gap_pct == 0
    assert found.evaluated < found.arrays  # else nothing was bounded
    assert found.layer_cycles is not None
    cycles = [sum(row[0] for row in part.layer_cycles or ()) for part in found.parts]
    latency = [sum(row[0] for row in part.design.latency.ns) for part in found.parts]
    assert all(ns > count for ns, count in zip(latency, cycles, strict=True))  # at less than 1 GHz
    from fluidnpu.dse.exact.search import _buildable_space, evaluate_array  # every array, one by one
    from fluidnpu.dse.exact.sharing import share_memory

    space = _buildable_space(question)
    best = min(
        question.weighed(lambda layers, e=evaluated: e.total(layers, 1))  # type: ignore[misc]
        for index in range(len(space))
        for evaluated in (evaluate_array(question, share_memory(question, space[index]).fit, [1]),)
    )
    assert 1e9 * best / question.board.clock_hz == pytest.approx(
        1e9 * question.macs / (found.fitted_gops[0] / 2 * 1e9), rel=1e-9
    )


def test_mixes_that_are_none_are_refused() -> None:
    with pytest.raises(DesignError, match="two networks or more with names of their own"):
        Question.of_mix([(work_of(4), 1)], BOARD)
    with pytest.raises(DesignError, match="two networks or more with names of their own"):
        Question.of_mix([(work_of(4), 1), (work_of(4), 1)], BOARD)
    with pytest.raises(DesignError, match="must be above zero"):
        mix(1, 0)
    with pytest.raises(DesignError, match="must be its networks side by side"):
        Question(
            workload=work_of(4), board=BOARD, mix=((work_of(4), 0.5), (work_of(16), 0.5)), model="paper", core="rtl"
        )
