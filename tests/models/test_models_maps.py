"""Exits that give maps: the check of PAME, Fig. 6, exits by construction, scores, files, golden model and
program.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, compile_program
from fluidnpu.models import ImageSet, Network, NetworkError, accuracy_guard, golden, quantise, read_onnx
from fluidnpu.models.errors import DataError, ModelFileError
from fluidnpu.models.exits import (
    attach_bridges,
    attach_exits,
    backbone_of,
    check_labels,
    decide_exits,
    keep_exits,
    scores,
    sureness_of_exits,
    with_check,
    with_maps,
)
from fluidnpu.models.graph import (
    ExitCheck,
    MapCheck,
    MapTask,
    keypoints,
    label_map,
    map_sureness,
    principal_values,
    read_check,
)
from fluidnpu.models.images import read_images
from fluidnpu.models.numeric import record_exits, record_scores, run_float
from fluidnpu.models.numeric.float_reference import early_exit_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network
from fluidnpu.models.zoo.hourglass import random_hourglass

TASKS = list(MapTask)


def some_check(task: MapTask, rng: np.random.Generator) -> MapCheck:
    height, width, channels = (int(size) for size in rng.integers(2, 9, 3))
    return MapCheck(
        task=task,
        shape=(height, width, channels),
        count=float(rng.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])),
        top=int(rng.integers(1, height * width + 1)),
        every=int(rng.integers(1, min(height, width) + 1)),
    )


@settings(max_examples=80)
@given(st.sampled_from(TASKS), st.integers(0, 100_000))
def test_a_sample_leaves_exactly_if_the_count_of_principal_values_does(task: MapTask, seed: int) -> None:
    """The rule as the paper has it, values counted one by one, against the comparison of one number."""
    rng = np.random.default_rng(seed)
    check = some_check(task, rng)
    values = rng.normal(0, 3, (6, int(np.prod(check.shape)))).round(int(rng.integers(0, 3)))  # with equal ones
    height, width, channels = check.shape
    threshold = float(rng.choice([*principal_values(values, check).reshape(-1), 0.0, 0.5, 1.0]))
    for sample, sure in zip(values, map_sureness(values, check), strict=True):
        maps = sample.reshape(check.shape)
        if task is MapTask.LANDMARKS:
            parts = [sorted(maps[..., one].reshape(-1))[-check.top :] for one in range(channels)]
            principal = [
                1 / (1 + np.exp(-x)) if x >= 0 else np.exp(x) / (1 + np.exp(x)) for part in parts for x in part
            ]
        else:
            pixels = [maps[y, x] for y in range(0, height, check.every) for x in range(0, width, check.every)]
            principal = [1 / np.exp(pixel - pixel.max()).sum() for pixel in pixels]
        assert len(principal) == check.values
        above = sum(value > threshold for value in principal)
        assert (sure > threshold) == (above > round(check.count * check.values, 9))


@settings(max_examples=30)
@given(st.sampled_from(TASKS), st.integers(0, 100_000))
def test_the_batch_changes_no_bit_of_a_sureness(task: MapTask, seed: int) -> None:
    """So driver, runtime and golden model decide alike, whatever they hold at once."""
    rng = np.random.default_rng(seed)
    check = some_check(task, rng)
    values = rng.integers(-9000, 9000, (7, int(np.prod(check.shape)))) * 2.0**-11
    whole = map_sureness(values, check)
    assert [float(map_sureness(values[[row]], check)[0]) for row in range(7)] == whole.tolist()
    assert len(map_sureness(values[:0], check)) == 0


@settings(max_examples=40)
@given(st.sampled_from(TASKS), st.integers(0, 100_000))
def test_a_check_reads_back_from_its_text(task: MapTask, seed: int) -> None:
    check = some_check(task, np.random.default_rng(seed))
    assert read_check(check.text) == check
    assert [read_check(one.text) for one in ExitCheck] == list(ExitCheck)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("best", "must be one of top, certainty, margin, agreement, landmarks:..., segmentation:..., not 'best'"),
        ("landmarks:shape=4x4x2,count=0.5", "must be one of"),
        ("segmentation:shape=4x4x2,count=0.5,top=3", "must be one of"),
        ("landmarks:shape=4x4,count=0.5,top=3", "must be numbers"),
        ("landmarks:shape=4x4x2,count=half,top=3", "must be numbers"),
        ("landmarks:shape=4x4x2,count=1.0,top=3", "share of at least 0 below 1, not 1.0"),
        ("landmarks:shape=4x4x2,count=0.5,top=17", "must be 1..16 of its pixels, not 17"),
        ("segmentation:shape=4x4x1,count=0.5,every=1", "2 to 256 labels"),
        ("segmentation:shape=4x4x300,count=0.5,every=1", "2 to 256 labels"),
        ("segmentation:shape=4x3x2,count=0.5,every=4", "must be 1..3 of this map, not 4"),
    ],
)
def test_checks_that_mean_nothing_are_refused(text: str, why: str) -> None:
    with pytest.raises(NetworkError) as refused:
        read_check(text)
    assert why in str(refused.value)


def test_answers_are_where_the_maps_are_highest() -> None:
    check = MapCheck(task=MapTask.LANDMARKS, shape=(4, 8, 2), top=1)
    maps = np.full((1, 4, 8, 2), -5.0)
    maps[0, 1, 6, 0], maps[0, 3, 0, 1] = 2.0, 0.0
    found = keypoints(maps.reshape(1, -1), check)
    np.testing.assert_allclose(found[0, 0], [1.5 / 4, 6.5 / 8, 1 / (1 + np.exp(-2.0))], rtol=1e-6)
    np.testing.assert_allclose(found[0, 1], [3.5 / 4, 0.5 / 8, 0.5], rtol=1e-6)
    labels = MapCheck(task=MapTask.SEGMENTATION, shape=(4, 8, 2))
    assert label_map(maps.reshape(1, -1), labels)[0].sum() == 1
    assert label_map(maps.reshape(1, -1), labels)[0, 3, 0] == 1
    far = map_sureness(np.full((1, 64), -5000.0), check)  # a map of a network that was never trained
    assert far.tolist() == [0.0]
    with pytest.raises(NetworkError, match="answer of a segmentation"):
        label_map(maps.reshape(1, -1), check)
    with pytest.raises(NetworkError, match="answer of heat maps"):
        keypoints(maps.reshape(1, -1), labels)
    with pytest.raises(NetworkError, match=r"must come as \(N, 64\) values, not \(1, 4, 8, 2\)"):
        map_sureness(maps, labels)


@settings(max_examples=40)
@given(st.integers(0, 100_000))
def test_scores_are_those_of_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (3, 5, 4)
    values = rng.normal(0, 1, (4, 60))
    truths = rng.integers(-1, 4, (4, 3, 5))
    check = MapCheck(task=MapTask.SEGMENTATION, shape=shape)
    for answer, truth, score in zip(label_map(values, check), truths, scores(values, truths, check), strict=True):
        shares = []
        for label in range(4):
            pairs = [(a == label, t == label) for a, t in zip(answer.flat, truth.flat, strict=True) if t >= 0]
            if any(a or t for a, t in pairs):
                shares.append(sum(a and t for a, t in pairs) / sum(a or t for a, t in pairs))
        assert score == pytest.approx(np.mean(shares) if shares else 1.0)
    heat = MapCheck(task=MapTask.LANDMARKS, shape=shape)
    places = rng.random((4, 4, 2))
    places[rng.random((4, 4)) < 0.3] = np.nan
    for points, truth, score in zip(keypoints(values, heat), places, scores(values, places, heat), strict=True):
        hits = [
            max(abs(point[0] - one[0]), abs(point[1] - one[1])) <= 0.1
            for point, one in zip(points, truth, strict=True)
            if not np.isnan(one).any()
        ]
        assert score == pytest.approx(np.mean(hits) if hits else 1.0)


def without_blocks(network: Network, left_out: set[str]) -> Network:
    """The network with some blocks bypassed, by hand: their readers read what the blocks read."""
    through = {"r3b2_b_out": "r3b1_b_out", "r2b2_b_out": "r2b1_b_out", "r1b2_b_out": "r1b1_b_out"}
    renamed = {tensor: through[tensor] for tensor in left_out}

    gone = {f"{tensor[:4]}_{part}" for tensor in left_out for part in "ab"}
    layers = tuple(
        replace(
            layer,
            input=renamed.get(layer.input, layer.input),
            residual=None if layer.residual is None else renamed.get(layer.residual, layer.residual),
        )
        for layer in network.layers
        if layer.name not in gone
    )
    return replace(network, layers=layers)


@pytest.mark.parametrize("shortcuts", [False, True])
def test_an_exit_is_the_network_without_the_blocks_that_it_leaves_out(shortcuts: bool) -> None:
    """With shortcuts, too: the head reads the bridge's block of a later region (PAME, section 5.1), and the
    exit's own tensor in place of a later one of its region.
    """
    plain = random_hourglass(2, MapTask.SEGMENTATION, exits=0, shortcuts=shortcuts)
    assert [len(region.blocks) for region in backbone_of(plain).regions] == [2, 2, 2]
    places = {"r1b1_b_out": {"r1b2_b_out", "r2b2_b_out", "r3b2_b_out"}, "r2b1_b_out": {"r2b2_b_out", "r3b2_b_out"}}
    network = attach_bridges(plain, list(places))
    assert [network.tensors[exit.classes] for exit in network.exits] == [(12, 8, 3)] * 3
    images = network.intake.random(3, 0)
    found = run_float(network, images)
    for one, left_out in zip(found, places.values(), strict=False):
        np.testing.assert_array_equal(one, run_float(without_blocks(plain, left_out), images)[0])
    np.testing.assert_array_equal(found[-1], run_float(plain, images)[0])


def test_a_head_that_reads_inside_a_block_takes_no_earlier_exit() -> None:
    plain = random_hourglass(2, MapTask.SEGMENTATION, exits=0)
    layers = tuple(
        replace(layer, residual="r2b2_a_out") if layer.name.startswith("up2") else layer for layer in plain.layers
    )
    with pytest.raises(NetworkError, match="reads 'r2b2_a_out', which ends no block"):
        attach_bridges(replace(plain, layers=layers), ["r2b1_b_out"])


@pytest.mark.parametrize("task", TASKS)
def test_one_answer_in_file_float_golden_and_program(task: MapTask, tmp_path: Path) -> None:
    network = random_hourglass(5, task)
    write_onnx(network, tmp_path / "maps.onnx")
    read = read_onnx(tmp_path / "maps.onnx")
    assert (read.check, read.thresholds, read.outputs) == (network.check, network.thresholds, ())
    images = network.intake.random(12, 1)
    for mine, theirs in zip(run_float(network, images), run_float(read, images), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    qnet = quantise(read)
    exits, classes, confidences = golden.early_exit(qnet, images)
    assert set(exits) >= {0, 2}  # of many minds
    assert set(classes) == {-1}
    logits = [qnet.logits(exit, stored) for exit, stored in enumerate(golden.run(qnet, images))]
    sure = np.array(sureness_of_exits(logits, network.check))
    np.testing.assert_array_equal(exits, decide_exits(list(sure), read.thresholds))
    np.testing.assert_array_equal(confidences, sure[exits, np.arange(12)])
    assert np.mean(exits == early_exit_float(read, images)[0]) > 0.7
    program = compile_program(qnet, design_for(network.workload))
    program.save(tmp_path / "program")
    assert Program.load(tmp_path / "program").check == network.check


@pytest.mark.parametrize("task", TASKS)
def test_onnxruntime_gives_the_maps_in_their_shape(task: MapTask) -> None:
    runtime = pytest.importorskip("onnxruntime")
    network = random_hourglass(6, task)
    images = network.intake.random(2, 3)
    session = runtime.InferenceSession(build_onnx(network).SerializeToString())
    given = session.run(None, {network.input: (images / np.float32(255)).transpose(0, 3, 1, 2)})
    for mine, theirs in zip(run_float(network, images), given, strict=True):
        assert theirs.shape == (2, 3, 12, 8)
        np.testing.assert_allclose(mine, theirs.transpose(0, 2, 3, 1).reshape(2, -1), rtol=1e-4, atol=1e-4)


def truths_of(network: Network, images: Any) -> np.ndarray[Any, Any]:
    """Truths that the last exit has right in float."""
    check, values = network.check, run_float(network, images)[-1]
    assert isinstance(check, MapCheck)
    if check.task is MapTask.LANDMARKS:
        return keypoints(values, check)[..., :2].astype(np.float64)
    return label_map(values, check).astype(np.int64)


@pytest.mark.parametrize("task", TASKS)
def test_the_guard_and_the_recording_judge_maps_by_their_scores(task: MapTask) -> None:
    network = random_hourglass(7, task)
    images = network.intake.random(10, 2)
    truths = truths_of(network, images)
    qnet = quantise(network)
    report = accuracy_guard(network, qnet, images, truths, tolerance_points=20)
    exits, _, _ = early_exit_float(network, images)
    each = np.array([scores(one, truths, network.check) for one in run_float(network, images)])
    assert report.float_accuracy == pytest.approx(each[exits, np.arange(10)].mean())
    assert 0.9 < report.same_class <= 1
    alone = keep_exits(network, [])
    assert accuracy_guard(alone, quantise(alone), images, truths, tolerance_points=20).float_accuracy == 1
    data = ImageSet(images=images, labels=truths)
    sure, found = record_exits(qnet, data)
    stored = [qnet.logits(exit, one) for exit, one in enumerate(golden.run(qnet, images))]
    np.testing.assert_array_equal(found, np.stack([scores(one, truths, network.check) for one in stored], axis=1))
    np.testing.assert_array_equal(sure, np.stack(sureness_of_exits(stored, network.check), axis=1))
    assert not record_scores(qnet, ImageSet(images=images))[1].any()


def test_truths_that_do_not_fit_the_head_are_refused(tmp_path: Path) -> None:
    heat, labels = (random_hourglass(1, task) for task in TASKS)
    classes = random_network(1)
    good = {"heat": np.zeros((2, 3, 2)), "labels": np.zeros((2, 12, 8), np.int64), "classes": np.zeros(2, np.int64)}
    nets = {"heat": heat, "labels": labels, "classes": classes}
    for net, network in nets.items():
        for truth, values in good.items():
            if net == truth:
                check_labels(network, values)
            else:
                with pytest.raises(NetworkError, match=r"needs .* came"):
                    check_labels(network, values)
    with pytest.raises(NetworkError, match=r"needs a label of 0\.\.2 .* and values of 0\.\.3 came"):
        check_labels(labels, good["labels"] + np.arange(2)[:, None, None] * 3)
    with pytest.raises(NetworkError, match=r"values of 1\.5\.\.1\.5 came"):
        check_labels(heat, good["heat"] + 1.5)
    check_labels(heat, good["heat"] * np.nan)  # nothing is judged there
    images = np.zeros((2, 24, 16, 1), np.uint8)
    for name, values in good.items():
        np.savez(tmp_path / f"{name}.npz", images=images, labels=values)
        read = read_images(tmp_path / f"{name}.npz").labels
        np.testing.assert_array_equal(read, values)
    np.savez(tmp_path / "odd.npz", images=images, labels=np.zeros((2, 3)))
    with pytest.raises(DataError, match="must be whole numbers"):
        read_images(tmp_path / "odd.npz")
    np.savez(tmp_path / "few.npz", images=images, labels=good["labels"][:1])
    with pytest.raises(DataError, match="a label for each of 2 images"):
        read_images(tmp_path / "few.npz")


def test_an_output_becomes_the_answer_of_the_last_exit(tmp_path: Path) -> None:
    """A network without classes, as torch exports it: its map is an output until a head is named."""
    bare = random_hourglass(4, MapTask.SEGMENTATION, exits=0)
    model = build_onnx(bare)
    del model.metadata_props[:]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    network = read_onnx(tmp_path / "net.onnx")
    assert network.exits[0].logits is None
    found = with_maps(network, MapTask.SEGMENTATION, count=0.25, every=2)
    assert found.check == MapCheck(task=MapTask.SEGMENTATION, shape=(12, 8, 3), count=0.25, every=2, top=5)
    assert found.outputs == ()
    images = bare.intake.random(2, 0)
    np.testing.assert_allclose(run_float(found, images)[0], run_float(bare, images)[0], atol=1e-5)
    with pytest.raises(NetworkError, match="there is no output 'heat'"):
        with_maps(network, MapTask.LANDMARKS, "heat")
    with pytest.raises(NetworkError, match="decides between classes"):
        with_maps(random_network(1), MapTask.LANDMARKS)
    softened = replace(network, outputs=(replace(network.outputs[0], activation="softmax"),))
    with pytest.raises(NetworkError, match="must end in no activation or sigmoid"):
        with_maps(softened, MapTask.LANDMARKS)
    assert with_maps(softened, MapTask.SEGMENTATION).exits[0].logits == network.outputs[0].tensor
    turned = replace(network, outputs=(replace(network.outputs[0], axes="hwc", shape=(12, 8, 3), split=(3,)),))
    with pytest.raises(NetworkError, match="another arrangement"):
        with_maps(turned, MapTask.SEGMENTATION)
    with pytest.raises(NetworkError, match="a linear head tells classes apart"):
        attach_exits(found, ["r1b1_b_out"])
    with pytest.raises(NetworkError, match="'margin' is a check of classes"):
        with_check(found, ExitCheck.MARGIN)
    with pytest.raises(NetworkError, match="must give maps of"):
        with_check(random_network(1), MapCheck(task=MapTask.SEGMENTATION, shape=(4, 4, 2)))


def test_files_whose_check_does_not_fit_their_outputs_are_refused(tmp_path: Path) -> None:
    network = random_hourglass(4, MapTask.SEGMENTATION)
    model = build_onnx(network)
    for prop in model.metadata_props:
        if prop.key == "fluidnpu.check":
            prop.value = prop.value.replace("12x8x3", "12x9x3")
    (tmp_path / "shape.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match=r"must be \(N, 3, 12, 9\) to be an exit of its check"):
        read_onnx(tmp_path / "shape.onnx")
    for prop in model.metadata_props:
        if prop.key == "fluidnpu.exits":
            prop.value = "[]"
    (tmp_path / "none.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelFileError, match="is for maps, and no output of its exit table is one"):
        read_onnx(tmp_path / "none.onnx")
