"""A package of one's own extends fluidnpu, each kind by the command line; broken packages are refused."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner, Result
from docs_pages import DOCS, Session, commands, read_page
from docs_setups import Setups
from onnx import helper, numpy_helper
from onnx.parser import parse_function

from fluidnpu.cli import main
from fluidnpu.commands.helpers.extensions import extension_groups, installed_extensions
from fluidnpu.dse import LatencyTable
from fluidnpu.host import Bundle, Device, DriverUsageError, VirtualClock, WallClock, open_device
from fluidnpu.host.serving.model import Model
from fluidnpu.host.serving.options import ModelOptions
from fluidnpu.models import read_onnx
from fluidnpu.models.errors import ModelFileError, UnsupportedOperatorError
from fluidnpu.models.graph.activations import Use
from fluidnpu.models.numeric.float_reference import run_float
from fluidnpu.scheduler import Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.errors import FleetError, QuantityError
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits, parse_criterion
from fluidnpu.scheduler.placement import Rule

EXAMPLE = Path(__file__).parent / "fluidnpu-example"
PAGE = read_page(DOCS / "how-to" / "extend.md")
KINDS = ("operators", "devices", "policies", "quantities", "combiners")
FLEET = "together.toml"  # of the page, and of no package
Packages = Callable[..., None]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the page, as pip installs it."""
    folder = tmp_path_factory.mktemp("extensions")
    shutil.copytree(EXAMPLE, folder / "source")
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    target = ["--target", str(folder / "site"), str(folder / "source")]
    subprocess.run([sys.executable, "-m", "pip", *words, *target], check=True)
    return folder / "site"


@pytest.fixture
def example(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed))  # of commands that a shell runs
    return installed


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    """Installs packages of one module whose text is given, with entries of one group."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, group: str, text: str = "", **entries: str) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[fluidnpu.{group}]\n{lines}\n")
        (tmp_path / f"{package}.py").write_text(text)
        monkeypatch.delitem(sys.modules, package, raising=False)
        monkeypatch.syspath_prepend(info.parent / package)  # another path: what is installed is looked up anew

    return install


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Setups:
    return Setups(tmp_path_factory.mktemp("setups"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: Setups) -> Path:
    """A folder with a project, a latency table and a network with the operator, which is the current one."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folders.begin("project", scratch)
    table = {"latency_ns": [[30_000_000, 40_000_000], [20_000_000, 28_000_000]], "exit_rates": [0.4, 0.6]}
    (scratch / "table.json").write_text(json.dumps(table))
    onnx.save(network(alpha=1.1), scratch / "quick_gelu.onnx")
    monkeypatch.chdir(scratch)
    return scratch


def network(**attributes: float) -> onnx.ModelProto:
    """A convolution, the operator, a pool and a layer of four classes."""
    rng = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w"], ["made"]),
        helper.make_node("QuickGelu", ["made"], ["bent"], domain="com.microsoft", **attributes),
        helper.make_node("GlobalAveragePool", ["bent"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "v"], ["logits"]),
    ]
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["N", 3, 6, 6])
    logits = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, "net", [image], [logits], [weights("w", 5, 3, 3, 3), weights("v", 5, 4)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, list(words))


# -- the page --------------------------------------------------------------------------------------------


def test_the_page_shows_the_files_of_the_package() -> None:
    shown = {block.file: block.text for block in PAGE.blocks if block.file and block.file != FLEET}
    files = [path for path in (*EXAMPLE.glob("*.toml"), *EXAMPLE.rglob("*.py")) if path.name != "__init__.py"]
    assert shown == {path.relative_to(EXAMPLE).as_posix(): path.read_text() for path in files}


@pytest.mark.cpu(15, "a design and a project, then the commands of the page")
@pytest.mark.usefixtures("example")
def test_the_commands_of_the_page_run(here: Path) -> None:
    session = Session(here)
    (fleet,) = [block for block in PAGE.blocks if block.file == FLEET]
    session.run(fleet)
    blocks = [block for block in PAGE.blocks if block.exempt and "runs the commands" in block.exempt]
    for block in blocks:
        session.console(block)
    ran = [words.split()[1] for block in blocks for words, _ in commands(block.text) if words.startswith("fluidnpu")]
    assert ran == ["doctor", "check", "stream", "simulate", "simulate", "place"]
    lines = (here / "trace.txt").read_text().splitlines()
    assert re.fullmatch(r"(read|write) 0x[0-9a-f]{4} 0x[0-9a-f]{8}", lines[0])
    assert len(lines) > 20


@pytest.mark.usefixtures("example")
def test_each_extension_is_found_with_its_package() -> None:
    mine = [
        (one.group, one.name, problem) for one, problem in installed_extensions() if one.package == "fluidnpu-example"
    ]
    assert mine == [
        ("fluidnpu.operators", "com.microsoft.QuickGelu", ""),
        ("fluidnpu.devices", "traced", ""),
        ("fluidnpu.policies", "newest-first", ""),
        ("fluidnpu.quantities", "time_used", ""),
        ("fluidnpu.combiners", "product", ""),
    ]
    (first, *_) = json.loads(run("doctor", "--json").stdout)["extensions"]
    assert first == {
        "group": "fluidnpu.operators",
        "name": "com.microsoft.QuickGelu",
        "value": "fluidnpu_example.operators:quick_gelu",
        "package": "fluidnpu-example",
        "version": "1.0",
        "problem": None,
    }
    assert [group.group for group in extension_groups()] == [f"fluidnpu.{kind}" for kind in KINDS]


def test_help_and_shipped_names_load_no_package(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nimport fluidnpu\nfrom fluidnpu.cli import main\nfrom fluidnpu.scheduler import make_policy\n"
        "for words in (['--help'], ['simulate', '--help'], ['stream', '--help']):\n"
        "    try:\n        main(words)\n    except SystemExit as end:\n        assert not end.code\n"
        "make_policy('greedy')\n"
        "from fluidnpu.models.files import extensions\n"
        "print('fluidnpu_example' in sys.modules, extensions._entries.cache_info().misses)"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(installed)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False 0"


# -- operators -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("attributes", [{}, {"alpha": 1.1}])
def test_an_operator_equals_onnxruntimes(tmp_path: Path, attributes: dict[str, float]) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(**attributes), path)
    images = np.random.default_rng(1).random((4, 3, 6, 6), np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(["logits"], {"image": images})
    read = read_onnx(path)
    (floats,) = run_float(read, np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(floats, expected, rtol=1e-4, atol=1e-5)
    assert len(read.layers) == 3, "the activation costs no layer of its own"
    (table,) = [layer.activation for layer in read.layers if layer.activation is not None]
    assert (table.use, table.function) == (Use.TABLE, "silu")


@pytest.mark.usefixtures("example")
def test_a_function_of_the_file_comes_before_the_packages(tmp_path: Path) -> None:
    model = network()
    body = '<opset_import: ["" : 17], domain: "com.microsoft"> QuickGelu (x) => (y) { y = Relu (x) }'
    model.functions.append(parse_function(body))
    onnx.save(model, tmp_path / "net.onnx")
    assert not [layer for layer in read_onnx(tmp_path / "net.onnx").layers if layer.activation is not None]


NESTED = """
from onnx.parser import parse_function

def outer(node):
    return parse_function('<opset_import: ["" : 13, "my" : 1], domain: "x"> F (x) => (y) { y = my.Inner (x) }')

def inner(node):
    return parse_function('<opset_import: ["" : 13], domain: "x"> F (x) => (y) { y = Relu (x) }')
"""


def test_an_operator_may_be_made_of_another(here: Path, packages: Packages) -> None:
    packages("nest", "operators", NESTED, **{"com.microsoft.QuickGelu": "nest:outer", "my.Inner": "nest:inner"})
    assert len(read_onnx(here / "quick_gelu.onnx").layers) == 3
    packages("nest", "operators", NESTED, **{"com.microsoft.QuickGelu": "nest:outer", "my.Inner": "nest:outer"})
    with pytest.raises(UnsupportedOperatorError, match=r"my\.Inner is not supported"):
        read_onnx(here / "quick_gelu.onnx")


def test_without_the_package_the_operator_is_refused(here: Path) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"com\.microsoft\.QuickGelu is not supported") as refused:
        read_onnx(here / "quick_gelu.onnx")
    assert "or bring it in a package (docs/how-to/extend.md)" in str(refused.value)
    assert str(refused.value).endswith(" ...")  # the list of operators is longer than a message


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("1 / 0", "must return a function for node 'bent', and that failed: ZeroDivisionError"),
        ("node", "must return an onnx.FunctionProto, not NodeProto"),
        (
            "onnx.FunctionProto(output=['y'])",
            "must return a function of 1 inputs and 1 outputs for node 'bent', not of 0",
        ),
        (
            "onnx.FunctionProto(input=['x'], output=['y'])",
            "must return a function that computes its outputs, and 'y' is not",
        ),
    ],
)
def test_an_operator_that_fails_is_one_sentence(here: Path, packages: Packages, returned: str, message: str) -> None:
    text = f"import onnx\ndef make(node):\n    return {returned}\n"
    packages("bad", "operators", text, **{"com.microsoft.QuickGelu": "bad:make"})
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read_onnx(here / "quick_gelu.onnx")
    done = run("check", "quick_gelu.onnx")
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


# -- devices ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("example")
def test_a_server_opens_a_packages_device_on_its_clock(here: Path) -> None:
    bundle = here / "project" / "bundle"
    model = Model("net", bundle, ModelOptions(device="traced", warm=False))
    try:
        model.load()
        assert model._driver is not None
        assert type(model._driver.device).__name__ == "Traced"
        assert isinstance(model._driver.device.clock, WallClock)
    finally:
        model.close()


@contextlib.contextmanager
def opened(kind: str, here: Path) -> Iterator[Device]:
    with open_device(kind, Bundle.read(here / "project" / "bundle")) as device:
        yield device


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 7", "must open as a context manager, and that failed: TypeError"),
        ("raise OSError('no such card')", "must open as a context manager, and that failed: OSError: no such card"),
        ("return contextlib.nullcontext(7)", "must have read, write, .*, and lacks read, write, allocate"),
    ],
)
def test_a_device_that_cannot_be_opened_is_one_sentence(
    here: Path, packages: Packages, body: str, message: str
) -> None:
    packages(
        "cards", "devices", f"import contextlib\ndef make(bundle, folder, clock):\n    {body}\n", card="cards:make"
    )
    with (
        pytest.raises(DriverUsageError, match=rf"'card' of package 'cards' \(fluidnpu\.devices\) {message}"),
        opened("card", here),
    ):
        pass


def test_what_goes_wrong_on_an_open_device_stays_what_it_is(here: Path, packages: Packages) -> None:
    text = "from fluidnpu.host import open_device\ndef make(bundle, folder, clock):\n    return open_device('cpu', bundle)\n"
    packages("cards", "devices", text, card="cards:make")
    with pytest.raises(DriverUsageError, match="must be given a bundle that was measured"), opened("card", here):
        pass
    packages("cards", "devices", text.replace("cpu", "simulated"), card="cards:make")
    with pytest.raises(KeyError, match="mine"), opened("card", here) as device:
        raise KeyError("mine" if isinstance(device.clock, VirtualClock) else "another clock")


def test_an_unknown_device_is_refused_with_those_there_are(here: Path, example: Path) -> None:
    done = run("stream", "project", "--rate", "10", "--slo", "1s", "--device", "cloud")
    assert done.exit_code == 2
    assert re.search(r"'cloud' is not one of 'simulated', .*'traced'", done.stderr)
    with pytest.raises(DriverUsageError, match="devmem, traced, not 'cloud'"), opened("cloud", here):
        pass


# -- policies --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("example")
def test_a_policy_takes_parameters_and_wrappers() -> None:
    policy = make_policy("newest-first:most=2")
    assert (policy.name, policy.most) == ("newest-first:most=2", 2)  # type: ignore[attr-defined]
    latency = LatencyTable(ns=((100, 150), (80, 120)))
    requests = [Request(id=i, arrival_ns=10 * i, deadline_ns=10 * i + 2_000) for i in range(6)]
    for text in ("newest-first", "newest-first:most=2", "newest-first:anytime=50%:shed=1"):
        schedule = simulate(requests, make_policy(text), World(latency=latency, exits=[1] * 6, exit_rates=[0.5, 0.5]))
        schedule.check()
    with pytest.raises(SchedulerError, match="key among: anytime, drain, most, shed; not 'least=2'"):
        make_policy("newest-first:least=2")
    with pytest.raises(SchedulerError, match=r"one of adaptive, .*, newest-first, optimal, .*, not 'oldest-first'"):
        make_policy("oldest-first")


def test_a_factory_that_fails_is_one_sentence(packages: Packages) -> None:
    text = "from fluidnpu.scheduler.policies import Entry\nLATE = Entry(lambda most: most, 'never made')\n"
    packages("tardy", "policies", text, late="tardy:LATE")
    with pytest.raises(
        SchedulerError, match=r"'late' of package 'tardy' .* must make a policy, and that failed: TypeError"
    ):
        make_policy("late")


def test_a_parameter_that_a_package_cannot_parse_is_one_sentence(packages: Packages) -> None:
    text = "from fluidnpu.scheduler.policies import Entry\nODD = Entry(lambda: 0, 'odd', {'most': lambda key, text: 1 / 0})\n"
    packages("wild", "policies", text, odd="wild:ODD")
    with pytest.raises(
        SchedulerError, match=r"'odd' of package 'wild' .* must parse its parameter 'most=3', and that failed: ZeroDiv"
    ):
        make_policy("odd:most=3")


# -- quantities ------------------------------------------------------------------------------------------

TABLE = LatencyTable(ns=((100, 150), (80, 120)))


@pytest.mark.usefixtures("example")
def test_a_quantity_decides_like_a_shipped_one_within_a_criterion() -> None:
    criterion = parse_criterion("not (time_used <= 25%) && confidence > 0.5")
    assert criterion.text == "not time_used <= 0.25 and confidence > 0.5"
    assert parse_criterion(criterion.text) == criterion
    exits = RuledExits(
        rule=Criteria(ExitProfile(latency=TABLE), criterion), confidences={0: (0.9,), 1: (0.9,), 2: (0.4,)}
    )
    batch = [Request(0, 0, 500), Request(1, 0, 300), Request(2, 0, 300)]
    reasons = exits.leaving(batch, (0, 0, 0), exit=0, now_ns=100)
    assert reasons == ["", criterion.text, ""], "20 %, 33 % and 33 % of the objectives have passed"


@pytest.mark.usefixtures("example")
def test_a_quantity_is_asked_when_samples_reach_an_exit(here: Path) -> None:
    words = ["simulate", "table.json", "--policy", "greedy", "--rate", "20", "--requests", "50", "--json"]
    answers = [
        json.loads(run(*words, "--slo", slo, "--criteria", "time_used > 30%").stdout) for slo in ("50ms", "100s")
    ]
    half = [answer["policies"]["greedy"]["p50_ms"]["mean"] for answer in answers]
    assert 30 <= half[0] < 50 <= half[1], "the first stage takes 30 ms, both 50"


def test_a_quantity_that_fails_keeps_its_samples_and_nobody_elses(
    packages: Packages, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        "from fluidnpu.scheduler.exits import Quantity\ndef of(seen):\n    return 1 / (seen.slack_ns - 400)\n"
        "MOOD = Quantity('mood', '', {'': 1}, 'a mood', of=of)\n"
    )
    packages("moods", "quantities", text, mood="moods:MOOD")
    criteria = Criteria(ExitProfile(latency=TABLE), "confidence > 0.7")
    criteria.set("mood > 0", request=0)
    criteria.set("mood > 0", request=1)
    criteria.set("not mood > 0", request=2)
    batch = [Request(id, 0, deadline) for id, deadline in ((0, 600), (1, 500), (2, 500), (3, 500))]
    with caplog.at_level(logging.WARNING):
        reasons = criteria.leaving(batch[2:], (0, 0), exit=0, now_ns=100, confidences=(0.9, 0.9))
        again = criteria.leaving(batch[:1], (0,), exit=0, now_ns=100, confidences=(0.9,))
        criteria.leaving(batch[1:2], (0,), exit=0, now_ns=100, confidences=(0.9,))
    assert reasons == ["", "confidence > 0.7"]
    assert again == ["mood > 0"]
    (record,) = caplog.records
    assert re.search(r"'mood' of package 'moods' .* must give a finite number at exit 1.*ZeroDivision", record.message)


def test_a_simulation_with_a_broken_quantity_ends_in_one_sentence(here: Path, packages: Packages) -> None:
    text = (
        "from fluidnpu.scheduler.exits import Quantity\n"
        "MOOD = Quantity('mood', '', {'': 1}, 'a mood', of=lambda seen: seen.confidence + 1)\n"
    )
    packages("moods", "quantities", text, mood="moods:MOOD")
    words = ["simulate", "table.json", "--policy", "greedy", "--rate", "20", "--slo", "1s", "--criteria", "mood > 1"]
    done = run(*words, "--requests", "20")
    assert done.exit_code == 2
    assert re.search(
        r"'mood' of package 'moods' .*must give a finite number at exit 1, and that failed: Type", done.stderr
    )
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.usefixtures("example")
def test_an_unknown_quantity_names_the_packages_too() -> None:
    with pytest.raises(
        SchedulerError, match=r"exit_number, time_used at column 1, not 'time_use'; did you mean 'time_used'"
    ):
        parse_criterion("time_use > 3")
    with pytest.raises(SchedulerError, match="<, <=, >= or >, since time_used is measured"):
        parse_criterion("time_used == 3")


# -- combination rules -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("example")
def test_a_rule_combines() -> None:
    tally = Rule(networks=("a", "b"), name="product").tally(samples=1, classes=3)
    tally.add("a", 0, np.array([[4, 3, -6]]))
    tally.add("b", 0, np.array([[0, 2, 1]]))
    assert tally.labels.tolist() == [1]


def test_a_fleet_file_without_the_package_is_refused(here: Path) -> None:
    (fleet,) = [block for block in PAGE.blocks if block.file == FLEET]
    (here / FLEET).write_text(fleet.text)
    done = run("place", FLEET)
    assert done.exit_code == 2
    assert re.search(r"one of average, weighted, majority, or of a package .*, not 'product'", done.stderr)


# -- what every group refuses ----------------------------------------------------------------------------

USES: dict[str, tuple[str, type[Exception], Callable[[str], Any]]] = {
    "policies": ("policy", SchedulerError, make_policy),
    "quantities": ("quantity", QuantityError, lambda name: parse_criterion(f"{name} > 3")),
    "combiners": ("rule", FleetError, lambda name: Rule(networks=("a",), name=name)),
    "devices": ("device", DriverUsageError, lambda name: open_device(name, None).__enter__()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("group", USES)
def test_a_broken_package_is_one_sentence_with_its_name_and_group(group: str, packages: Packages) -> None:
    noun, error, use = USES[group]
    text = "import sys\nnumber = 7\n"
    packages("whole", group, text, number="whole:number", absent="whole:absent", missing="no_such_module:thing")
    packages("stops", group, "import sys\nsys.exit('no licence')\n", stops="stops:thing")
    packages("panics", group, "raise BaseException('a panic')\n", panics="panics:thing")  # as those of Rust are
    packages("odd", group, "", odd="not a module")
    packages("third", group, "", twice="third:thing")
    packages("other", group, "", twice="third:thing")
    said = rf"the {noun} '%s' of package '%s' \(fluidnpu\.{group}\) must "
    expected = {
        "number": said % ("number", "whole") + ".*, and 'whole:number' is none",
        "absent": said % ("absent", "whole") + "load from 'whole:absent', and that failed: AttributeError",
        "missing": said % ("missing", "whole") + "load from 'no_such_module:thing', and that failed: ModuleNotFoundErr",
        "stops": said % ("stops", "stops") + "load from 'stops:thing', and that failed: SystemExit: no licence",
        "panics": said % ("panics", "panics") + "load from 'panics:thing', and that failed: BaseException: a panic",
        "odd": said % ("odd", "odd") + "load from MODULE:OBJECT, not from 'not a module'",
        "twice": rf"the {noun} 'twice' must come from one package, and 'other' and 'third' bring it",
    }
    for name, message in expected.items():
        with pytest.raises(error, match=message) as caught:
            use(name)
        assert "\n" not in str(caught.value)
    found = {one.name: problem for one, problem in installed_extensions() if one.group == f"fluidnpu.{group}"}
    assert {name: bool(re.search(expected[name], found[name])) for name in expected} == dict.fromkeys(expected, True)


def test_a_package_that_prints_leaves_json_whole(packages: Packages) -> None:
    packages("noisy", "policies", "print('hello from the community')\n", noisy="noisy:thing")
    ran = CliRunner().invoke(main, ["doctor", "--json"])
    assert [extension["name"] for extension in json.loads(ran.stdout)["extensions"]] == ["noisy"]
    assert "hello from the community" in ran.stderr


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("policies", "greedy"),
        ("quantities", "slack"),
        ("quantities", "flops_used"),
        ("quantities", "and"),
        ("combiners", "majority"),
        ("devices", "simulated"),
        ("operators", "qonnx.Quant"),
    ],
)
def test_no_package_replaces_a_shipped_name(group: str, name: str, packages: Packages) -> None:
    packages("thief", group, "raise RuntimeError('loaded')\n", **{name: "thief:thing"})
    (problem,) = [problem for one, problem in installed_extensions() if one.package == "thief"]
    assert problem.endswith(f"'{name}' is fluidnpu's own, and no package can replace it")
    (named,) = [known for known in extension_groups() if known.group == f"fluidnpu.{group}"]
    assert name not in named.names
    assert named.find(name) is None


@pytest.mark.parametrize(
    ("group", "name", "text"),
    [
        ("operators", "Conv", "def thing(node): pass\n"),
        ("operators", "ai.onnx.Conv", "def thing(node): pass\n"),
        ("policies", "a:b", "from fluidnpu.scheduler.policies import Entry\nthing = Entry(dict, 'x')\n"),
        (
            "quantities",
            "two words",
            "from fluidnpu.scheduler.exits import Quantity\nthing = Quantity('x', '', {}, 'x')\n",
        ),
    ],
)
def test_names_that_could_not_be_used_are_reported(group: str, name: str, text: str, packages: Packages) -> None:
    packages("named", group, text, **{name: "named:thing"})
    (problem,) = [problem for one, problem in installed_extensions() if one.package == "named"]
    assert re.search(rf"'{re.escape(name)}' of package 'named' .* must be .*, and 'named:thing' is none", problem)
