"""Matrices scored on simulated devices: the time of the set is what jobs took, and no share carries more."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import world
from oip_worlds import bundle_of

from fluidnpu.host import Bundle, DriverUsageError
from fluidnpu.host.fleet.scoring import MOST_RUNS, Bench
from fluidnpu.scheduler import placement

TOML = """
schema = 1
name = "two networks together"
[networks.one]
exit_rates = [0.5, 0.5]
[networks.two]
exit_rates = [0.25, 0.75]
weight = 2.0
[links.loopback]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
networks.one.bundle = "one"
networks.two.bundle = "two"
[[devices]]
type = "board"
count = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet")
    for name, more in (("one", {}), ("two", {"t_c": 4})):
        bundle_of(world(3, loaded=False, millis=True, **more), path / name)
    return path


def bench(folder: Path, samples: int = 12, old: str = "", new: str = "") -> Bench:
    assert old in TOML
    (folder / "fleet.toml").write_text(TOML.replace(old, new) if old else TOML)
    fleet = placement.read_fleet(folder / "fleet.toml", bundle=lambda place: Bundle.read(place).profile)
    return Bench(fleet=fleet, folder=folder, samples=samples)


def test_the_set_takes_what_its_jobs_take_by_the_latency_table(folder: Path) -> None:
    """One network a board: half leave at the first exit of `one`, a quarter of twice as many at `two`'s."""
    tables = {name: Bundle.read(folder / name).design.latency for name in ("one", "two")}
    matrix = np.array([[1, 0], [0, 1]])
    (score,) = bench(folder).scores([matrix])
    took = {
        name: count * tables[name].ns[0][0] + stay * tables[name].ns[1][0]
        for name, count, stay in (("one", 12, 6), ("two", 24, 18))
    }
    assert score.measured_per_s == pytest.approx(12e9 / max(took.values()), rel=1e-9)
    assert score.planned_per_s == pytest.approx(score.measured_per_s), "nothing waits for another network here"


def test_turns_conserve_work_and_no_matrix_beats_its_best_shares(folder: Path) -> None:
    ready = bench(folder)
    steps: list[tuple[int, int]] = []
    candidates = ready.candidates(np.array([[2, 2], [0, 2]]), 6)
    assert candidates[0].tolist() == [[2, 2], [0, 2]]
    assert len({matrix.tobytes() for matrix in candidates}) == len(candidates) == 6
    scores = ready.scores(candidates, lambda done, of: steps.append((done, of)))
    for score in scores:
        assert 0 < score.measured_per_s <= score.planned_per_s * 1.1, "a set has whole batches, a share has none"
    assert steps[-1] == (6 * 36, 6 * 36)
    assert steps == sorted(steps)
    assert [score.measured_per_s for score in ready.scores(candidates[:2])] == [s.measured_per_s for s in scores[:2]]
    assert ready.named(scores[0].matrix) == {"board-0": {"one": 2, "two": 2}, "board-1": {"two": 2}}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count = 2", 'addresses = ["10.0.0.1:8001"]', "simulated devices, and 'board' has an address"),
        ("[types.board]", '[types.board]\nkind = "cpu"', "simulated NPUs, and type 'board' is a cpu"),
        ('networks.two.bundle = "two"', 'networks.two.design = "two/design.json"', "'two' of type 'board' is a design"),
    ],
)
def test_what_cannot_be_scored_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(DriverUsageError, match=said):
        bench(folder, 12, old, new)


def test_a_cost_beyond_the_bound_is_refused_before_work(folder: Path) -> None:
    ready, matrix = bench(folder, MOST_RUNS), np.array([[1, 0], [0, 1]])
    steps: list[Any] = []
    with pytest.raises(DriverUsageError, match=r"at most 200000 samples .* 1 matrices of 600000 are more"):
        ready.scores([matrix], lambda done, of: steps.append(done))
    assert not steps
