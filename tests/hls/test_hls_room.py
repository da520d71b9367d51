"""The room as a whole: the modules that its import loads on a board, and its errors."""

from __future__ import annotations

import subprocess
import sys

from fluidnpu.hls import errors


def test_a_board_needs_numpy_alone() -> None:
    """Names that a board uses must not load packages that only a workstation has."""
    code = (
        "import sys; from fluidnpu.hls import REGISTERS, Program; from fluidnpu.hls.project import PLATFORMS\n"
        "from fluidnpu.hls.program import Descriptor, buffer_bytes, decode_fbcb, unpack_weights\n"
        "print(sorted({'jinja2', 'onnx', 'hls4ml', 'torch', 'pynq', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_error_says_whose_fault_it_is() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in classes if kind is not errors.HlsError]
    assert all(issubclass(kind, errors.HlsError) for kind in classes)
    assert all(issubclass(kind, ValueError) != issubclass(kind, RuntimeError) for kind in own)
