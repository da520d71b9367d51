"""Print the summary of the pages of every layer: what the tree keeps of them.

    python benchmarks/cycles_index.py build/cycles > docs/explanation/cycles/index.md

`make tables` makes the pages and then this. A page with a layer that differs ends it with exit code 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

NETWORKS = {
    "resnet50": "ResNet-50",
    "inception_v3": "Inception-v3",
    "mobilenet_v2": "MobileNet-v2",
    "efficientnet_lite0": "EfficientNet-lite0",
}
BOARDS = {"zc706": "ZC706", "zcu104": "ZCU104"}
NUMBER = r"([\d.]+ %)"
HEAD = """# Every layer, the exact model beside the RTL

Frames a second of four networks: [whole networks](networks.md); [with words of 8 bits](int8.md). The HLS core
beside this one: [core by core](cores.md).

`make tables` runs whole networks at B = 1, 2, 4 and 8 (simulated, hours on two cores). Each runs on the array
that `dse --cycles exact` finds for the board. Cycles of each layer are counted by the exact model and by the
RTL in Verilator with the core in SystemVerilog, behind the board's DRAM model. No layer differs in cycles,
beats or bursts. The pages of every layer stand in `build/cycles`, and continuous integration publishes them
with the site. The tree keeps this summary: the share of busy multipliers of the array, the time of pools and
stalls included, and of what device and memory allow at B = 8.

| network | board, memory | array | B = 1 | 2 | 4 | 8 | of the roofline, 8 |
|---|---|---|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True)
class Summary:
    """What the index says of one page."""

    stem: str  # network-board-memory
    array: str
    busy: tuple[str, ...]  # at B = 1, 2, 4 and 8
    roofline: str  # reached of it at B = 8

    @property
    def row(self) -> str:
        """The line of the table."""
        network, board, memory = self.stem.split("-")
        place = f"{BOARDS[board]}, `{memory}`"
        return f"| {NETWORKS[network]} | {place} | {self.array} | {' | '.join(self.busy)} | {self.roofline} |"


def summary(stem: str, page: str) -> Summary:
    """Read a page; a ValueError says what it lacks."""
    if "layers that differ in cycles, beats or bursts: 0" not in page:
        raise ValueError(f"{stem}: a page must have no layer that differs, and say so")
    design = re.search(r"The design: <\d+, (\d+, \d+)>", page)
    rows = re.findall(rf"^\| ([1248]) \| {' . '.join([NUMBER] * 5)} \|$", page, re.M)
    if design is None or [row[0] for row in rows] != ["1", "2", "4", "8"]:
        raise ValueError(f"{stem}: a page must name its design and have a row for B = 1, 2, 4 and 8")
    return Summary(stem, f"<{design[1]}>", tuple(row[1] for row in rows), rows[-1][4])


def index(pages: dict[str, str]) -> str:
    """Write the index of some pages, by their stems, in the order of networks and boards."""
    order = sorted(pages, key=lambda stem: (list(NETWORKS).index(stem.split("-")[0]), stem.split("-")[1], stem))
    return HEAD + "".join(f"{summary(stem, pages[stem]).row}\n" for stem in order)


def main() -> int:
    """Print the index of the pages of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    try:
        pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
        print(index(pages), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
