"""The index of the pages of every layer gives their figures, and refuses a page whose layers differ."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from docs_pages import DOCS, ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
CYCLES = importlib.import_module("cycles_index")
INDEX = (DOCS / "explanation" / "cycles" / "index.md").read_text(encoding="utf-8")
MADE = sorted((ROOT / "build" / "cycles").glob("*.md"))
PAGE = """# resnet50 on zc706, memory 'pl'

The design: <1024, 7, 128>, 512-bit ports, an input buffer of 262144 words.

| B | of the array | of the device's DSPs | roofline of device and memory | reached of it | `paper` dataflow, same array |
|---:|---:|---:|---:|---:|---:|
| 1 | 95.0 % | 94.5 % | 96.7 % | 97.7 % | 99.1 % |
| 2 | 96.6 % | 96.1 % | 98.2 % | 97.9 % | 99.3 % |
| 4 | 97.5 % | 97.0 % | 99.0 % | 98.0 % | 99.4 % |
| 8 | 97.9 % | 97.4 % | 99.4 % | 98.1 % | 99.5 % |

layers that differ in cycles, beats or bursts: 0
"""


def test_the_index_gives_the_figures_of_a_page() -> None:
    row = "| ResNet-50 | ZC706, `pl` | <7, 128> | 95.0 % | 96.6 % | 97.5 % | 97.9 % | 98.1 % |"
    assert CYCLES.index({"resnet50-zc706-pl": PAGE}) == CYCLES.HEAD + row + "\n"


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("bursts: 0", "bursts: 2", "no layer that differs"),
        ("| 4 |", "| 5 |", "a row for"),
        ("The design", "A", "name its"),
    ],
)
def test_a_page_that_is_not_whole_is_refused(was: str, now: str, told: str) -> None:
    with pytest.raises(ValueError, match=f"^resnet50-zc706-pl: .*{told}"):
        CYCLES.index({"resnet50-zc706-pl": PAGE.replace(was, now)})


def test_the_index_of_the_tree_has_a_row_for_every_page_that_make_tables_makes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    networks = re.search(r"^NETWORKS := (.*)$", text, re.MULTILINE)
    assert networks is not None
    rows = [line for line in INDEX.splitlines() if line.startswith("| ") and " % |" in line]
    assert INDEX.startswith(CYCLES.HEAD)
    assert len(rows) == 1 + 2 * len(networks[1].split())
