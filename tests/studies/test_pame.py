"""The study of PAME: its page stands alone, and a verdict follows the numbers, not the author."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from narrow_pages import check_narrow

from fluidnpu.models import from_torch, shipped_images
from fluidnpu.models.exits import with_maps
from fluidnpu.models.graph import MapTask
from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import Size, run_study
from fluidnpu.studies.pame import composites, load, maps, simulations
from fluidnpu.studies.pame.arrivals import traffic_at
from fluidnpu.studies.pame.dense import dense_module, dense_skeleton
from fluidnpu.studies.pame.networks import block_numbers, table_of, without_candidates
from fluidnpu.studies.pame.recorded import CHECKS, MAP_CHECKS, map_recording, recording, shuffle_recording
from fluidnpu.studies.pame.report import render_study
from fluidnpu.studies.pame.simulations import serve_batches
from fluidnpu.studies.pame.study import STUDY
from fluidnpu.studies.pame.tables import tables_markdown
from fluidnpu.studies.pame.verdicts import count_missed, mean_of, verdicts
from fluidnpu.studies.statements import AGREES, DIFFERS, PARTLY, Verdict

TINY = Size(seeds=2, requests=400)
Body = dict[str, Any]


@pytest.fixture(scope="module")
def done() -> Body:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulations, "PROOF_NODES", 100)  # a gap is left, and quickly
        patch.setattr(simulations, "PROOF_SAMPLES", 320)
        patch.setattr(load, "REQUESTS", 3000)
        return run_study(STUDY, TINY, HERE, lambda at, of: None)


def said(body: Body, where: str, statement: str = "") -> Verdict:
    (one,) = [v for v in verdicts(body) if v.where == where and v.statement.startswith(statement)]
    return one


def exact(value: float) -> list[float]:
    """An interval without width."""
    return [value, value, value]


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
    network = without_candidates("resnet101")
    assert network.workload.macs == 7_801_405_440  # 7.8 G, as torchvision's resnet101
    assert block_numbers("resnet101") == tuple(range(1, 32, 3))
    table = table_of("resnet101")
    assert (table.exits, table.b_max) == (11, 16)


@pytest.mark.cpu(10, "a small study runs once for all tests of it")
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


def test_exchanges_are_judged_beside_greed(done: Body) -> None:
    body = copy.deepcopy(done)
    rows = [body["parts"]["selection"][f"fashion, {eta}"] for eta in ("0.98", "0.99", "0.995")]
    for row in rows:
        assert row["exchanged"]["average_change_pct"] <= row["greedy"]["average_change_pct"]
        assert row["proven"]["exchanged_above_pct"] <= row["proven"]["greedy_above_pct"]
    assert said(body, "section 6.1, exchanged, Fashion-MNIST").verdict == AGREES
    rows[2]["proven"]["exchanged_above_pct"] = 1.5
    assert said(body, "section 6.1, exchanged, Fashion-MNIST").verdict == PARTLY


def test_the_promise_is_judged_on_every_split(done: Body) -> None:
    body = copy.deepcopy(done)
    good = {"kept_pct": 99.4, "average_change_pct": -66.0, "tail_change_pct": -40.0, "late_batches": 0.0}
    bad = good | {"kept_pct": 98.9}
    rows: list[Body] = [{"naive": bad, "guaranteed": good, "chain": []} for _ in range(40)]
    body["parts"]["splits"] = {"0": {"rows": rows[:20]}, "1": {"rows": rows[20:]}}
    assert said(body, "our promise, Fashion-MNIST").verdict == AGREES
    assert said(body, "Fig. 11, Fashion-MNIST").verdict == DIFFERS
    for row in rows[:3]:
        row["guaranteed"] = bad
    assert count_missed(rows, "guaranteed") == pytest.approx(0.075)
    assert said(body, "our promise, Fashion-MNIST").verdict == PARTLY
    for row in rows[3:20]:
        row["guaranteed"] = None
    assert mean_of(rows, "guaranteed", "average_change_pct") == pytest.approx(-66.0 * 23 / 40)


def test_arrivals_are_judged_at_every_load(done: Body) -> None:
    body = copy.deepcopy(done)
    part = body["parts"]["arrival"]
    assert set(part) == {f"{name}, {load}" for name in ("fashion", "resnet101") for load in ("0.3", "0.6", "0.9")}
    for share in ("0.3", "0.6", "0.9"):  # of few requests no interval is narrow
        part[f"resnet101, {share}"]["rows"]["H_13"] |= {
            key: exact(-50.0) for key in ("average_change_pct", "p99_change_pct")
        }
    paper = part["resnet101, 0.9"]["rows"]["H_13"]
    assert said(body, "Fig. 9, from arrival").verdict == AGREES
    paper["p99_change_pct"] = [0.5, 0.4, 0.6]
    assert said(body, "Fig. 9, from arrival").verdict == PARTLY
    paper["average_change_pct"] = [0.5, 0.4, 0.6]
    assert said(body, "Fig. 9, from arrival").verdict == DIFFERS
    rows = [part[f"fashion, {load}"]["rows"] for load in ("0.3", "0.6", "0.9")]
    for row in rows:
        row["in service"] |= {"chain": [[1, 0.9]], "in_service_change_pct": -60.0, "average_change_pct": exact(-61.0)}
        row["from arrival"] |= {"chain": [[1, 0.9]], "average_change_pct": exact(-61.5)}
    promise, choice = "our promise, from arrival, Fashion-MNIST", "section 6.4, from arrival, Fashion-MNIST"
    assert (said(body, promise).verdict, said(body, choice).verdict) == (AGREES, AGREES)
    rows[0]["in service"]["average_change_pct"] = exact(-59.0)
    assert (said(body, promise).verdict, said(body, choice).verdict) == (PARTLY, PARTLY)
    for row in rows:
        row["from arrival"]["chain"] = [[2, 0.9]]
    rows[1]["in service"]["average_change_pct"] = exact(1.0)
    assert (said(body, promise).verdict, said(body, choice).verdict) == (DIFFERS, DIFFERS)


def test_under_a_light_load_an_exit_spares_a_request_its_own_work_alone() -> None:
    """One sample at a time: the average is that of batches of one, by the table."""
    table, answers = table_of("digits"), shuffle_recording("digits").answers()[:320]
    chain = ((0, 0.9),)
    served = traffic_at(table, 1e-3, 0, 4000).serve(table, answers, chain, 16)
    left = answers.left_at(chain) == 0
    first, rest = (int(table.step(*part)[1]) for part in ((0, 0), (1, table.exits)))
    wanted = first + (1 - left.mean()) * rest
    assert served.met == 1.0
    assert served.average_ns == pytest.approx(wanted, rel=0.05)


def test_what_is_served_is_served_in_order() -> None:
    """One batch at a time: the time of a sample is never below that of its own parts."""
    table = table_of("digits")
    answers = shuffle_recording("digits").answers()[:160]
    times = serve_batches(table, answers, ((0, 0.9),))
    left = answers.left_at(((0, 0.9),))
    assert times[left == 0].max() == table.step(0, 0)[16]
    assert (times[left > 0] > table.step(0, 0)[16]).all()
    assert np.mean(left == 0) > 0.5


def test_maps_are_judged_beside_random_leavers(done: Body) -> None:
    body = copy.deepcopy(done)
    for name in ("landmarks", "segmentation"):
        one = body["parts"]["maps"][name]
        found = map_recording(name)
        assert one["exits_pct"] == pytest.approx(100 * found.score.mean(axis=0), abs=1e-2)
        assert one["checks"]["random"] == pytest.approx(
            [(share + one["exits_pct"][-1]) / 2 for share in one["exits_pct"][:-1]], abs=1e-2
        )
        where = f"section 5.3, composited {name}"
        dice = one["checks"]["random"]
        for gain, verdict in ((1.0, AGREES), (0.1, DIFFERS), (-1.0, DIFFERS)):
            one["checks"]["count 0.5"] = [share + gain for share in dice]
            assert said(body, where).verdict == verdict
        one["checks"]["count 0.5"][0] += 9
        assert said(body, where).verdict == PARTLY
        held = {"average_change_pct": -9.0, "tail_change_pct": -3.0, "kept_pct": 99.2}
        one["selected"]["0.99"] = {"chain": [], "held_out": held, "random_kept_pct": 99.0}
        assert said(body, f"Fig. 9, composited {name}").verdict == AGREES
        held["kept_pct"] = 98.9
        assert said(body, f"Fig. 9, composited {name}").verdict == PARTLY
        one["selected"]["0.99"] = None
        assert said(body, f"Fig. 9, composited {name}").verdict == DIFFERS
    seen = body["parts"]["maps"]["segmentation"]
    assert said(body, "Fig. 11, composited segmentation").verdict == DIFFERS
    seen["exits_pct"][1] = seen["exits_pct"][-1] + 1
    assert said(body, "Fig. 11, composited segmentation").verdict == AGREES


def test_random_leavers_are_what_chance_gives() -> None:
    """Sureness that knows nothing keeps what the line of random leavers says, within what 2,000 can tell."""
    found = map_recording("segmentation")
    dice = np.random.default_rng(0).random(found.score.shape)
    blind = replace(found, sure=dict.fromkeys(MAP_CHECKS, dice))
    rows = maps.checks(blind)
    assert rows["count 0.5"] == pytest.approx(rows["random"], abs=0.6)
    wise = replace(found, sure=dict.fromkeys(MAP_CHECKS, found.score - found.score[:, -1:]))
    assert min(a - b for a, b in zip(maps.checks(wise)["mean"], rows["random"], strict=True)) > 2


def test_adaptation_is_judged_on_every_stream(done: Body) -> None:
    body = copy.deepcopy(done)
    one = body["parts"]["adaptation"]["fashion"]
    assert one["alarms_before"] == 0
    assert one["phases"]["fixed"]["before"] == one["phases"]["adapted"]["before"]
    where = "our promise, section 7.6"
    for noticed, verdict in (([40, 99], AGREES), ([40, 120], PARTLY), ([40, None], PARTLY), ([300, 200], DIFFERS)):
        one["noticed"] = noticed
        assert said(body, where).verdict == verdict
    one["noticed"] = [None, None]
    assert said(body, where).verdict == DIFFERS
    phases = one["phases"]
    phases["adapted"]["during"] |= {"kept_pct": exact(99.1), "average_ms": exact(0.23)}
    one |= {"kept_gain_points": exact(1.1), "single_average_ms": exact(0.37)}
    assert said(body, "section 7.6, served").verdict == AGREES
    one["single_average_ms"] = exact(0.22)  # back, and slower than without exits
    assert said(body, "section 7.6, served").verdict == PARTLY
    phases["adapted"]["during"]["kept_pct"] = exact(98.5)
    one["kept_gain_points"] = [0.1, -0.2, 0.4]
    assert said(body, "section 7.6, served").verdict == DIFFERS


def test_the_skeleton_of_maps_is_the_module_that_was_trained() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    for task in ("landmarks", "segmentation"):
        module, check = dense_module(task)
        trained = with_maps(from_torch(module.eval(), torch.rand(1, 1, 40, 40)), MapTask(task), top=check.top)
        plain = dense_skeleton(task)
        assert trained.check == plain.check == check
        shapes = [sorted(repr(replace(one.shape, name="")) for one in net.layers) for net in (trained, plain)]
        assert shapes[0] == shapes[1]


def test_composited_truths_are_where_the_garments_are() -> None:
    pytest.importorskip("skimage")
    garments = shipped_images(60)
    seg = composites.segmentation(garments, 12, 0, seen=False)
    assert seg.images.shape == (12, 40, 40, 1)
    assert seg.labels.shape == (12, 20, 20)
    assert set(np.unique(seg.labels)) <= set(range(5))
    assert 0.02 < (seg.labels > 0).mean() < 0.6
    marks = composites.landmarks(garments, 12, 0, seen=True)
    assert marks.labels.shape == (12, 4, 2)
    middle = marks.labels.mean(axis=1)
    assert ((middle > 0.1) & (middle < 0.9)).all()
    again = composites.landmarks(garments, 12, 0, seen=True)
    np.testing.assert_array_equal(again.images, marks.images)
    silhouette = np.zeros((28, 28), bool)
    silhouette[5:20, 8:12] = True
    silhouette[10, 3] = silhouette[12, 24] = True
    assert composites.corners(silhouette).tolist() == [[5, 9.5], [19, 9.5], [10, 3], [12, 24]]
    pose = composites.Pose(np.random.default_rng(3), (0.8, 0.8), 30)
    dot = np.zeros((28, 28))
    dot[9:12, 16:19] = 255.0
    row, column = np.unravel_index(pose.placed(dot).argmax(), (40, 40))
    there = pose.moved(np.array([[10.0, 17.0]]))[0]
    np.testing.assert_allclose([(row + 0.5) / 40, (column + 0.5) / 40], there, atol=0.04)


def test_the_page_stands_alone(done: Body) -> None:
    figures = STUDY.figures(done)
    text = render_study(done, "the command", figures)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?http|<script|@import""", text)
    assert text.count("<svg") == len(figures) == 5
    check_narrow(text)
    for words in (
        "the command",
        "Statement by statement",
        "our promise",
        "agreement",
        "hard, raised",
        "composited",
        "adapted",
        "from arrival",
    ):
        assert words in text
    brief = STUDY.summary(done, "the command")
    assert sum(brief["tally"].values()) == len(brief["verdicts"]) == 44
    json.dumps(brief, allow_nan=False)
    for block in tables_markdown(done, "the command").split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("|"):
            assert len({line.count(" | ") for line in lines if "---" not in line}) == 1
