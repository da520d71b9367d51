"""A pytest plugin: CPU seconds of every test, and which default tests are above their budget.

It fails nothing, since a slow machine is no fault of a test. With `FLUIDNPU_STRICT_BUDGET=1` a test above its
budget fails. Either way the budget is in units of a reference, fixed work that the same process does.
`@pytest.mark.cpu(SECONDS, REASON)` gives a test a budget of its own; `--junitxml` files the seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator

import numpy as np
import pytest

BUDGET_S, USUAL_S = 5.0, 0.05  # of a test, where the reference takes so long
TOLERANCE = 2.0  # a shared core can take twice the CPU seconds of one that is alone
SHOWN = 8  # rows of the summary


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children, in s."""
    return sum(os.times()[:4])


def reference() -> float:
    """Return the CPU seconds of fixed work in the interpreter and in NumPy, as a median of five."""
    moments = [time.process_time()]
    for _ in range(5):
        sum(int(text) % 7 for text in map(str, range(180_000)))
        np.sort(np.random.default_rng(0).standard_normal(150_000)).cumsum()
        moments.append(time.process_time())
    return float(np.median(np.diff(moments)))


class Seconds:
    """What the tests of a run took: name, seconds and the most that they may take."""

    def __init__(self) -> None:
        self.began, self.slowest_s, self.rows = 0.0, 0.0, list[tuple[str, float, float]]()

    def most(self, item: pytest.Item, seconds: float) -> float:
        mark = item.get_closest_marker("cpu")
        usual = TOLERANCE * (float(mark.args[0]) if mark else BUDGET_S)
        if item.get_closest_marker("long") or seconds < usual / 4:
            return float("inf")
        self.slowest_s = max(self.slowest_s, reference())
        return usual * self.slowest_s / USUAL_S

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, bool | None, bool | None]:
        self.began = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            seconds = round(cpu_seconds() - self.began, 3)
            most = self.most(item, seconds)
            report.user_properties.append(("cpu_s", (seconds, most)))
            if seconds > most and report.passed and os.environ.get("FLUIDNPU_STRICT_BUDGET") == "1":
                report.outcome = "failed"
                report.longrepr = f"{item.nodeid} must take at most {most:.1f} CPU seconds, not {seconds:.1f}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.rows += [(report.nodeid, *value) for key, value in report.user_properties if key == "cpu_s"]  # type: ignore[misc]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        rows = sorted(self.rows, key=lambda row: (row[1] <= row[2], -row[1]))
        over = sum(row[1] > row[2] for row in rows)
        if over or len(rows) > SHOWN:
            title = f"{sum(row[1] for row in rows):.0f} CPU seconds in {len(rows)} tests"
            terminalreporter.section(f"{title}; {over} above their budget, and the most costly")
            for name, seconds, most in rows[: max(over, SHOWN)]:
                note = f" (above its budget of {most:.1f} s)" if seconds > most else ""
                terminalreporter.line(f"{seconds:7.1f} s  {name}{note}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Seconds(), "fluidnpu-cpu-seconds")
