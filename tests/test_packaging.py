"""The wheel holds all that is read at run time; checkout and wheel work beside a user's own folders."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import docs_pages
import pytest
from docs_pages import Block, Session, read_page
from docs_setups import Setups
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
DATA = {
    "boards": ("*.toml",),
    "models": ("data/*",),
    "dse": ("resources/*.json",),
    "hls": ("templates/*/*", "csim/*"),
    "rtl_tb": ("*/rtl/*.sv", "*/proofs/*", "**/*.sv", "**/*.h", "**/*.cpp", "README.md"),
    "scheduler": ("policies/tuned/*.json",),
    "host": (
        *(f"oip/**/*.{kind}" for kind in ("proto", "protoset", "html", "css", "js")),
        "fleet/**/*.html",
        "kit/*",
        "notebooks/*.ipynb",
    ),
    "studies": ("*/templates/*", "*/data/*"),
    "fluidnpu": ("py.typed", "reports/templates/*"),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout's files, as in an archive of a forge."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    copy = tmp_path_factory.mktemp("tree")
    for name in tracked.stdout.splitlines():
        assert not (ROOT / name).is_symlink(), f"{name} must be no symbolic link: archives of a forge have none"
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


def built_wheel(source: Path, out: Path) -> Path:
    """Build the wheel of a folder or of an sdist."""
    pip("wheel", "--no-build-isolation", "-w", str(out), str(source))
    (wheel,) = out.glob("fluidnpu-*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel_file(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built wheel."""
    return built_wheel(tree, tmp_path_factory.mktemp("wheel"))


def test_pinned_versions_install_on_debian_12() -> None:
    """Debian 12's Python is 3.11.2; a version that asks for a newer patch stops both of README's commands."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    asks = {d.metadata["Name"].lower(): d.metadata["Requires-Python"] for d in distributions()}
    asks = {name: wanted for name, wanted in asks.items() if name in pinned and wanted}
    assert len(asks) > 100  # most of them are installed here
    assert {name: wanted for name, wanted in asks.items() if "3.11.2" not in SpecifierSet(wanted)} == {}


def pip(command: str, *words: str) -> None:
    """Run pip without a look at any index: what is needed is installed."""
    whole = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--no-index", *words]
    subprocess.run(whole, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> set[str]:
    """Names of the files in the wheel."""
    with zipfile.ZipFile(wheel_file) as archive:
        return set(archive.namelist())


def test_all_code_and_data_are_inside(wheel: set[str]) -> None:
    for room, patterns in DATA.items():
        assert [pattern for pattern in patterns if not any((ROOT / room).glob(pattern))] == []
        inside = Path() if room == "fluidnpu" else Path("fluidnpu")
        wanted = {path for pattern in ("**/*.py", "**/*.pyi", *patterns) for path in (ROOT / room).glob(pattern)}
        names = {str(inside / p.relative_to(ROOT)) for p in wanted if p.is_file() and "__pycache__" not in p.parts}
        assert names
        assert names <= wheel, f"missing in the wheel: {sorted(names - wheel)}"


def test_the_wheel_of_an_sdist_has_the_same_files(tree: Path, wheel: set[str], tmp_path: Path) -> None:
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("fluidnpu-*.tar.gz")
    with zipfile.ZipFile(built_wheel(sdist, tmp_path / "wheel")) as archive:
        assert set(archive.namelist()) == wheel


def test_a_build_that_lacks_a_room_is_rejected(tree: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    shutil.copytree(tree, part, ignore=shutil.ignore_patterns("dse", "docs", "tests", "build"))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        pip("wheel", "--no-build-isolation", "-w", str(tmp_path), str(part))
    assert b"must have all rooms, and dse is missing" in failed.value.stderr + failed.value.stdout
    assert not list(tmp_path.glob("*.whl"))


def test_tests_stay_outside(wheel: set[str]) -> None:
    assert not [name for name in wheel if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_the_wheel_has_one_top_level_name(wheel: set[str]) -> None:
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"fluidnpu"}


# -- beside a user's own `models/`, `boards/` and `host.py` --

SCRIPT = """
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import boards, host, models

import fluidnpu
from fluidnpu.models import shipped_file
from fluidnpu.rtl_tb import sources
from fluidnpu.scheduler import World
from fluidnpu.studies import Size, find_study


def main():
    assert (models.OWNER, boards.OWNER, host.OWNER) == ("the user", "the user", "the user")
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = fluidnpu.read_onnx(path)
    board = fluidnpu.load_board("boards/mine.toml")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        exploration = pool.submit(fluidnpu.explore, network.workload, board, b_max=1, model="paper").result()
    design, serving = exploration.design, fluidnpu.Serving.of(exploration.design)
    program = fluidnpu.compile_program(fluidnpu.quantise(network), design)
    files = fluidnpu.render_project(design, program, board, core="rtl", rtl=sources())
    requests = fluidnpu.poisson(100, 20, slo_ns=10**8, rng=__import__("numpy").random.default_rng(0))
    world = World(latency=serving.latency, exits=[0] * 20, exit_rates=serving.exit_rates)
    schedule = fluidnpu.simulate(requests, fluidnpu.make_policy("credit", serving.setting(100, 10**8)), world)
    tasks = find_study("fluid-batching").tasks(Size())
    print(os.path.dirname(fluidnpu.__file__), design.digest, len(files), len(schedule.runs), len(tasks))


if __name__ == "__main__":
    main()
"""
NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_cell(open("use.py").read()).raise_error()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's project, with names that are rooms here."""
    for name in ("models", "boards"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'the user'\n")
    (tmp_path / "host.py").write_text("OWNER = 'the user'\n")
    shutil.copy(ROOT / "boards" / "zc706.toml", tmp_path / "boards" / "mine.toml")
    (tmp_path / "use.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture(scope="module", params=["checkout", "wheel"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds `fluidnpu`: in the checkout, or where the wheel was installed."""
    if request.param == "checkout":
        return ROOT
    target = tmp_path_factory.mktemp("site-packages")
    pip("install", "--target", str(target), str(request.getfixturevalue("wheel_file")))
    return target


def used(folder: Path, installed: Path, *words: str) -> list[str]:
    """Words that the user's script prints, run in the user's folder with `fluidnpu` from there alone."""
    env = os.environ | {"PYTHONPATH": str(installed), "IPYTHONDIR": str(folder / ".ipython")}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.cpu(10, "the first of them builds the wheel and installs it")
@pytest.mark.parametrize("way", ["script", "notebook"])
def test_the_api_works_beside_folders_named_as_rooms(way: str, folder: Path, installed: Path) -> None:
    """Also in a process pool whose workers start anew: functions and results are pickled by one name."""
    if way == "notebook" and find_spec("IPython") is None:
        pytest.skip("IPython comes with the extra 'board'")
    words = ("use.py",) if way == "script" else ("-c", NOTEBOOK)
    where, digest, files, runs, tasks = used(folder, installed, *words)
    assert where == str(installed / "fluidnpu")
    assert len(digest) == 64
    assert min(int(files), int(runs), int(tasks)) >= 20


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "mlp"])
def test_own_torch_networks_from_an_installed_wheel(
    name: str, wheel_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the way by the Python API: heads trained, search, C simulation, project, answers of a server."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "fluidnpu"))
    own = importlib.import_module("own_networks")
    target = tmp_path / "site-packages"
    pip("install", "--target", str(target), str(wheel_file))
    folder = own.owners_folder(tmp_path)
    found = own.by_api(folder, name, "torchscript", "zc706", 1 if name == "mlp" else 2, csim=True, installed=target)
    assert found["answers"] == 8
    assert Path(found["from"]).is_relative_to(target)


# -- the tutorials as a stranger runs them --


class InstalledSession(Session):
    """Runs a page's blocks by the commands and the Python of an environment, none of them in this process."""

    python_so_far = ""

    def python(self, block: Block) -> None:
        """Run a block behind those before it, whose names it may use."""
        self.python_so_far += block.text
        code, printed = self.command(f"python -c {shlex.quote(self.python_so_far)}")
        assert code == 0, f"{block.where}: {printed}"

    def command(self, line: str) -> tuple[int, str]:
        """Exit code and output of a line, run by a shell."""
        words = ["bash", "-c", f"set -o pipefail; {line}"]
        done = subprocess.run(
            words, cwd=self.folder, env=dict(docs_pages.environment()), capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment_with(wheel_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a fresh environment of the wheel with extras, once each; skips without a package index."""

    @cache
    def make(extras: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        python = [str(folder / "bin" / "python"), "-m", "pip", "-qqq"]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        reached = subprocess.run([*python, "download", "--no-deps", "--dest", folder / "some", "lazy-loader"])
        if reached.returncode:
            pytest.skip("pip reaches no package index")
        subprocess.run([*python, "install", f"{wheel_file}[{extras}]"], check=True)
        return folder

    return make


def installed_environment(folder: Path) -> dict[str, str]:
    """Variables with which commands of an environment are found, and no other fluidnpu."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "COLUMNS": docs_pages.COLUMNS}


@pytest.mark.long
@pytest.mark.parametrize("name", ["first", "pytorch", "yolov8"])
def test_a_tutorial_runs_with_the_extras_that_it_names(
    name: str, environment_with: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of this checkout is used; what is printed is compared where the pages themselves are tested."""
    page = read_page(ROOT / "docs" / "tutorial" / f"{name}.md")
    for setup in page.setups:
        Setups(tmp_path / "setups").begin(setup, tmp_path)
    (extras,) = set(re.findall(r'install "fluidnpu\[([a-z,]+)\]"', page.path.read_text(encoding="utf-8")))
    variables = installed_environment(environment_with(extras))
    monkeypatch.setattr(docs_pages, "environment", lambda: variables)
    session = InstalledSession(tmp_path, printed=[])
    try:
        for block in page.blocks:
            if block.kind != "exempt":
                session.run(block)
    finally:
        session.stop()
    assert session.ran > 5


@pytest.mark.long
@pytest.mark.parametrize("name", ["exits", "exploration", "serving", "tutorial"])
def test_a_notebook_runs_with_the_extra_for_tutorials(
    name: str, environment_with: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copy(ROOT / "docs" / "notebooks" / f"{name}.ipynb", tmp_path)
    variables = installed_environment(environment_with("tutorial"))
    words = ["python", "-m", "jupyter", "execute", "--kernel_name=python3", f"{name}.ipynb"]
    done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
