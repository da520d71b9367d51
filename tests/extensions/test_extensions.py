"""A package of one's own extends fluidnpu, both kinds by the command line; broken packages are refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from docs_pages import DOCS, Session, commands, read_page
from docs_setups import Setups

from fluidnpu.cli import main
from fluidnpu.commands.helpers.extensions import installed_extensions
from fluidnpu.dse import LatencyTable
from fluidnpu.host import Bundle, DriverUsageError, VirtualClock, WallClock, open_device
from fluidnpu.host.devices import DEVICE_EXTENSIONS
from fluidnpu.host.serving.model import Model
from fluidnpu.host.serving.options import ModelOptions
from fluidnpu.scheduler import Request, SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.policies import POLICY_EXTENSIONS

PAGE = read_page(DOCS / "how-to" / "extend.md")
ENTRY = "from fluidnpu.scheduler.policies import Entry\n"
Packages = Callable[..., None]
USES: dict[str, Callable[[str], Any]] = {
    "policies": make_policy,
    "devices": lambda name: open_device(name, None).__enter__(),  # type: ignore[arg-type]  # it does not come to the bundle
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the page, as pip installs it."""
    folder = tmp_path_factory.mktemp("extensions")
    for block in PAGE.blocks:
        if block.file:
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.text)
    words = "install --quiet --no-deps --no-index --no-build-isolation --disable-pip-version-check --target"
    subprocess.run([sys.executable, "-m", "pip", *words.split(), str(folder / "site"), str(folder)], check=True)
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
    """A folder with a project and a latency table, which is the current one."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folders.begin("project", scratch)
    table = {"latency_ns": [[30_000_000, 40_000_000], [20_000_000, 28_000_000]], "exit_rates": [0.4, 0.6]}
    (scratch / "table.json").write_text(json.dumps(table))
    monkeypatch.chdir(scratch)
    return scratch


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, list(words))


def problem_of(package: str) -> str:
    (problem,) = [problem for one, problem in installed_extensions() if one.package == package]
    return problem


# -- the page --------------------------------------------------------------------------------------------


@pytest.mark.cpu(15, "a design and a project, then the commands of the page")
@pytest.mark.usefixtures("example")
def test_the_commands_of_the_page_run(here: Path) -> None:
    session = Session(here)
    blocks = [block for block in PAGE.blocks if block.exempt and "runs the commands" in block.exempt]
    for block in blocks:
        session.console(block)
    ran = [words.split()[1] for block in blocks for words, _ in commands(block.text) if words.startswith("fluidnpu")]
    assert ran == ["doctor", "stream", "simulate"]
    lines = (here / "trace.txt").read_text().splitlines()
    assert re.fullmatch(r"(read|write) 0x[0-9a-f]{4} 0x[0-9a-f]{8}", lines[0])
    assert len(lines) > 20


@pytest.mark.usefixtures("example")
def test_doctor_lists_each_extension_with_its_package() -> None:
    listed = json.loads(run("doctor", "--json").stdout)["extensions"]
    package = {"package": "fluidnpu-example", "version": "1.0", "problem": None}
    device = {"group": "fluidnpu.devices", "name": "traced", "value": "fluidnpu_example.devices:open_traced"}
    policy = {"group": "fluidnpu.policies", "name": "newest-first", "value": "fluidnpu_example.policies:NEWEST_FIRST"}
    assert listed == [device | package, policy | package]


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


def test_what_goes_wrong_on_an_open_device_stays_what_it_is(here: Path, packages: Packages) -> None:
    text = "from fluidnpu.host import open_device\ndef make(bundle, folder, clock):\n    return open_device('cpu', bundle)\n"
    bundle = Bundle.read(here / "project" / "bundle")
    packages("cards", "devices", text, card="cards:make")
    with pytest.raises(DriverUsageError, match="must be given a bundle that was measured"):
        open_device("card", bundle).__enter__()
    packages("cards", "devices", text.replace("cpu", "simulated"), card="cards:make")
    with pytest.raises(KeyError, match="mine"), open_device("card", bundle) as device:
        raise KeyError("mine" if isinstance(device.clock, VirtualClock) else "another clock")


@pytest.mark.usefixtures("example")
def test_an_unknown_device_is_refused_with_those_there_are(tmp_path: Path) -> None:
    done = run("stream", str(tmp_path), "--rate", "10", "--slo", "1s", "--device", "cloud")
    assert done.exit_code == 2
    assert re.search(r"'cloud' is not one of 'simulated', .*'traced'", done.stderr)
    with pytest.raises(DriverUsageError, match="devmem, traced, not 'cloud'"):
        USES["devices"]("cloud")


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


# -- what both groups refuse -----------------------------------------------------------------------------


@pytest.mark.parametrize("group", USES)
def test_a_broken_package_is_one_sentence_with_its_name_and_group(group: str, packages: Packages) -> None:
    noun, error = ("policy", SchedulerError) if group == "policies" else ("device", DriverUsageError)
    packages("whole", group, "number = 7\n", number="whole:number", absent="whole:absent", missing="no_module:thing")
    packages("stops", group, "raise SystemExit('no licence')\n", stops="stops:thing")
    packages("panics", group, "raise BaseException('a panic')\n", panics="panics:thing")  # as those of Rust are
    packages("odd", group, "", odd="not a module")
    packages("third", group, "", twice="third:thing")
    packages("other", group, "", twice="third:thing")
    said = rf"the {noun} '%s' of package '%s' \(fluidnpu\.{group}\) must "
    expected = {
        "number": said % ("number", "whole") + ".*, and 'whole:number' is none",
        "absent": said % ("absent", "whole") + "load from 'whole:absent', and that failed: AttributeError",
        "missing": said % ("missing", "whole") + "load from 'no_module:thing', and that failed: ModuleNotFoundError",
        "stops": said % ("stops", "stops") + "load from 'stops:thing', and that failed: SystemExit: no licence",
        "panics": said % ("panics", "panics") + "load from 'panics:thing', and that failed: BaseException: a panic",
        "odd": said % ("odd", "odd") + "load from MODULE:OBJECT, not from 'not a module'",
        "twice": rf"the {noun} 'twice' must come from one package, and 'other' and 'third' bring it",
    }
    for name, message in expected.items():
        with pytest.raises(error, match=message) as caught:
            USES[group](name)
        assert "\n" not in str(caught.value)
    found = {one.name: problem for one, problem in installed_extensions() if one.group == f"fluidnpu.{group}"}
    assert {name: bool(re.search(expected[name], found[name])) for name in expected} == dict.fromkeys(expected, True)


@pytest.mark.parametrize(
    ("group", "code", "name", "message"),
    [
        ("policies", "Entry(lambda most: most, 'odd')", "odd", "must make a policy, and that failed: TypeError"),
        ("policies", "Entry(dict, 'odd', {'most': lambda *of: 1 / 0})", "odd:most=3", "must parse .* failed: ZeroDiv"),
        ("devices", "lambda *of: 7", "odd", "must open as a context manager, and that failed: TypeError"),
        ("devices", "lambda *of: 1 / 0", "odd", "must open as a context manager, and that failed: ZeroDivisionError"),
        ("devices", "lambda *of: nullcontext(7)", "odd", "must have read, write, .*, and lacks read, write, allocate"),
    ],
)
def test_an_extension_whose_code_fails_is_one_sentence(
    group: str, code: str, name: str, message: str, packages: Packages
) -> None:
    packages("wild", group, f"{ENTRY}from contextlib import nullcontext\nODD = {code}\n", odd="wild:ODD")
    with pytest.raises(ValueError, match=rf"'odd' of package 'wild' \(fluidnpu\.{group}\) {message}") as caught:
        USES[group](name)
    assert "\n" not in str(caught.value)


def test_a_package_that_prints_leaves_json_whole(packages: Packages) -> None:
    packages("noisy", "policies", "print('hello from the community')\n", noisy="noisy:thing")
    ran = CliRunner().invoke(main, ["doctor", "--json"])
    assert [extension["name"] for extension in json.loads(ran.stdout)["extensions"]] == ["noisy"]
    assert "hello from the community" in ran.stderr


@pytest.mark.parametrize(("group", "name"), [(POLICY_EXTENSIONS, "greedy"), (DEVICE_EXTENSIONS, "simulated")])
def test_no_package_replaces_a_shipped_name(group: Any, name: str, packages: Packages) -> None:
    packages("thief", group.group.removeprefix("fluidnpu."), "raise RuntimeError('loaded')\n", **{name: "thief:thing"})
    assert problem_of("thief").endswith(f"'{name}' is fluidnpu's own, and no package can replace it")
    assert name not in group.names
    assert group.find(name) is None


def test_a_policy_whose_name_could_not_be_written_is_reported(packages: Packages) -> None:
    packages("named", "policies", f"{ENTRY}thing = Entry(dict, 'x')\n", **{"a:b": "named:thing"})
    assert re.search(r"'a:b' of package 'named' .* must be .*, and 'named:thing' is none", problem_of("named"))
