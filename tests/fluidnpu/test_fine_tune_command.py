"""`fluidnpu train --from`: a model of one's own and labelled images, to exits that are trained and judged."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.models import read_onnx, shipped_images
from fluidnpu.models.exits import attach_bridges, candidate_tensors, single_exit
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import Architecture, skeleton, with_random_weights

pytest.importorskip("torch")
SMALL = Architecture(name="small", blocks=2, widths=(4, 8), heads=((), ()), stem_stride=4)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A model with one early exit, and 200 labelled images beside it."""
    plain = with_random_weights(single_exit(skeleton(SMALL)), 0, 2)
    write_onnx(attach_bridges(plain, candidate_tensors(plain, 1), threshold=0.9), tmp_path / "start.onnx")
    images = shipped_images(200)
    np.savez(tmp_path / "images.npz", images=images.images, labels=images.labels)
    return tmp_path / "start.onnx"


def test_a_model_is_tuned_and_both_networks_are_written(start: Path) -> None:
    folder = start.parent
    words = ("train", "--from", start, "--data", folder / "images.npz", "--epochs", 2, "--batch", 30, "--rate", 0.01)
    result = run(*words, "--out", folder / "new.onnx", "--checkpoint", folder / "kept", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["name"] for row in found["exits"]] == ["exit1", "final"]
    assert (found["learned_images"], found["held_out_images"], found["epochs"]) == (180, 20, 2)
    assert len(found["held_out_losses"]) == 2
    tuned, reference = read_onnx(folder / "new.onnx"), read_onnx(folder / "new.reference.onnx")
    assert tuned.thresholds == (0.9,)
    assert set(tuned.calibration) == set(tuned.tensors)
    assert [exit.name for exit in reference.exits] == ["final"]
    assert tuned.metadata["tuned_epochs"] == "2"
    shown = run(*words, "--out", folder / "new.onnx", "--checkpoint", folder / "kept")
    assert "single exit, trained as long" in shown.stdout
    assert f"{100 * found['exits'][0]['int16']:.2f} %" in shown.stdout  # continued from the checkpoint: the same


def test_a_frozen_network_keeps_its_last_exit(start: Path) -> None:
    out = start.parent / "frozen.onnx"
    words = ("--data", start.parent / "images.npz", "--epochs", 1, "--batch", 60, "--frozen", "--distil", 0.3)
    found = json.loads(run("train", "--from", start, "--out", out, *words, "--json").stdout)
    assert found["exits"][-1]["int16"] == found["given"]["int16"]
    assert (found["trained_as_long"], found["cost_points"]) == (None, 0)
    reference = read_onnx(out.with_suffix(".reference.onnx"))
    before, after = read_onnx(start), read_onnx(out)
    for name, own in before.parameters.items():
        same = np.array_equal(own.weights, after.parameters[name].weights)
        assert same != name.startswith("exit1")
        assert name.startswith("exit1") or np.array_equal(own.weights, reference.parameters[name].weights)


def test_what_is_tuned_for_words_of_8_bits_is_called_int8(start: Path) -> None:
    words = ("--data", start.parent / "images.npz", "--epochs", 1, "--batch", 60, "--frozen", "--bits", 8)
    result = run("train", "--from", start, "--out", start.parent / "narrow.onnx", *words)
    assert result.exit_code == 0, result.output
    assert re.search(r"exit +float +int8 +of the reference", result.output)
    assert "int16" not in result.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--from", "{start}"), "--from needs labelled images, which --data names"),
        (
            ("--from", "{start}", "--data", "{data}", "--single"),
            "--single is for networks that are trained from scratch",
        ),
        (("--frozen",), "--frozen belongs to fine-tuning, so it needs --from MODEL"),
        (("--or-frozen",), "--or-frozen belongs to fine-tuning, so it needs --from MODEL"),
        (("--held-out", "0.2"), "--held-out belongs to fine-tuning"),
        (("--from", "{start}", "--data", "{data}", "--distil", "2"), "distil must be a share of 0..1, not 2.0"),
        (
            ("--from", "{start}", "--data", "{data}", "--reference", "{out}"),
            "--out and --reference must be two places",
        ),
        (("--from", "{start}", "--data", "{unlabelled}"), "needs labelled images"),
        (("--from", "{start}", "--data", "{start}"), "images"),
    ],
)
def test_bad_input_is_one_sentence(start: Path, words: tuple[str, ...], why: str) -> None:
    folder = start.parent
    np.savez(folder / "unlabelled.npz", images=shipped_images(3).images)
    places = {"start": start, "data": folder / "images.npz", "unlabelled": folder / "unlabelled.npz"}
    out = folder / "out.onnx"
    result = run("train", "--out", out, *(word.format(out=out, **places) for word in words))
    assert result.exit_code == 2, result.output
    assert why in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_where_joint_training_is_costly_the_frozen_network_is_written(
    start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fluidnpu.models.training import fine_tuning

    monkeypatch.setattr(fine_tuning, "COSTLY_POINTS", -100.0)  # any joint training is
    words = ("train", "--from", start, "--data", start.parent / "images.npz", "--epochs", 1, "--batch", 60)
    result = run(*words, "--or-frozen", "--out", start.parent / "new.onnx")
    assert result.exit_code == 0, result.output
    assert "so it was given up: these exits have that network's backbone, frozen" in " ".join(result.output.split())
    images, long, new = shipped_images(3).images, start.parent / "new.reference.onnx", start.parent / "new.onnx"
    np.testing.assert_array_equal(run_float(read_onnx(long), images)[-1], run_float(read_onnx(new), images)[-1])
    both = run(*words, "--or-frozen", "--frozen", "--out", start.parent / "other.onnx")
    assert both.exit_code == 2
    assert "--or-frozen trains jointly first" in both.output
