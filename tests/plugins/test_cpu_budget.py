"""Budgets are printed; they fail a test only where that is asked for, in units of the machine's own speed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import cpu_budget, pytest
spent = [0.0]
cpu_budget.cpu_seconds = lambda: spent[0]
cpu_budget.reference = lambda: 3 * cpu_budget.USUAL_S

@pytest.mark.parametrize("seconds", [29, 31])
def test_plain(seconds): spent[0] += seconds
@pytest.mark.cpu(20, "one build for all")
def test_with_a_budget(): spent[0] += 119
@pytest.mark.long
def test_long(): spent[0] += 1000
"""


@pytest.mark.parametrize(("strict", "failed"), [("1", 1), ("0", 0)])
def test_a_machine_three_times_slower_has_three_times_the_budget(tmp_path: Path, strict: str, failed: int) -> None:
    (tmp_path / "test_costs.py").write_text(TESTS)
    env = {**os.environ, "FLUIDNPU_STRICT_BUDGET": strict, "PYTHONPATH": str(Path(__file__).parent)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "cpu_budget", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == bool(failed), done.stdout
    assert "31.0 s  test_costs.py::test_plain[31] (above its budget of 30.0 s)" in done.stdout
    assert done.stdout.count("above its budget") == 1
    assert ("must take at most 30.0 CPU seconds, not 31.0" in done.stdout) == bool(failed)
