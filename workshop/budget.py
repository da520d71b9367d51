"""A pytest plugin: CPU seconds of every test, and a budget that a default test may not exceed.

The seconds are those of the process and of its ended children, over set-up, call and teardown. They do not
depend on what else the machine does. A fixture counts for the test that first needs it.

    pytest --cpu-seconds=FILE    one JSON row a test: its name and its seconds
    pytest --cpu-budget          a default test fails above twice its budget, as in `make test`

`@pytest.mark.cpu(SECONDS, REASON)` gives a test a budget of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

BUDGET_S = 5.0
TOLERANCE = 2.0  # a shared core can take twice the CPU seconds of one that is alone
SHOWN = 8  # rows of the summary
SECONDS = "cpu_s"


def cpu_seconds() -> float:
    """Give the CPU time of this process and of its ended children, in s."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def excess(item: pytest.Item, seconds: float) -> str:
    """Say by how much a default test is over its budget; nothing where it is within twice that."""
    mark = item.get_closest_marker("cpu")
    budget = float(mark.args[0]) if mark else BUDGET_S
    if item.get_closest_marker("long") or seconds <= TOLERANCE * budget:
        return ""
    return (
        f"a default test must take at most {budget:g} CPU seconds, not {seconds:.1f}: make it smaller, share a build "
        "(workshop/builds.py), or mark it `long` and leave a small one behind"
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("cpu", "CPU seconds of tests")
    group.addoption(
        "--cpu-seconds", metavar="FILE", type=Path, help="write the CPU seconds of every test, as JSON lines"
    )
    group.addoption("--cpu-budget", action="store_true", help="fail default tests above twice their CPU budget")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the file anew, in the process that leads."""
    file: Path | None = config.getoption("--cpu-seconds")
    if file is not None and not hasattr(config, "workerinput"):
        file.write_text("", encoding="utf-8")
    config.pluginmanager.register(Seconds(file, hasattr(config, "workerinput")), "fluidnpu-cpu-seconds")


class Seconds:
    """What the tests of a run took."""

    def __init__(self, file: Path | None, works: bool) -> None:
        self.file = None if works else file
        self.rows: list[tuple[str, float]] = []
        self.began = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, bool | None, bool | None]:
        """Look at the clock before a test."""
        self.began = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the seconds into the last report of a test, and fail it above twice its budget."""
        report = yield
        if call.when == "teardown":
            seconds = cpu_seconds() - self.began
            report.user_properties.append((SECONDS, round(seconds, 3)))
            reason = excess(item, seconds) if item.config.getoption("--cpu-budget") else ""
            if reason and report.passed:
                report.outcome, report.longrepr = "failed", f"{item.nodeid}: {reason}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the seconds, in the process that leads."""
        for key, value in report.user_properties:
            if key == SECONDS and report.when == "teardown":
                assert isinstance(value, float)
                self.rows.append((report.nodeid, value))
                if self.file is not None:
                    with self.file.open("a", encoding="utf-8") as out:
                        out.write(json.dumps([report.nodeid, value]) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sum and the most costly tests."""
        if len(self.rows) > SHOWN:
            total = sum(seconds for _, seconds in self.rows)
            terminalreporter.section(f"{total:.0f} CPU seconds in {len(self.rows)} tests; the most costly")
            for name, seconds in sorted(self.rows, key=lambda row: -row[1])[:SHOWN]:
                terminalreporter.line(f"{seconds:7.1f} s  {name}")
