"""What cocotb asks of a machine: an interpreter in a shared library, which Debian packs apart from Python."""

import find_libpython
import pytest

needs_libpython = pytest.mark.skipif(
    find_libpython.find_libpython() is None, reason="cocotb needs Python as a shared library: on Debian libpython3.11"
)
