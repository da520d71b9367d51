"""Bugs that once survived, or might: each fits its source, and is found by what must find it."""

import pytest

from fluidnpu.rtl_tb.proving import bugs
from fluidnpu.rtl_tb.proving.bugs import BUGS, Bug
from fluidnpu.rtl_tb.proving.catalogue import PROOFS
from fluidnpu.rtl_tb.simulation.units import UNITS, WHOLE


def of_bug(bug: Bug) -> object:
    """CI puts in those that were not found by the default tests; the others repeat seeds of proofs."""
    return pytest.param(bug, id=bug.name, marks=pytest.mark.matrix if bug.was == "default" else pytest.mark.long)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_its_source(bug: Bug) -> None:
    assert bug.text
    kind, _, name = bug.by.partition(" ")
    assert kind in ("proof", "bench", "npu", "core", "extremes")
    assert kind != "npu" or name in ("", "least", "bytes")
    assert kind != "core" or name in ("", "bytes")
    assert kind != "proof" or bug.file in PROOFS[name].reads
    assert kind != "bench" or name.removesuffix(" bytes") in {**UNITS, **WHOLE}


@pytest.mark.parametrize("bug", [of_bug(bug) for bug in BUGS])
def test_a_bug_is_found(bug: Bug) -> None:
    assert bugs.found(bug)


def test_what_finds_nothing_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bugs, "found", lambda bug: "" if bug.by == "core" else "a difference")
    assert bugs.main([]) == 1
    out = capsys.readouterr().out
    cores = sum(bug.by == "core" for bug in BUGS)
    assert out.count("MISSED") == cores > 0
    assert out.endswith(f"{len(BUGS) - cores} of {len(BUGS)} bugs caught\n")


def test_a_word_that_names_no_bug_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        bugs.main(["no such bug"])
    assert end.value.code == 2
    assert "WORD must be in the name of a bug" in capsys.readouterr().err
