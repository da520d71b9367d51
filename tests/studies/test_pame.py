"""The study of PAME: its page stands alone, and a verdict follows the numbers, not the author."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import numpy as np
import pytest

from fluidnpu.studies import Size, Verdict, run_study
from fluidnpu.studies.pame.networks import block_numbers, resnet101, table_of
from fluidnpu.studies.pame.recorded import CHECKS, recording
from fluidnpu.studies.pame.report import render_study
from fluidnpu.studies.pame.simulations import served
from fluidnpu.studies.pame.study import STUDY
from fluidnpu.studies.pame.tables import tables_markdown
from fluidnpu.studies.pame.verdicts import mean_of, missed, verdicts
from fluidnpu.studies.statements import AGREES, DIFFERS, PARTLY

TINY = Size(seeds=2, requests=400)
Body = dict[str, Any]


@pytest.fixture(scope="module")
def done() -> Body:
    return run_study(STUDY, TINY, 1, lambda at, of: None)


def said(body: Body, where: str, statement: str = "") -> Verdict:
    (one,) = [v for v in verdicts(body) if v.where == where and v.statement.startswith(statement)]
    return one


def test_the_recordings_are_what_their_maker_says() -> None:
    for name, exits, images in (("fashion", 7, 20_000), ("digits", 12, 897)):
        found = recording(name)
        assert found.classes.shape == (images, exits)
        assert found.labels.shape == found.reference.shape == (images,)
        for check in CHECKS:
            assert found.shares[check].shape == (images, exits)
            assert 0 <= found.shares[check].min() <= found.shares[check].max() <= 1
        assert (found.shares["margin"] <= found.shares["confidence"] + 1e-4).all()
        assert found.shares["confidence"].min() >= 0.1  # the top of ten probabilities


def test_resnet101_is_the_papers_network() -> None:
    network = resnet101()
    assert network.workload.macs == 7_801_405_440  # 7.8 G, as torchvision's resnet101
    assert block_numbers("resnet101") == tuple(range(1, 32, 3))
    table = table_of("resnet101")
    assert (table.exits, table.b_max) == (11, 16)


def test_matrices_are_exact_and_coarse_ones_too_low(done: Body) -> None:
    for errors in done["parts"]["matrices"].values():
        assert errors["1"] == [0.0] * len(errors["1"])
        assert all(-20 < one <= 0 for one in errors["2"] + errors["4"])


def test_the_verdicts_follow_the_numbers(done: Body) -> None:
    body = copy.deepcopy(done)
    times = body["parts"]["resnet101"]["times"]
    assert said(body, "Fig. 9").verdict == AGREES
    times["p99_change_pct"] = 1.0
    assert said(body, "Fig. 9").verdict == PARTLY
    times["average_change_pct"] = 2.0
    assert said(body, "Fig. 9").verdict == DIFFERS
    assert said(body, "section 3.2").verdict == DIFFERS
    times["stage_overhead_pct"] = times["head_macs_pct"] + 6
    assert said(body, "section 3.2").verdict == AGREES
    assert said(body, "Fig. 13").verdict == AGREES
    times["allowed"][-1] = times["allowed"][-2]
    assert said(body, "Fig. 13").verdict == PARTLY
    drift = body["parts"]["drift"]["fashion"]
    drift["hard"]["kept_pct"], drift["hard, raised"]["kept_pct"] = 98.0, 99.1
    assert said(body, "Fig. 16, case 2").verdict == AGREES
    drift["hard"]["kept_pct"] = 99.5
    assert said(body, "Fig. 16, case 2").verdict == DIFFERS
    drift["easy"]["late_batches"] = 0.05
    assert said(body, "Fig. 16, case 1").verdict == AGREES


def test_the_promise_is_judged_on_every_split(done: Body) -> None:
    body = copy.deepcopy(done)
    good = {"kept_pct": 99.4, "average_change_pct": -66.0, "tail_change_pct": -40.0, "late_batches": 0.0}
    bad = good | {"kept_pct": 98.9}
    rows = [{"naive": bad, "guaranteed": good, "chain": []} for _ in range(40)]
    body["parts"]["splits"] = {"0": {"rows": rows[:20]}, "1": {"rows": rows[20:]}}
    assert said(body, "our promise, Fashion-MNIST").verdict == AGREES
    assert said(body, "Fig. 11, Fashion-MNIST").verdict == DIFFERS
    for row in rows[:3]:
        row["guaranteed"] = bad
    assert missed(rows, "guaranteed") == pytest.approx(0.075)
    assert said(body, "our promise, Fashion-MNIST").verdict == PARTLY
    for row in rows[3:20]:
        row["guaranteed"] = None
    assert mean_of(rows, "guaranteed", "average_change_pct") == pytest.approx(-66.0 * 23 / 40)


def test_what_is_served_is_served_in_order() -> None:
    """One batch at a time: the time of a sample is never below that of its own parts."""
    table = table_of("digits")
    from fluidnpu.studies.pame.recorded import shuffled

    answers = shuffled("digits").answers()[:160]
    times = served(table, answers, ((0, 0.9),))
    left = answers.left_at(((0, 0.9),))
    assert times[left == 0].max() == table.step(0, 0)[16]
    assert (times[left > 0] > table.step(0, 0)[16]).all()
    assert np.mean(left == 0) > 0.5


def test_the_page_stands_alone(done: Body) -> None:
    figures = STUDY.figures(done)
    text = render_study(done, "the command", figures)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?http|<script|@import""", text)
    assert text.count("<svg") == len(figures) == 4
    for words in ("the command", "Statement by statement", "our promise", "agreement", "hard, raised"):
        assert words in text
    brief = STUDY.summary(done, "the command")
    assert sum(brief["tally"].values()) == len(brief["verdicts"]) == 26
    json.dumps(brief, allow_nan=False)
    for block in tables_markdown(done, "the command").split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("|"):
            assert len({line.count(" | ") for line in lines if "---" not in line}) == 1
