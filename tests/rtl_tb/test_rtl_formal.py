import pytest

from rtl_tb import PROOFS, Seed, prove
from rtl_tb.formal import cover

DAILY = ("engine", "read", "write", "sequencer", "slots", "unpack", "registers")
COVERED = ("engine", "engine-plain", "read", "write", "sequencer", "slots")


def daily(name: str) -> object:
    return name if name in DAILY else pytest.param(name, marks=pytest.mark.long)


FIRST = [(name, PROOFS[name].seeds[0]) for name in DAILY]
OTHERS = [(name, seed) for name, proof in PROOFS.items() for seed in proof.seeds[name in DAILY :]]


@pytest.mark.parametrize("name", [daily(name) for name in PROOFS])
def test_proof_holds(name: str) -> None:
    assert prove(PROOFS[name]) == "PASS"


@pytest.mark.parametrize("name", [daily(name) for name in COVERED])
def test_proof_is_about_something(name: str) -> None:
    assert cover(PROOFS[name]) == "PASS"


@pytest.mark.parametrize(("name", "seed"), FIRST, ids=[f"{name}-{seed.name}" for name, seed in FIRST])
def test_seeded_bug_is_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == seed.verdict


@pytest.mark.long
@pytest.mark.parametrize(("name", "seed"), OTHERS, ids=[f"{name}-{seed.name}" for name, seed in OTHERS])
def test_other_seeded_bugs_are_found(name: str, seed: Seed) -> None:
    assert prove(PROOFS[name], seed) == seed.verdict
