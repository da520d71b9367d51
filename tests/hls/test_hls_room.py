"""The room as a whole: the modules that its import loads on a board, and its tree of errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fluidnpu.hls import errors


def test_a_board_needs_numpy_alone() -> None:
    """Names that a board uses must not load packages that only a workstation has."""
    code = (
        "import sys; from fluidnpu.hls import REGISTERS, Program; from fluidnpu.hls.project import PLATFORMS\n"
        "from fluidnpu.hls.program import Descriptor, buffer_bytes, decode_fbcb, unpack_weights\n"
        "print(sorted({'jinja2', 'onnx', 'hls4ml', 'torch', 'pynq', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_error_is_drawn_once_and_says_whose_fault_it_is() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in classes if kind is not errors.HlsError]
    assert all(issubclass(kind, errors.HlsError) for kind in classes)
    assert all(issubclass(kind, ValueError) != issubclass(kind, RuntimeError) for kind in own)
    assert errors.__doc__ is not None
    drawn = re.findall(r"── (\w+) \((\w+)\)", errors.__doc__)
    assert sorted(drawn) == sorted((kind.__name__, kind.__mro__[2].__name__) for kind in own)


def test_no_other_file_of_the_room_defines_an_error() -> None:
    room = Path(errors.__file__).resolve().parent
    others = [path for path in room.rglob("*.py") if path.name != "errors.py"]
    assert not [path for path in others if re.search(r"^class \w*Error\(", path.read_text(), re.MULTILINE)]
