"""The command that prints coverage: bins with hits from a run, or from the last one that is stored."""

import json
from collections import Counter
from pathlib import Path

import pytest
from npu_worlds import DESIGN

from fluidnpu.rtl_tb import RtlError
from fluidnpu.rtl_tb.npu.campaign import Result
from fluidnpu.rtl_tb.npu.coverage import required
from fluidnpu.rtl_tb.proving import coverage
from fluidnpu.rtl_tb.proving.coverage import CoverageRecord

RECORD = CoverageRecord(
    suite="npu", array="<1, 2, 3>", made="by hand", wanted=("a", "b", "c"), hits={"a": 3, "c": 1, "more": 7}
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))


def test_the_last_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    RECORD.write()
    assert CoverageRecord.read("npu") == RECORD
    assert coverage.main(["npu"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "npu on <1, 2, 3>, by hand",
        "        3  a",
        "     OPEN  b",
        "        1  c",
        "also met, not demanded:",
        "        7  more",
        "functional coverage: 2 of 3 bins, 1 open",
    ]
    assert coverage.main(["npu", "--open"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["     OPEN  b", "functional coverage: 2 of 3 bins, 1 open"]
    assert coverage.main(["npu", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["hits"], told["open"]) == ({"a": 3, "c": 1, "more": 7}, ["b"])


def test_a_run_is_stored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "design.json").write_text(DESIGN.dumps())
    hits = Counter(dict.fromkeys(required(DESIGN), 2))
    monkeypatch.setattr(
        "fluidnpu.rtl_tb.npu.campaign.campaign", lambda *_, **__: Result(hits=hits, jobs=5, cycles=1000)
    )
    command = ["npu", "--run", "--seeds", "7,8", "--design", str(tmp_path / "design.json")]
    assert coverage.main(command) == 0
    shown = capsys.readouterr().out
    assert "npu on <24, 4, 8>, b_max 4, seeds 7, 8: 10 jobs, 2000 simulated cycles" in shown
    assert coverage.main(["npu"]) == 0
    assert capsys.readouterr().out == shown
    assert set(CoverageRecord.read("npu").hits.values()) == {4}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "SUITE must be data_plane or npu, not 'nothing'"),
        (["npu"], "a run of npu must be stored, and there is none: make one with --run"),
        (["npu", "--run", "--seeds", "1,x"], "--seeds must be whole numbers such as 11,12, not 1,x"),
        (["npu", "--run", "--seeds", ""], "--seeds must be whole numbers"),
        (["npu", "--run", "--design", "no_such_file"], "no_such_file could not be read"),
    ],
)
def test_what_cannot_be_shown_is_told(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        coverage.main(arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err.splitlines()[-1]


def test_a_stored_run_that_is_damaged_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    RECORD.write()
    CoverageRecord.path("npu").write_text('{"suite": "npu"}')
    with pytest.raises(SystemExit):
        coverage.main(["npu"])
    assert "must hold a run, and it does not" in capsys.readouterr().err


def test_a_run_with_an_error_counts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> Result:
        raise RtlError("memory must be the model's")

    monkeypatch.setattr("fluidnpu.rtl_tb.npu.campaign.campaign", fails)
    assert coverage.main(["npu", "--run"]) == 1
    assert capsys.readouterr().err == "FAIL  memory must be the model's\n"
    assert not CoverageRecord.path("npu").exists()
