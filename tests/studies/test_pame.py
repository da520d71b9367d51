"""The study of PAME: its page stands alone, and a verdict follows the numbers, not the author."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_studies import small_body

from fluidnpu.models import from_torch, shipped_images
from fluidnpu.models.exits import with_maps
from fluidnpu.models.graph import MapTask
from fluidnpu.studies.pame import composites, maps
from fluidnpu.studies.pame.arrivals import traffic_at
from fluidnpu.studies.pame.dense import dense_module, dense_skeleton
from fluidnpu.studies.pame.networks import block_numbers, table_of, without_candidates
from fluidnpu.studies.pame.quantities import split_summary
from fluidnpu.studies.pame.recorded import CHECKS, MAP_CHECKS, map_recording, recording, shuffle_recording
from fluidnpu.studies.pame.simulations import serve_batches


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
def test_matrices_are_exact_and_coarse_ones_too_low() -> None:
    for errors in small_body("pame")["parts"]["matrices"].values():
        assert errors["1"] == [0.0] * len(errors["1"])
        assert all(-20 < one <= 0 for one in errors["2"] + errors["4"])


def test_exchanges_are_never_worse_than_greed() -> None:
    for row in small_body("pame")["parts"]["selection"].values():
        assert row["exchanged"]["average_change_pct"] <= row["greedy"]["average_change_pct"]
        assert row["proven"]["exchanged_above_pct"] <= row["proven"]["greedy_above_pct"]


def test_a_split_without_a_selection_is_the_network_with_one_exit() -> None:
    good = {"kept_pct": 99.4, "average_change_pct": -66.0, "tail_change_pct": -40.0, "late_batches": 0.0}
    rows = [{"naive": good | {"kept_pct": 98.9}, "guaranteed": good}] * 20 + [{"naive": good, "guaranteed": None}] * 20
    ours, naive = (split_summary(rows, which) for which in ("guaranteed", "naive"))
    assert (ours["none"], ours["missed"], naive["none"], naive["missed"]) == (0.5, 0.0, 0.0, 0.5)
    assert ours["average_change_pct"][0] == pytest.approx(-33.0)
    assert ours["kept_pct"][0] == pytest.approx(99.7)
    assert naive["missed text"] == "50 % of 40 (35 to 65 %)"


def test_before_a_change_exits_that_adapt_do_as_fixed_ones() -> None:
    one = small_body("pame")["parts"]["adaptation"]["fashion"]
    assert one["alarms_before"] == 0
    assert one["phases"]["fixed"]["before"] == one["phases"]["adapted"]["before"]


def test_random_leavers_have_the_mean_score_of_both_exits() -> None:
    for name, one in small_body("pame")["parts"]["maps"].items():
        assert one["exits_pct"] == pytest.approx(100 * map_recording(name).score.mean(axis=0), abs=1e-2)
        halves = [(share + one["exits_pct"][-1]) / 2 for share in one["exits_pct"][:-1]]
        assert one["checks"]["random"] == pytest.approx(halves, abs=1e-2)


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


def test_random_leavers_are_what_chance_gives() -> None:
    """Sureness that knows nothing keeps what the line of random leavers says, within what 2,000 can tell."""
    found = map_recording("segmentation")
    dice = np.random.default_rng(0).random(found.score.shape)
    blind = replace(found, sure=dict.fromkeys(MAP_CHECKS, dice))
    rows = maps.checks(blind)
    assert rows["count 0.5"] == pytest.approx(rows["random"], abs=0.6)
    wise = replace(found, sure=dict.fromkeys(MAP_CHECKS, found.score - found.score[:, -1:]))
    assert min(a - b for a, b in zip(maps.checks(wise)["mean"], rows["random"], strict=True)) > 2


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
