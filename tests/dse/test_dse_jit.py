"""The cache of compiled loops follows every file of a package, also those that are only called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fluidnpu.dse.jit import Jit, has_numba

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="needs Numba")
CALLER = """
from fluidnpu.dse.jit import Jit
from toy.callee import add
jit = Jit("toy")

@jit.entry
def twice(x: int) -> int:
    return add(x) + add(x)
"""
CALLEE = """
from fluidnpu.dse.jit import Jit
jit = Jit("toy")

@jit
def add(x: int) -> int:
    return x + {}
"""


def run(folder: Path, between: str = "", **variables: str) -> tuple[int, list[str]]:
    """Call the toy's loop in a new process: what it returns, and the lines that are logged."""
    code = f"from toy.caller import twice\n{between}\nprint(twice(1))"
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", **variables}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return int(done.stdout), done.stderr.splitlines()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a loop in two files."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(1))
    return folder


def test_an_edit_of_a_called_file_is_seen(package: Path, tmp_path: Path) -> None:
    for added in (1, 10):
        (package / "callee.py").write_text(CALLEE.format(added))
        assert run(tmp_path) == (2 * (1 + added), [])
    if has_numba():
        caches = list((package / "__pycache__" / "numba").iterdir())
        assert len(caches) == 2, "each state of the sources has a cache of its own"


@NEEDS_NUMBA
def test_the_next_folder_that_can_be_written_holds_the_cache(package: Path, tmp_path: Path) -> None:
    """The path of a file is no folder, for root neither: so is an installation of another user."""
    (package / "__pycache__").touch()
    kept = str(tmp_path / "kept")
    assert run(tmp_path, XDG_CACHE_HOME=kept) == (4, [])
    assert len(list(Path(kept).rglob("*.nbi"))) == 2
    assert run(tmp_path, XDG_CACHE_HOME=kept, NUMBA_CACHE_DIR=str(package / "caller.py")) == (4, [])


@NEEDS_NUMBA
def test_without_any_cache_loops_are_compiled_and_one_warning_says_so(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").touch()
    value, logged = run(tmp_path, XDG_CACHE_HOME=str(package / "caller.py"), NUMBA_CACHE_DIR="/dev/null/none")
    assert value == 4
    (line,) = logged
    assert line.startswith("compiled loops cannot be kept, so each process compiles its own")
    assert line.endswith("can be written; NUMBA_CACHE_DIR names another")


@NEEDS_NUMBA
@pytest.mark.parametrize(
    "between",
    [
        "import pathlib, shutil; at = pathlib.Path('{}'); shutil.rmtree(at); at.touch()",
        "import pathlib\nfor path, torn in zip(pathlib.Path('{}').rglob('*.nbi'), (b'', b'no pickle'), strict=True):\n"
        "    path.write_bytes(torn)",
    ],
    ids=["folder gone", "torn files"],
)
def test_a_cache_that_fails_later_is_survived(between: str, package: Path, tmp_path: Path) -> None:
    assert run(tmp_path) == (4, [])
    value, logged = run(tmp_path, between.format(package / "__pycache__" / "numba"))
    assert value == 4
    assert logged
    assert all(line.startswith("a compiled loop cannot be kept or read again") for line in logged)


def test_a_package_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must name an installed package, not 'json\.decoder'"):
        Jit("json.decoder")
