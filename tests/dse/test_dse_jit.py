"""The cache of compiled loops follows every file of a package, also those that are only called."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fluidnpu.dse.jit import Jit, has_numba

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


def run(folder: Path) -> int:
    code = "from toy.caller import twice; print(twice(1))"
    env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_an_edit_of_a_called_file_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    for added in (1, 10):
        (package / "callee.py").write_text(CALLEE.format(added))
        assert run(tmp_path) == 2 * (1 + added)
    if has_numba():
        caches = list((package / "__pycache__" / "numba").iterdir())
        assert len(caches) == 2, "each state of the sources has a cache of its own"


def test_a_package_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must name an installed package, not 'json\.decoder'"):
        Jit("json.decoder")
