import pytest

from rtl_tb import PROOFS, Seed, prove

DAILY = ("engine", "read", "write", "sequencer", "unpack", "registers")


def daily(name: str) -> object:
    return name if name in DAILY else pytest.param(name, marks=pytest.mark.long)


FIRST = [(name, PROOFS[name].seeds[0]) for name in DAILY]
OTHERS = [(name, seed) for name, proof in PROOFS.items() for seed in proof.seeds[name in DAILY :]]


def must_be_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) in (("FAIL", "UNKNOWN") if seed.any_state else ("FAIL",))


@pytest.mark.parametrize("name", [daily(name) for name in PROOFS])
def test_proof_holds(name: str) -> None:
    assert PROOFS[name].seeds, "a proof must be able to fail"
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize(("name", "seed"), FIRST, ids=[f"{name}-{seed.name}" for name, seed in FIRST])
def test_seeded_bug_is_found(name: str, seed: Seed) -> None:
    must_be_found(name, seed)


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), OTHERS, ids=[f"{name}-{seed.name}" for name, seed in OTHERS])
def test_other_seeded_bugs_are_found(name: str, seed: Seed) -> None:
    must_be_found(name, seed)
