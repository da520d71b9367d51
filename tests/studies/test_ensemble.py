"""The study of ensembles: the published order holds, allocations are near their bound, files are whole."""

import numpy as np
import pytest

from fluidnpu.scheduler.comparison import HERE
from fluidnpu.scheduler.placement.ensembles.worst_fit import worst_fit
from fluidnpu.studies import Size, find_study, run_study, study_files
from fluidnpu.studies.ensemble.verdicts import verdicts
from fluidnpu.studies.ensemble.worlds import board_problem, gpu_problem

pytest.importorskip("scipy")


def test_the_whole_study_is_written_and_repeats() -> None:
    study = find_study("ensemble")
    body = run_study(study, Size(seeds=1, requests=200), HERE, lambda done, total: None)
    table, best = body["parts"]["table1"], body["parts"]["optimum"]
    for one in table.values():
        if one is not None:
            assert one["worst-fit"] <= one["bounded greedy"]
            assert one["worst-fit"] <= one["soft greedy"]
    for key in ("IMN12, 12 boards", "IMN12, 16 boards"):
        assert best[key]["gap"] <= 3
        assert best[key]["endless turns"] <= best[key]["rate"] <= best[key]["bound"] * (1 + 1e-6)
    assert {v.verdict for v in verdicts(body)} <= {"agrees", "partly", "differs"}
    files = dict(study_files(study, body, "fluidnpu simulate --study ensemble"))
    assert {"report.html", "statements.md", "tables.md", "figures/rate.svg"} <= set(files)
    assert "made up" in files["report.html"]


def test_boards_are_slower_than_gpus_and_hold_less() -> None:
    gpu, board = gpu_problem("IMN12", 4), board_problem("IMN12", 4)
    assert (gpu.room[:-1] > board.room[:-1]).all()
    assert np.all(board.seconds[2, :, 0] > board.seconds[0, :, 0])
    assert board.fits(worst_fit(board))
