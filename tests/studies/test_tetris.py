"""The study of TETRIS: its data are the counted cycles, its baselines stand in order, its files are whole."""

import pytest
from small_studies import check_study

from fluidnpu.dse import has_numba
from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import Size, find_study, run_study
from fluidnpu.studies.running.cycles import resnet50_on
from fluidnpu.studies.tetris import simulations
from fluidnpu.studies.tetris.profiles import (
    PRICES,
    board_profile,
    gpu_fleet,
    mix_rates,
)


@pytest.mark.parametrize("board", ["zcu104", "zc706"])
def test_cycles_of_the_boards_are_those_that_were_counted(board: str) -> None:
    counted = resnet50_on(board)
    whole = sum(block.ns[0] for block in board_profile(board).blocks) + board_profile(board).blocks[-1].head_ns[0]
    assert whole == pytest.approx(counted.milliseconds(1) * 1e6, rel=1e-6)
    eight = sum(block.ns[7] for block in board_profile(board).blocks) + board_profile(board).blocks[-1].head_ns[7]
    assert eight == pytest.approx(counted.milliseconds(8) * 1e6, rel=1e-6)


def test_prices_follow_from_the_papers_two_equalities() -> None:
    assert 16 * PRICES["V100"] == pytest.approx(26 * PRICES["P100"], rel=0.01)
    assert 6 * PRICES["V100"] + 8 * PRICES["P100"] + 15 * PRICES["K80"] == pytest.approx(16 * PRICES["V100"], rel=0.01)
    assert 16 * PRICES["V100"] / 3600 == pytest.approx(0.013, rel=0.01)


def test_mixes_are_shares_and_a_lower_entropy_keeps_samples_longer() -> None:
    for easy in (0.2, 0.5, 0.8):
        assert sum(mix_rates(easy)) == pytest.approx(1)
    depth = [sum(k * rate for k, rate in enumerate(mix_rates(0.5, entropy))) for entropy in (0.3, 0.4, 0.5)]
    assert depth[0] > depth[1] > depth[2]


def test_baselines_stand_in_order_and_splits_are_never_below_whole_networks() -> None:
    for batch in (1, 8):
        found = simulations.batch_point({"V100": 4}, 0.5, batch)
        assert found["exits, all must leave"] <= found["exits, shrinking"] * (1 + 1e-4)
        assert found["exits, shrinking"] <= found["TETRIS, black box"] * (1 + 1e-4)
        assert found["TETRIS, black box"] <= found["TETRIS"] <= found["ours, one pipeline"] * (1 + 1e-4)
    alone = simulations.all_leave(simulations.space_of(gpu_fleet({"V100": 1}, mix_rates(0.5)), [1]), 1)
    assert alone == pytest.approx(
        simulations.whole(simulations.space_of(gpu_fleet({"V100": 1}, mix_rates(0.5)), [1]), "on")
    )


def test_the_cost_of_a_rate_is_that_of_the_devices_that_carry_it() -> None:
    found = simulations.cost_point(8)
    assert found["TETRIS"]["gpus"] <= found["stock"]["gpus"]
    assert found["TETRIS"]["cost"] == pytest.approx(found["TETRIS"]["gpus"] * PRICES["V100"], rel=1e-3)


@pytest.mark.long
@pytest.mark.skipif(not has_numba(), reason="the twin needs Numba")
def test_the_whole_study_is_written() -> None:
    study = find_study("tetris")
    body = run_study(study, Size(seeds=1, requests=4000), HERE, lambda done, total: None)
    judged = {(v.where, v.statement[:40]): v.verdict for v in study.verdicts(body)}
    assert judged["Fig. 7", "Splitting beats the network without exit"] == "agrees"
    assert judged["on our boards", "Splitting ResNet-50 over boards pays"] in ("differs", "partly")
    check_study(study, body)
