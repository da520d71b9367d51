"""Rules of one's own for ensembles, of the package in `combiners`: exact, order-free, refused in one line."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import EnsembleFacts, Rule

PACKAGES = Path(__file__).parent / "combiners"
PARTS = {"a": [[8, 0, 4]], "b": [[0, 12, 0]], "c": [[1, 0, 1]]}  # in quarters, eighths, ones


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGES)


def rule(name: str, weights: tuple[int, ...] = ()) -> Rule:
    return EnsembleFacts(name="all", networks=("a", "b", "c"), rule=name, weights=weights).of_bits((2, 3, 0))


def test_a_rule_of_ones_own_sees_parts_in_real_units_whatever_their_order() -> None:
    for order in permutations(PARTS):
        tally = rule("surest").tally(samples=1, classes=3)
        for network in order:
            tally.add(network, 0, np.array(PARTS[network]))
        assert tally.whole
        assert tally.scores.tolist() == [[0.0, 1.5, 0.0]], "b is ahead by 12/8, a by 4/4, c by nothing"
        assert tally.labels.tolist() == [1]
        assert tally.total.tolist() == [[2 * 8 + 8, 12, 2 * 4 + 8]], "the sum stays what it is under any rule"


def test_it_takes_weights_and_answers_with_the_parts_that_came() -> None:
    tally = rule("surest", weights=(5, 1, 1)).tally(samples=2, classes=3)
    tally.add("b", 0, np.array(PARTS["b"] * 2))
    assert tally.scores.tolist() == [[0.0, 1.5, 0.0]] * 2
    tally.add("a", 1, np.array(PARTS["a"]))
    assert tally.scores.tolist() == [[0.0, 1.5, 0.0], [2.0, 0.0, 1.0]], "five times 1 is more than 1.5"
    tally.add("a", 1, np.array([[0, 99, 0]]))
    assert tally.labels.tolist() == [1, 0], "a part counts once"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("best", "one of average, weighted, majority, absent, .*surest, or of a package .* 'fluidnpu.combiners'"),
        (
            "missing",
            r"'missing' of package 'toy-combiner' \(fluidnpu\.combiners\) must load from 'no_such_module:rule', and that failed: ModuleNotFoundError",
        ),
        ("absent", "'absent' of package .* must load from 'toy_combiner:absent', and that failed: AttributeError"),
        ("number", "'number' of package .* must be a function, and 'toy_combiner:np.pi' is none"),
    ],
)
def test_a_rule_that_cannot_be_loaded_is_refused_when_the_fleet_is_read(name: str, said: str) -> None:
    with pytest.raises(FleetError, match=said):
        rule(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("narrow", r"'narrow' of package 'toy-combiner' .* must give finite scores \(1, 3\), not an array \(1, 2\)"),
        (
            "endless",
            r"'endless' of package 'toy-combiner' .* must give finite scores \(1, 3\), not some that are not finite",
        ),
        (
            "broken",
            r"'broken' of package 'toy-combiner' .* must give scores \(1, 3\), and that failed: KeyError: 'no such class'",
        ),
    ],
)
def test_a_rule_that_gives_no_scores_is_one_sentence(name: str, said: str) -> None:
    tally = rule(name).tally(samples=1, classes=3)
    with pytest.raises(FleetError, match=said):
        assert tally.labels.size


def test_two_packages_with_a_rule_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("third", "other"):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[fluidnpu.combiners]\ntwice = {package}:rule\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FleetError, match="'twice' must come from one package, and 'other' and 'third' bring it"):
        rule("twice")
