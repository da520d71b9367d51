"""The clock that designs are counted at: the smaller of the board's and the predicted one, once for all."""

from __future__ import annotations

from typing import Any

import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse.hardware import clock
from fluidnpu.dse.hardware.clock import at_predicted_clock, predicted_clock, told_clock
from fluidnpu.dse.question import Question
from fluidnpu.models.zoo import full_size

BOARD = load_board("zc706")


def predict(monkeypatch: pytest.MonkeyPatch, **mhz: float) -> None:
    rows: dict[str, Any] = {
        name: {"board": "zc706", "part": BOARD.part, "module": f"module_of_{name}", "mhz": value, "low_mhz": value / 2, "high_mhz": 2 * value}
        for name, value in mhz.items()
    }  # fmt: skip
    monkeypatch.setattr(clock, "clocks", lambda: {"designs": rows})


def test_without_a_prediction_it_is_the_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    predict(monkeypatch)
    assert predicted_clock(BOARD) is None
    assert at_predicted_clock(BOARD) is BOARD
    assert told_clock(BOARD) == "150 MHz (the board file's clock, not yet timed)"


def test_the_slowest_design_counts_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    predict(monkeypatch, one=140.0, other=90.5)
    assert at_predicted_clock(BOARD).clock_hz == 90_500_000
    assert at_predicted_clock(load_board("zcu104")) == load_board("zcu104")
    assert told_clock(BOARD) == "150 MHz (the board file's clock; 90 predicted, 45 to 181)"
    assert told_clock(at_predicted_clock(BOARD)) == "90.5 MHz (predicted, 45 to 181)"
    predict(monkeypatch, one=151.0)
    assert at_predicted_clock(BOARD) is BOARD


def test_the_exact_search_counts_at_it_and_its_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """At half the clock memory delivers twice the words a cycle. The paper's model stays at its own clock."""
    work = full_size("resnet50").workload
    before = Question(workload=work, board=BOARD, model="exact", core="rtl")
    predict(monkeypatch, one=BOARD.clock_hz / 2e6)
    after = Question(workload=work, board=BOARD, model="exact", core="rtl")
    assert (before.board.clock_hz, after.board.clock_hz) == (BOARD.clock_hz, BOARD.clock_hz // 2)
    assert after.dram.total_words == pytest.approx(2 * before.dram.total_words)
    assert Question(workload=work, board=BOARD, model="paper", core="rtl").board is BOARD
