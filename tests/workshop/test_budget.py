"""A default test that costs too much fails, whatever the wall clock says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import workshop.budget as budget

pytest_plugins = ["workshop.budget"]
spent = [0.0]
budget.cpu_seconds = lambda: spent[0]
"""
TESTS = """
import pytest
from conftest import spent

@pytest.mark.parametrize("seconds", [1, 9, 11])
def test_plain(seconds):
    spent[0] += seconds

@pytest.mark.cpu(20, "one build for all")
def test_with_a_budget():
    spent[0] += 39

@pytest.mark.long
def test_long():
    spent[0] += 1000
"""


@pytest.mark.parametrize(("options", "failed"), [(("--cpu-budget",), 1), ((), 0)])
def test_a_default_test_above_twice_its_budget_fails(tmp_path: Path, options: tuple[str, ...], failed: int) -> None:
    (tmp_path / "test_costs.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: x\n    cpu(seconds, reason): x\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "--cpu-seconds", "cpu.jsonl"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == bool(failed), done.stdout
    assert done.stdout.count("must take at most") == failed
    assert ("test_plain[11]: a default test must take at most 5 CPU seconds, not 11.0" in done.stdout) == bool(failed)
    rows = dict(json.loads(row) for row in (tmp_path / "cpu.jsonl").read_text().splitlines())
    assert sorted(rows.values()) == [1, 9, 11, 39, 1000]
