"""The console command as scripts and people meet it: exit codes, one sentence, JSON."""

import inspect
import json
import os
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper
from refusals import refused

from fluidnpu import __version__, dse, models, show
from fluidnpu.cli import main
from fluidnpu.commands.helpers.designs import DEFAULT_B_MAX, Search
from fluidnpu.hls import core as hls_core
from fluidnpu.models import shipped_file
from fluidnpu.models.images import read_image_file

Floats = npt.NDArray[np.float32]
PAPER = ("--cycles", "paper")  # quick; what the exact model answers has tests of its own
DATA = Path(str(files("fluidnpu.models"))) / "data"


@pytest.fixture
def model() -> Iterator[Path]:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        yield path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def small_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A design of the shipped network for batches up to two."""
    out = tmp_path_factory.mktemp("design") / "design.json"
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        assert run("dse", path, "--board", "zc706", "--b-max", 2, *PAPER, "--out", out).exit_code == 0
    return out


@pytest.fixture(scope="module")
def project(small_design: Path, few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of that design, which no test changes."""
    out = tmp_path_factory.mktemp("project") / "p"
    words = ("--board", "zc706", "--design", small_design, "--data", few_images, "--out", out)
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        assert run("build", path, *words).exit_code == 0
    return out


TABLE_1 = (
    ("resnet50", "zc706", (4652, 7, 128)),
    ("resnet50", "zcu104", (6832, 10, 172)),
    ("inception_v3", "zc706", (2742, 4, 225)),
    (
        "inception_v3",
        "zcu104",
        (6186, 9, 192),
    ),  # the paper prints row two again here; REPRODUCTION.md says why that is a slip
)


@pytest.mark.parametrize(("network", "board", "point"), TABLE_1)
def test_dse_reproduces_table_1(network: str, board: str, point: tuple[int, int, int]) -> None:
    result = run("dse", DATA / f"layers_{network}.json", "--board", board, *PAPER, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    optimum = found["paper_optimum"]
    assert (optimum["t_r"], optimum["t_p"], optimum["t_c"]) == point
    assert len(optimum["gops_by_batch"]) == 8
    assert optimum["resources"]["dsp"]["used"] == point[1] * point[2]
    assert found["t_r"] < point[0]


def test_dse_leaves_a_design_that_simulate_and_build_take(model: Path, few_images: Path, tmp_path: Path) -> None:
    design = tmp_path / "design.json"
    assert run("dse", model, "--board", "zcu104", "--b-max", 4, *PAPER, "--out", design).exit_code == 0
    load = ("--rate", 4000, "--slo", "2ms", "--requests", 300, "--seeds", 2)
    result = run("simulate", design, "--policy", "serial,fluid", *load, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {"serial", "fluid"} <= set(found["policies"])
    words = ("--board", "zcu104", "--b-max", 4, "--design", design, "--data", few_images)
    built = run("build", model, *words, "--out", tmp_path / "p", "--json")
    assert built.exit_code == 0, built.output
    assert json.loads(built.stdout)["design"] == json.loads(design.read_text())["digest"]


def test_check_counts(model: Path) -> None:
    found = json.loads(run("check", model, "--json").stdout)
    assert found["layers"] == 18
    assert [one["name"] for one in found["exits"]] == ["exit1", "exit2", "final"]
    assert found["exits"][-1]["macs"] == found["macs"]
    assert run("check", DATA / "layers_resnet50.json").exit_code == 0


@pytest.mark.parametrize("beginning", [b"PK\x03\x04", b"\x80\x02"])
def test_a_checkpoint_is_to_be_exported(beginning: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(beginning + bytes(100))
    refused(run("check", tmp_path / "net.pt"), "it is a checkpoint: export it with torch.onnx.export")


def test_serve_answers_every_image_of_a_built_bundle(project: Path, few_images: Path) -> None:
    result = run("stream", project, "--rate", 3000, "--slo", "2ms", "--data", few_images, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["requests"] == len(read_image_file(few_images))
    assert found["accuracy"] > 0.8


def test_verify_says_zero_mismatches(model: Path) -> None:
    """The design is searched with the exact model, for small batches: verified with larger ones elsewhere."""
    words = ("--board", "zc706", "--b-max", 2, "--batches", 2)
    found = json.loads(run("verify", model, *words, "--json").stdout)
    assert found["ok"]
    assert found["mismatches"] == 0
    assert found["layers"] == 18


@pytest.mark.parametrize("batches", ["0", "1,99", "-1", "", "some"])
def test_verify_says_which_batches_there_are_before_it_searches(
    batches: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluidnpu.commands.verify.choose_design", None)
    result = run("verify", model, "--board", "zc706", f"--batches={batches}")
    refused(result, f"--batches must be whole numbers of 1..8 with commas between them, not '{batches}'")


def test_verify_says_which_batches_a_design_has(model: Path, small_design: Path) -> None:
    words = ("--board", "zc706", "--design", small_design, "--batches", 3)
    refused(run("verify", model, *words), "--batches must be whole numbers of 1..2 with commas between them, not '3'")


def test_doctor_names_the_parts() -> None:
    found = json.loads(run("doctor", "--json").stdout)
    assert (found["fluidnpu"], found["numpy"]) == (__version__, np.__version__)
    assert re.fullmatch(r"3\.\d+\.\d+\S*", found["python"])
    assert "vivado" in run("doctor").stdout


# -- bad input: one sentence each ----------------------------------------------------------------------------


def save(
    path: Path, nodes: list[onnx.NodeProto], initialisers: dict[str, Floats], outputs: tuple[str, ...] = ("y",)
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in initialisers.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def conv_weights(value: float = 0.1) -> dict[str, Floats]:
    return {"w": np.full((4, 2, 3, 3), value, np.float32)}


def test_missing_model(tmp_path: Path) -> None:
    refused(run("check", tmp_path / "none.onnx"), "none.onnx", "does not exist")


def test_truncated_model(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    refused(run("check", broken), "broken.onnx")


def test_unsupported_operator_is_located(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node("Sin", ["c"], ["s"], name="gate"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, conv_weights())
    refused(run("check", path), "gate", "Sin")
    found = json.loads(run("check", path, "--json").stdout)
    assert found["node"] == "gate"
    assert found["operator"] == "Sin"
    assert found["error"]


def test_check_says_what_the_host_does(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Sin", ["c"], ["s"]),
        helper.make_node("ReduceMax", ["s"], ["y"], axes=[1]),
    ]
    path = save(tmp_path / "m.onnx", nodes, conv_weights())
    told = run("check", path)
    assert told.exit_code == 0
    assert "The host ends the network, for each image: 2 nodes (1 Sin, 1 ReduceMax)" in told.stdout.replace("\n", " ")
    found = json.loads(run("check", path, "--json").stdout)
    assert found["tail"]["operators"] == {"Sin": 1, "ReduceMax": 1}
    assert [(one["name"], one["activation"]) for one in found["outputs"]] == [("y", "host")]


def test_nan_weights(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"])], conv_weights(float("nan")))
    refused(run("check", path), "'w'")


def test_no_exits(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"])], conv_weights(), outputs=())
    refused(run("check", path), "exit")


def test_unknown_board(model: Path) -> None:
    refused(run("dse", model, "--board", "zc707"), "zc707", "zc706", "zcu104")


@pytest.mark.parametrize(("fact", "value", "resource"), [("dsp", 4, "DSP"), ("ramb36", 5, "RAMB18")])
def test_a_board_too_small_says_which_resource_and_how_much(
    model: Path, tmp_path: Path, fact: str, value: int, resource: str
) -> None:
    shipped = files("fluidnpu.boards").joinpath("zc706.toml").read_text(encoding="utf-8")
    text, changed = re.subn(rf"^{fact} = \d+", f"{fact} = {value}", shipped, flags=re.MULTILINE)
    assert changed == 1
    board = tmp_path / "small.toml"
    board.write_text(text, encoding="utf-8")
    says = (resource, str(2 * value if fact == "ramb36" else value))
    refused(run("dse", model, "--board", board, *PAPER), *says, code=1)
    refused(run("build", model, "--board", board, *PAPER, "--out", tmp_path / "p"), *says, code=1)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("b_max", [0, 1000, -3])
def test_b_max_out_of_range(model: Path, b_max: int) -> None:
    refused(run("dse", model, "--board", "zc706", "--b-max", b_max), "b_max", "1..16", str(b_max))


def test_the_guards_fail_the_build_and_write_nothing(
    model: Path, small_design: Path, few_images: Path, tmp_path: Path
) -> None:
    lost = onnx.load(model)
    for prop in lost.metadata_props:
        if prop.key == "fluidnpu.calibration":  # ranges a thousand times too small: everything saturates
            prop.value = json.dumps({name: value / 1000 for name, value in json.loads(prop.value).items()})
    path = tmp_path / "lost.onnx"
    onnx.save(lost, path)
    words = ("build", path, "--board", "zc706", "--design", small_design, "--data", few_images, "--out", tmp_path / "p")
    refused(run(*words), "within 0.02 of the spread", "values saturated")
    refused(run(*words, "--most-error", 1e6), "accuracy", "0.5 points")
    assert not (tmp_path / "p").exists()


def test_a_layer_table_has_no_weights_to_build(tmp_path: Path) -> None:
    refused(
        run("build", DATA / "layers_resnet50.json", "--board", "zc706", "--out", tmp_path / "p"), "ONNX", "layer table"
    )


def test_a_bundle_that_is_none(tmp_path: Path) -> None:
    refused(run("stream", tmp_path, "--rate", 1, "--slo", "1ms"), "bundle")


@pytest.mark.parametrize(
    ("words", "says"), [(("--rate", 0), "rate"), (("--slo", "fast"), "fast"), (("--policy", "luck"), "luck")]
)
def test_simulate_refuses_nonsense(small_design: Path, words: tuple[object, ...], says: str) -> None:
    refused(run("simulate", small_design, "--rate", 100, "--slo", "5ms", *words), says)


def test_a_design_changed_by_hand_is_refused(model: Path, small_design: Path, tmp_path: Path) -> None:
    design, text = tmp_path / "design.json", small_design.read_text()
    changed = re.sub('"t_r": [0-9]', '"t_r": 9', text)
    assert changed != text
    design.write_text(changed)
    refused(run("build", model, "--board", "zc706", "--design", design, "--out", tmp_path / "p"), "digest")


@pytest.mark.parametrize("content", [b"\x80\xff\0", b"[" * 100_000], ids=["binary", "deep"])
@pytest.mark.parametrize("command", ["build", "verify", "dse", "import-reports", "simulate", "stream"])
def test_a_file_that_is_not_text_is_refused(command: str, content: bytes, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "bundle" / "design.json"
    file.parent.mkdir()
    file.write_bytes(content)
    board, load = ("--board", "zc706", "--b-max", 1), ("--rate", 1, "--slo", "1ms")
    words = {
        "build": ("build", model, *board, "--design", file, "--out", tmp_path / "p"),
        "verify": ("verify", model, *board, "--design", file),
        "dse": ("dse", DATA / "layers_resnet50.json", *board, "--calibration", file),
        "import-reports": ("import-reports", tmp_path),
        "simulate": ("simulate", file, *load),
        "stream": ("stream", tmp_path, *load),
    }[command]
    refused(run(*words), "must be")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_only_regular_files_are_read(model: Path, tmp_path: Path) -> None:
    """A device gives bytes without end, and a pipe that nobody writes to none at all."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    board = ("--board", "zc706")
    for file, kind in (("/dev/zero", "a device"), (pipe, "a pipe"), (tmp_path, "a folder")):
        refused(run("check", file), f"'{file}' must be a regular file, and it is {kind}")
        no_data = ("must hold 1 to 200000 images",) if file is tmp_path else ("must be a regular file", kind)
        refused(run("verify", model, *board, "--data", file), *no_data)
        refused(run("verify", model, *board, "--design", file), "must be a regular file", kind)
        refused(run("simulate", file, "--rate", 1, "--slo", "1ms"), "must be a regular file", kind)
    table = pipe.with_suffix(".json")
    os.mkfifo(table)
    refused(run("check", table), "must be a regular file, and it is a pipe")


def test_a_project_is_not_written_over_a_file(model: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    refused(run("build", model, "--board", "zc706", *PAPER, "--out", precious), "folder", "file")
    assert precious.read_text() == "mine"


def test_a_project_of_which_no_bitstream_can_come_is_the_answer_no(
    model: Path, small_design: Path, few_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hls_core, "hls_core_lacks", lambda design, board: "the HLS core needs 9 RAMB18")
    words = ("build", model, "--board", "zc706", "--design", small_design, "--data", few_images)
    refused(run(*words, "--out", tmp_path / "text"), "no bitstream can come of", "needs 9 RAMB18", code=1)
    assert (tmp_path / "text" / "manifest.json").exists()
    result = run(*words, "--out", tmp_path / "json", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["missing"] == ["the HLS core needs 9 RAMB18"]
    assert found["missing"][0] in found["error"]
    assert found["files"] > 20
    rtl = run(*words, "--core", "rtl", "--out", tmp_path / "rtl", "--json")
    assert (rtl.exit_code, json.loads(rtl.stdout)["missing"]) == (0, [])


@pytest.mark.parametrize("option", ["--out", "--design"])
def test_what_is_wrong_with_out_and_design_is_said_at_once(
    option: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("{}")
    monkeypatch.setattr(models, "accuracy_guard", None)
    words = {"--out": tmp_path / "p", "--design": tmp_path / "mine"} | (
        {"--out": tmp_path} if option == "--out" else {}
    )
    refused(
        run("build", model, "--board", "zc706", *PAPER, *(word for pair in words.items() for word in pair)),
        "without a manifest" if option == "--out" else "must be a design of schema",
    )


def test_an_empty_path_is_not_the_current_folder(model: Path) -> None:
    result = run("build", model, "--board", "zc706", *PAPER, "--out", "")
    assert result.exit_code == 2
    assert "a path must not be empty" in result.stderr


@pytest.mark.parametrize(
    "words", [("demo", "--seed", -1), ("simulate", "x.json", "--rate", 1, "--slo", "1ms", "--seeds", 0)]
)
def test_counts_and_seeds_are_checked_at_the_door(words: tuple[object, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "range" in result.stderr


def test_a_board_needs_its_bitstream(project: Path) -> None:
    refused(run("stream", project, "--device", "pynq", "--rate", 1, "--slo", "1ms"), "bitstream", "bundle")


def test_layer_tables_can_be_cut_into_stages(tmp_path: Path) -> None:
    design = tmp_path / "d.json"
    words = ("dse", DATA / "layers_resnet50.json", "--board", "zc706", *PAPER)
    assert run(*words, "--exits", 2, "--exit-rates", "0.25,0.75", "--out", design).exit_code == 0
    assert json.loads(design.read_text())["exit_rates"] == [0.25, 0.75]
    refused(run(*words, "--exits", 2, "--exit-rates", "0.25,0.7"), "sum to 1")
    refused(run(*words, "--exits", 2, "--exit-rates", "some"), "numbers")
    refused(run(*words, "--exits", 4, "--exit-rates", "0.25,0.25,0.25,nan"), "--exit-rates must be finite numbers")


def test_a_given_b_max_must_be_the_designs(model: Path, small_design: Path, tmp_path: Path) -> None:
    words = (model, "--board", "zc706", "--design", small_design)
    for command in (("verify",), ("build", "--out", tmp_path / "p")):
        refused(run(*command, *words, "--b-max", 8), "must be a design for batches up to 8, not up to 2")
    assert not (tmp_path / "p").exists()
    assert run("verify", *words, "--batches", 2, "--json").exit_code == 0


def test_a_search_for_latency_says_so(model: Path) -> None:
    words = ("dse", model, "--board", "zc706", "--b-max", 2, "--objective", "latency", *PAPER, "--json")
    answer = json.loads(run(*words).stdout)
    assert (answer["objective"], answer["weights"]) == ("latency", [1.0, 0.0])
    refused(run(*words, "--weights", "1,1"), "must not be given with the objective 'latency'")


def test_the_options_of_a_search_begin_as_those_of_dse() -> None:
    """The records are typed by hand, so that help loads no room."""
    asked = inspect.signature(dse.explore).parameters
    names = ("memory", "weights", "objective", "core", "evaluations")
    assert {name: getattr(Search(), name) for name in names} == {name: asked[name].default for name in names}
    assert (Search().cycle_model, DEFAULT_B_MAX) == (asked["model"].default, asked["b_max"].default)


def test_a_full_size_network_is_known_by_its_name(tmp_path: Path) -> None:
    answer = json.loads(run("dse", "resnet50", "--board", "zc706", "--b-max", 1, *PAPER, "--json").stdout)
    assert (answer["network"], answer["core"]) == ("resnet50", "hls")
    assert json.loads(run("check", "resnet50", "--json").stdout)["macs"] == 4_089_184_256
    refused(run("dse", "resnet51", "--board", "zc706"), "resnet51", "does not exist")


@pytest.mark.parametrize("core", ["hls", pytest.param("rtl", marks=pytest.mark.long)])
def test_a_build_is_driven_by_the_exact_model_and_fits_its_core(
    core: str, model: Path, few_images: Path, tmp_path: Path
) -> None:
    words = ("--board", "zc706", "--b-max", 1, "--core", core, "--data", few_images, "--out", tmp_path / "p")
    result = run("build", model, *words, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["missing"] == []
    assert json.loads((tmp_path / "p" / "bundle" / "design.json").read_text())["model"] == "exact"


def test_a_design_of_the_other_core_is_counted_again(model: Path, few_images: Path, tmp_path: Path) -> None:
    design, words = tmp_path / "d.json", ("--board", "zc706", "--data", few_images)
    assert (
        run("dse", model, *words[:2], "--core", "rtl", "--b-max", 1, "--evaluations", 1, "--out", design).exit_code == 0
    )
    for core in ("rtl", "hls"):
        done = run("build", model, *words, "--design", design, "--core", core, "--out", tmp_path / core)
        assert done.exit_code in (0, 1), done.output  # 1: this array's accumulators do not fit with the HLS core
    searched = dse.Design.loads(design.read_text())
    same, other = (
        dse.Design.loads((tmp_path / core / "bundle" / "design.json").read_text()) for core in ("rtl", "hls")
    )
    assert (searched.core, same.core, other.core) == ("rtl", "rtl", "hls")
    assert same.latency == searched.latency != other.latency


def test_without_numba_the_exact_model_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluidnpu.dse.jit.find_spec", lambda name: None)
    refused(run("dse", model, "--board", "zc706"), "Numba", "fluidnpu[design]", "--cycles paper")


def test_the_older_name_of_cycles_is_understood_and_not_shown(model: Path) -> None:
    words = ("dse", model, "--board", "zc706", "--b-max", 1, "--json")
    assert run(*words, "--model", "paper").stdout == run(*words, *PAPER).stdout
    shown = run("dse", "--help").stdout
    assert "--cycles" in shown
    assert "--model" not in shown


def test_dse_and_build_ask_the_same_question_with_the_same_defaults() -> None:
    defaults = [
        {param.name: param.default for param in import_module(f"fluidnpu.commands.{name}").command.params}
        for name in ("dse", "build")
    ]
    for name in ("cycle_model", "core", "memory", "evaluations"):
        assert defaults[0][name] == defaults[1][name]
    assert defaults[0]["cycle_model"] == "exact"


def test_the_first_screen_is_frames_milliseconds_and_the_wall(model: Path) -> None:
    words = ("dse", model, "--board", "zc706", "--b-max", 2, "--evaluations", 1)
    screen, answer = run(*words).stdout, json.loads(run(*words, "--json").stdout)
    search = answer["search"]
    for batch in (1, 2):
        walls = answer["walls"][batch - 1]
        assert walls["compute"] + walls["tiles"] + walls["memory"] == pytest.approx(1)
        first = max(("compute", "tiles", "memory"), key=lambda name: walls[name])
        cells = (batch, f"{answer['frames_per_second'][batch - 1]:.1f}", f"{answer['batch_ms'][batch - 1]:.3f}", first)
        assert re.search(r"\s+".join(re.escape(str(cell)) for cell in cells), screen)
        assert answer["batch_ms"][batch - 1] == pytest.approx(
            1e3 * batch / answer["frames_per_second"][batch - 1], rel=1e-5
        )
    assert f"quick search: 1 of {search['arrays']} arrays counted" in screen
    assert f"more than {search['gap_pct']:.1f} % better" in screen
    assert re.search(r"150 MHz \(the board file's clock; \d+ predicted, \d+ to \d+\)", screen)
    assert "GOP/s" not in screen
    assert "FBCB" not in screen
    assert "FBCB" in run(*words, "--explain").stdout


def test_the_papers_figures_come_second_and_when_asked_for(model: Path) -> None:
    screen = run("dse", model, "--board", "zc706", *PAPER).stdout
    assert screen.index("frames/s") < screen.index("GOP/s of the design to build, by the paper model")
    assert "leave out --cycles paper" in " ".join(screen.split())
    assert "published" not in screen, "nobody published a design for this network"
    known = run("dse", DATA / "layers_resnet50.json", "--board", "zc706", "--b-max", 1, *PAPER).stdout
    assert "published <4652, 7, 128>" in " ".join(known.split())
    assert "difference" in known


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_fold_between_columns_and_not_inside_a_cell(
    columns: int, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("dse", model, "--board", "zc706", *PAPER).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    heads = [index for index, line in enumerate(lines) if line.startswith("batch ")]
    assert lines[heads[0]].split("  ") == ["batch", "frames/s", "ms a batch"]
    for line in lines[heads[-1] + 1 :][:8]:
        assert re.fullmatch(r"\d+(\s+[-+]?\d+\.\d+( %)?)+\s*", line)


def test_json_holds_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    show.emit({"mean": float("nan"), "rows": [{"most": float("inf"), "share": 0.5}, 1, "NaN"]})
    assert json.loads(capsys.readouterr().out) == {"mean": None, "rows": [{"most": None, "share": 0.5}, 1, "NaN"]}


def test_dse_takes_a_memory_and_weights(tmp_path: Path) -> None:
    design = tmp_path / "d.json"
    words = ("dse", DATA / "layers_resnet50.json", "--board", "zc706", "--b-max", 2, *PAPER)
    assert run(*words, "--memory", "pl", "--weights", "1,0", "--out", design).exit_code == 0
    made = json.loads(design.read_text())
    assert (made["memory"], made["port_bits"], made["out_words"]) == ("pl", 512, 32)
    refused(run(*words, "--memory", "hbm"), "must be one of ps_striped, ps, pl, not 'hbm'")
    refused(run(*words, "--weights", "1,much"), "numbers")
    refused(run(*words, "--weights", "1,nan"), "--weights must be finite numbers")
    refused(run(*words, "--weights", "1e308,1e308"), "--weights must be numbers of 0..1e+100")
    refused(run(*words, "--weights=-1,1"), "--weights must be numbers of 0..1e+100")
    refused(run(*words, "--weights", "1,2,3"), "one weight for each of 2 batch sizes, not 3")
