"""The front door offers what it promises, and opening it costs nothing."""

import subprocess
import sys

import pytest

import fluidnpu

HEAVY = {"numpy", "onnx", "matplotlib", "numba", "torch", "rich", "jinja2"}


@pytest.mark.parametrize("name", dir(fluidnpu))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fluidnpu, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = getattr(fluidnpu, "nothing_such")  # noqa: B009  -- a type checker refuses the attribute


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after running this."""
    show = "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_door_loads_nothing() -> None:
    assert not HEAVY & loaded_by("import fluidnpu, fluidnpu.cli")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["build", "--help"], ["simulate", "--help"]])
def test_help_and_version_load_nothing_heavy(words: list[str]) -> None:
    assert not HEAVY & loaded_by(f"from fluidnpu.cli import main; main({words}, standalone_mode=False)")
