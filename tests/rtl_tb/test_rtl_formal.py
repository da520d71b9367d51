import pytest

from rtl_tb import PROOFS, Seed, prove

SEEDS = [(name, seed) for name, proof in PROOFS.items() for seed in proof.seeds]


@pytest.mark.parametrize("name", PROOFS)
def test_proof_holds(name: str) -> None:
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize(("name", "seed"), SEEDS, ids=[f"{name}-{seed.name}" for name, seed in SEEDS])
def test_seeded_bug_is_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == "FAIL"
