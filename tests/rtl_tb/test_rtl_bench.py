"""One bench by hand: the bench is told the parameters, and wrong arguments are refused in one sentence."""

import sys

import pytest

from fluidnpu.rtl_tb.simulation.bench import main
from fluidnpu.rtl_tb.simulation.setups import parameters_of
from fluidnpu.rtl_tb.simulation.units import UNITS


def by_hand(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    main()


def test_a_queue_of_another_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    by_hand(monkeypatch, "common_fifo", "Width=4", "Depth=3")
    assert capsys.readouterr().out == "it_is_a_queue\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "required: TOP"),
        (("fluidnpu_nothing",), "TOP must be one of"),
        (("common_fifo", "Dept=3"), "must be NAME=NUMBER with NAME of Width, Depth, not Dept=3"),
        (("common_fifo", "Depth"), "must be NAME=NUMBER with NAME of Width, Depth, not Depth"),
    ],
)
def test_what_cannot_be_run_is_refused(
    arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        by_hand(monkeypatch, *arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("top", UNITS)
def test_the_parameters_are_the_modules(top: str) -> None:
    assert set(UNITS[top]) <= set(parameters_of(top))
