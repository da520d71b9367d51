"""The texts of all subjects: packages come first, names are unique, edits fit exactly once."""

from collections import Counter
from pathlib import Path

import pytest

from fluidnpu.rtl_tb import RtlError, SimulationError, sources
from fluidnpu.rtl_tb.common.sources import SUBJECTS, edited, needed, texts_of
from fluidnpu.rtl_tb.simulation.model import bench_module

ROOM = Path(__file__).resolve().parent.parent.parent / "rtl_tb"


def test_packages_come_first() -> None:
    names = list(sources())
    packages = [name for name in names if name.endswith("_pkg.sv")]
    assert names[: len(packages)] == packages
    assert len(names) > len(packages) > 3


@pytest.mark.parametrize("folder", ["rtl", "proofs", "benches"])
def test_a_file_name_stands_in_one_subject_only(folder: str) -> None:
    """Files are found by their names alone, so a second one would hide the first."""
    names = [path.name for subject in SUBJECTS for path in (ROOM / subject / folder).glob("*")]
    counts = Counter(name for name in names if not name.startswith("__"))
    assert [name for name, count in counts.items() if count > 1] == []
    assert counts.keys() >= texts_of(folder).keys()


def test_a_top_takes_only_the_files_that_it_reaches() -> None:
    alone = needed(sources(), "common_skid")
    assert list(alone) == ["common_skid.sv"]
    assert set(needed(sources(), "fluidnpu_data_plane")) > set(needed(sources(), "axi_read_master"))


def test_an_edit_that_fits_nowhere_or_twice_is_refused() -> None:
    assert edited({"a.sv": "x = 1;"}, [("a.sv", "1", "2"), ("a.sv", "x = 2", "y")]) == {"a.sv": "y;"}
    for text in ("", "1 1"):
        with pytest.raises(SimulationError, match=r"an edit of a\.sv must match exactly once: '1'"):
            edited({"a.sv": text}, [("a.sv", "1", "2")])


def test_a_bench_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RtlError, match="no bench is named 'fluidnpu_nothing'"):
        bench_module("fluidnpu_nothing")
