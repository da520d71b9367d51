"""The front door offers what it promises, and opening it costs nothing."""

import subprocess
import sys

import pytest

import fluidnpu


@pytest.mark.parametrize("name", fluidnpu.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fluidnpu, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = fluidnpu.nothing_such


def test_help_loads_no_room() -> None:
    code = (
        "import sys, fluidnpu.cli; sys.exit(bool({'numpy', 'models', 'dse', 'onnx', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
