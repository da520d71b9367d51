"""`fluidnpu run`: one command from a model's file to a project, and the commands that it shows."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.commands.helpers import steps
from fluidnpu.dse import Design
from fluidnpu.host import serving
from fluidnpu.models import FileError, golden, quantise, read_onnx, shipped_images
from fluidnpu.models.exits import single_exit
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import Architecture, skeleton, with_random_weights
from fluidnpu.scheduler import Serving, comparison

SMALL = Architecture(name="small", blocks=2, widths=(4, 8), heads=((), ()), stem_stride=4)
QUICK = ("--board", "zc706", "--cycles", "paper", "--b-max", "2", "--no-verify")


def run(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(word) for word in words])


def report(*words: object) -> dict[str, Any]:
    result = run("run", *words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network of one exit and 300 images, labelled with the classes that it names."""
    monkeypatch.chdir(tmp_path)
    network = with_random_weights(single_exit(skeleton(SMALL)), 3, 2)
    write_onnx(replace(network, calibration={}), "mine.onnx")
    images = shipped_images(300).images
    np.savez("images.npz", images=images, labels=golden.run(quantise(network), images)[-1].argmax(-1))
    return tmp_path


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file but the log, which has times, and the wheel of a checkout that may change meanwhile."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    changing = {steps.LOG, "manifest.json"}
    return {
        str(name): path.read_bytes()
        for name, path in files.items()
        if not {name.name, name.suffix} & {*changing, ".whl"}
    }


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for line in re.findall(r"^\$ fluidnpu (.*)$", text, re.MULTILINE)]


def kept(result: Result) -> list[str]:
    """The commands that were kept as they were."""
    found = re.findall(r"^\$ fluidnpu (\w+).*\n +(fresh|[\d.]+ s)", result.stdout, re.MULTILINE)
    return [name for name, state in found if state == "fresh"]


def test_the_shown_commands_make_the_same_files(here: Path) -> None:
    pytest.importorskip("torch")
    words = ("mine.onnx", "--data", "images.npz", *QUICK, "--eta", 0.3, "--epochs", 1, "--out", "out")
    result = run("run", *words)
    assert result.exit_code == 0, result.output
    shown = commands(result.stdout)
    assert [line[0] for line in shown] == ["check", "prepare", "exits", "train", "exits", "dse", "build"]
    assert max(map(len, result.stdout.split("\n\n")[-1].splitlines())) <= 80
    shutil.move("out", "first")
    for line in shown:
        again = run(*line)
        assert again.exit_code == 0, (line, again.output)
    assert files_in(Path("out")) == files_in(Path("first"))
    assert len(read_onnx("out/candidates.onnx").exits) == 4
    selection = shown[4]
    assert selection[selection.index("--reference") + 1] == "out/prepared.onnx"  # the network that came
    assert selection[selection.index("--select") + 1] == "images.npz@50-90"


def test_what_is_fresh_is_kept_and_what_is_not_is_made_again(here: Path) -> None:
    words = ("run", "mine.onnx", "--data", "images.npz", *QUICK)
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert kept(first) == []
    made = files_in(Path("mine"))
    Path("images.npz").touch()  # times say nothing
    assert kept(run(*words)) == ["check", "prepare", "dse", "build"]
    Path("mine/design.json").unlink()
    assert kept(run(*words)) == ["check", "prepare", "build"]  # the same design came again
    Path("mine/project/README.md").unlink()
    assert kept(run(*words)) == ["check", "prepare", "dse"]
    assert files_in(Path("mine")) == made
    assert kept(run(*words, "--b-max", 1)) == ["check", "prepare"]
    images = np.load("images.npz")
    np.savez("images.npz", images=images["images"][:200], labels=images["labels"][:200])
    assert kept(run(*words, "--b-max", 1)) == ["check"]
    Path("mine", steps.LOG).write_text("{")
    assert kept(run(*words, "--b-max", 1)) == []


def test_a_stopped_run_continues_at_the_first_stale_step(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("run", "mine.onnx", "--data", "images.npz", *QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(
            "fluidnpu.commands.build.hls.compile_program", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        stopped = run(*words)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == "fluidnpu: stopped by the user; nothing half-written was kept"
    assert sorted(path.name for path in Path("mine").iterdir()) == ["design.json", "prepared.onnx", steps.LOG]
    assert kept(run(*words)) == ["check", "prepare", "dse"]


def test_the_closing_screen_says_what_the_commands_say(here: Path) -> None:
    summary = report("mine.onnx", "--data", "images.npz", *QUICK)
    log = json.loads(Path("mine", steps.LOG).read_text())
    design = Design.loads(Path("mine/project/bundle/design.json").read_text())
    capacity = comparison.predicted_capacity(
        Serving.of(design, (1.0,)), summary["policy"], serving.default_slo_ns(design)
    )
    assert summary["capacity_per_s"] == pytest.approx(capacity, rel=1e-5)
    assert summary["frames_per_second"] == pytest.approx(max(log["dse"]["report"]["frames_per_second"]))
    assert summary["mean_ms"] == summary["worst_ms"]  # with one exit
    built = log["build"]["report"]
    assert summary["accuracy"]["float_accuracy"] == built["float_accuracy"]
    assert summary["accuracy"]["words_accuracy"] == built["int16_accuracy"]
    assert summary["accuracy"]["images"] == 300
    assert summary["limits"]["takes_pct"]["dsp"] == log["dse"]["report"]["resources"]["dsp"]["percent"]
    assert (summary["verified"], summary["precision"]) == (None, None)
    assert any("--no-verify" in sentence for sentence in summary["not_checked"])
    assert any(str(load_board("zc706").clock_hz // 10**6) in sentence for sentence in summary["not_checked"])
    shown = " ".join(run("run", "mine.onnx", "--data", "images.npz", *QUICK).stdout.split())
    for sentence in summary["not_checked"]:
        assert sentence in shown
    assert f"{summary['capacity_per_s']:.0f}" in shown


def test_a_network_with_exits_keeps_them(here: Path) -> None:
    write_onnx(
        with_random_weights(skeleton(Architecture(name="two", blocks=2, widths=(4, 8), heads=((4,), ()))), 3, 2),
        "two.onnx",
    )
    before = read_onnx("two.onnx")
    summary = report("two.onnx", "--data", "images.npz", *QUICK)
    assert read_onnx("two/prepared.onnx").thresholds == before.thresholds
    assert summary["exits"] == [exit.name for exit in before.exits]
    assert sum(summary["exit_rates"]) == pytest.approx(1)
    assert summary["accuracy"]["exits_accuracy"] is not None
    assert summary["mean_ms"] <= summary["worst_ms"]
    ranges = "accuracy on other images than those that gave the ranges: --unseen names them"
    assert ranges in summary["not_checked"]
    prepared = report("two/prepared.onnx", "--data", "images.npz", *QUICK)  # its ranges are from before
    assert ranges not in prepared["not_checked"]


def test_a_network_that_names_no_classes_is_built_without_exits(here: Path) -> None:
    images = np.load("images.npz")["images"][:40]
    np.savez("plain.npz", images=images)
    result = run("run", "mine.onnx", "--logits", "none", "--data", "plain.npz", "--eta", 0.9, *QUICK)
    assert result.exit_code == 0, result.output
    assert "no exits are attached" in result.stdout
    assert [line[0] for line in commands(result.stdout)] == ["check", "prepare", "dse", "build"]
    assert "accuracy: that needs labelled images" in " ".join(result.stdout.split())
    built = json.loads(Path("mine", steps.LOG).read_text())["build"]["report"]["int16"]["answers"]
    worst = f"{100 * max(answer['rms'] for answer in built):.2g} %"
    assert re.search(rf"^int16 off float +{re.escape(worst)} ", result.stdout, re.MULTILINE)


def test_it_serves_what_it_built(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[str, int | None]] = []
    monkeypatch.setattr(
        "fluidnpu.host.oip.run_server",
        lambda models, surfaces, started: served.extend((model.label, surfaces.http) for model in models),
    )
    result = run("run", "mine.onnx", "--data", "images.npz", *QUICK, "--http", 0)
    assert result.exit_code == 0, result.output
    assert served == [("mine", 0)]
    assert commands(result.stdout)[-1] == ["serve", "mine=mine/project", "--http", "0"]


def test_a_step_that_refuses_ends_the_run_with_its_sentence(here: Path) -> None:
    result = run("run", "mine.onnx", "--data", "images.npz", "--mean", "1,2,3", *QUICK, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert answer["step"] == "prepare"
    assert result.stderr.splitlines()[-1] == f"fluidnpu: {answer['error']}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("mine.onnx", *QUICK), "a run needs images for 'small_fashion_mnist'; give them with --data"),
        (("mine.onnx", "--data", "no.npz", *QUICK), "the images must be a file or a folder, and 'no.npz' is neither"),
        (
            ("mine.onnx", "--data", "images.npz@9-3", *QUICK),
            "a part of a set must go from one per cent to a larger one",
        ),
        (("mine.onnx", "--data", "images.npz", "--eta", 1, *QUICK), "above 0 and below 1, not 1: no number of images"),
        (("mine.onnx", "--unseen", "images.npz", *QUICK), "so it needs --data"),
        (("mine.onnx", "--data", "images.npz", "--board", "nowhere"), "board must be one of"),
        (("mine.onnx", "--data", "images.npz", "--bits", 8, *QUICK), "paper"),
        (("mine.onnx", "--data", "images.npz", "--memory", "pm", *QUICK), "memory"),
        (("mine.onnx", "--data", "images.npz", "--eta", 0.9, *QUICK, "--b-max", 99), "b_max"),
        (("none.onnx", "--data", "images.npz", *QUICK), "the model file none.onnx does not exist"),
        (("mine.onnx", "--data", "images.npz", "--out", "mine.onnx", *QUICK), "must be a folder, and it is a file"),
        (("mine.onnx", "--data", ".", *QUICK), "--out must lie outside the images of --data, and 'mine' is in '.'"),
        (("mine.onnx", "--data", "images.npz", "--tolerance", "nan", *QUICK), "--tolerance must be a number of points"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(words: tuple[object, ...], sentence: str, here: Path) -> None:
    before = sorted(here.iterdir())
    result = run("run", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(here.iterdir()) == before


def test_an_input_is_never_written_over(here: Path) -> None:
    for name, source in (("prepared.onnx", "mine.onnx"), ("project", "mine.onnx"), (steps.LOG, "images.npz")):
        Path("out").mkdir()
        given = {file: file for file in ("mine.onnx", "images.npz")} | {source: f"out/{name}"}
        shutil.copy(source, given[source])
        result = run("run", given["mine.onnx"], "--data", given["images.npz"], "--out", "out", *QUICK)
        assert result.exit_code == 2
        assert f"must not be what the run writes, and both are 'out/{name}'" in result.stderr
        assert [path.name for path in Path("out").iterdir()] == [name]
        shutil.rmtree("out")


def test_names_like_options_are_shown_as_paths(here: Path) -> None:
    Path("mine.onnx").rename("-mine.onnx")
    words = ("run", "./-mine.onnx", "--data", "images.npz", "--out", "./-out", *QUICK)
    first = run(*words)
    assert first.exit_code == 0, first.output
    shown = commands(first.stdout)
    assert [line[1] for line in shown] == [
        "./-mine.onnx",
        "./-mine.onnx",
        "./-out/prepared.onnx",
        "./-out/prepared.onnx",
    ]
    assert run(*shown[0]).exit_code == 0
    assert kept(run(*words)) == ["check", "prepare", "dse", "build"]


def test_images_that_cannot_be_read_are_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("photos").mkdir()
    Path("photos", "one.png").touch()

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(FileError, match=r"^'photos/one.png' must be readable, and it is not: Permission denied$"):
        steps.digest_of(Path("photos"))


def test_parts_of_a_set_share_no_image(here: Path) -> None:
    from fluidnpu.commands.helpers.data import part_of, read_data, whole_data

    network, data = read_onnx("mine.onnx"), Path("images.npz")
    parts = [read_data(network, network.intake, part_of(data, *ends)) for ends in ((0, 50), (50, 90), (90, 100))]
    assert [len(part) for part in parts] == [150, 120, 30]
    whole = read_data(network, network.intake, data)
    together = np.concatenate([part.images for part in parts])
    assert sorted(image.tobytes() for image in together) == sorted(image.tobytes() for image in whole.images)
    assert not np.array_equal(together, whole.images)  # a set may be sorted by class, so parts are drawn
    assert whole_data(part_of(data, 0, 50)) == data
    shutil.copy("images.npz", "images.npz@0-1")
    assert len(read_data(network, network.intake, Path("images.npz@0-1"))) == 300  # a file of that name is itself
