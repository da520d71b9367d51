import pytest

from rtl_tb import PROOFS, Seed, prove

FIRST = [(name, proof.seeds[0]) for name, proof in PROOFS.items()]
OTHERS = [(name, seed) for name, proof in PROOFS.items() for seed in proof.seeds[1:]]


@pytest.mark.parametrize("name", PROOFS)
def test_proof_holds(name: str) -> None:
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize(("name", "seed"), FIRST, ids=[f"{name}-{seed.name}" for name, seed in FIRST])
def test_seeded_bug_is_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == "FAIL"


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), OTHERS, ids=[f"{name}-{seed.name}" for name, seed in OTHERS])
def test_other_seeded_bugs_are_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == "FAIL"
