"""The proofs hold, can be reached, and fail on every seeded bug."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import PROOFS, ProofError, Seed, prove, sources
from fluidnpu.rtl_tb.proving.prover import cover
from fluidnpu.rtl_tb.proving.report import main

DAILY = ("engine", "read", "write", "sequencer", "slots", "unpack", "registers", "addresses", "steps")


def daily(name: str, but: tuple[str, ...] = ()) -> object:
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


@pytest.mark.parametrize("name", [daily(name) for name in PROOFS])
def test_proof_holds(name: str) -> None:
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize("name", [daily(name, but=("sequencer",)) for name in PROOFS])
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


@pytest.mark.parametrize("name", [daily(name) for name in PROOFS])
def test_a_seeded_bug_is_found(name: str) -> None:
    assert prove(PROOFS[name], first(name)) == "FAIL"


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "seed"), OTHERS)
def test_other_seeded_bugs_are_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == seed.verdict


def test_a_prover_that_takes_too_long_is_ended_with_its_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUIDNPU_BUILD", str(tmp_path))
    with pytest.raises(ProofError, match="no verdict within 4 s"):
        prove(PROOFS["kept"], timeout_s=4)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            assert tmp_path not in (process / "cwd").readlink().parents, process.name


def test_report_refuses_a_name_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["report", "NOPE"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "NOPE" in capsys.readouterr().err
