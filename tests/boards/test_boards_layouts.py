"""Columns of every shipped board against the DSP slices, block RAMs and logic blocks (CLBs) of its device.

A capacity says nothing of a layout: 1,728 DSP slices are twelve columns of 144, and the XCZU7EV has eleven
and three short ones. Three counts of one device must agree on what its processing system covers.
"""

from dataclasses import dataclass

import pytest

from fluidnpu.boards import Board, list_boards, load_board

LUTS_OF_A_CLB = 8  # of both families
SEVEN = (20, 10, 50)  # DSP slices, RAMB36 and CLBs that a column has in a clock region (UG479, UG473, UG474)
ULTRA = (24, 12, 60)  # of UltraScale+ (UG579, UG573, UG574)


@dataclass(frozen=True)
class Device:
    """Columns of DSP slices, block RAM and CLBs in each clock region, and what hard blocks cover of them.

    `covered`: columns under the processing system (and the video codec), in `regions` clock regions.
    `blocks`: sites under other blocks, such as PCIe. `seen`: columns that placement constraints show in a
    covered region.
    """

    heights: tuple[int, int, int]
    columns: tuple[tuple[int, int, int], ...]
    covered: tuple[int, int, int]
    regions: int
    blocks: tuple[int, int, int] = (0, 0, 0)
    seen: tuple[int, int, int] = (0, 0, 0)

    def sites(self, kind: int) -> int:
        """Sites of a kind that the device has."""
        columns = sum(region[kind] for region in self.columns) - self.regions * self.covered[kind]
        return columns * self.heights[kind] - self.blocks[kind]

    @property
    def dsp_columns(self) -> tuple[tuple[int, int], ...]:
        """Height and number of its columns of DSP slices, as a board file has them."""
        whole, each = len(self.columns), self.heights[0]
        short = self.covered[0]
        kinds = ((whole * each, self.columns[0][0] - short), ((whole - self.regions) * each, short))
        return tuple((height, count) for height, count in kinds if height * count)


# Zynq-7000: Project X-Ray's part.json of the part, configuration columns of 28 frames (DSP and block RAM, of
# which the BLOCK_RAM bus tells the latter) and 36 (CLB). Both devices have the same processing system, and so
# the same covered columns. UltraScale+: the highest site names in public placement constraints, which the
# boards' files cite.
DEVICES = {
    "xc7z020": Device(SEVEN, ((5, 6, 57),) * 3, (2, 2, 19), 2),
    "xc7z045": Device(SEVEN, ((7, 9, 86),) * 3 + ((7, 8, 82),) * 4, (2, 2, 19), 2, blocks=(0, 5, 75)),
    "xczu3eg": Device(ULTRA, ((5, 6, 49),) * 3, (0, 0, 0), 0),
    "xck26": Device(ULTRA, ((13, 3, 61),) * 4, (0, 0, 0), 0),
    "xczu7ev": Device(ULTRA, ((14, 5, 112),) * 6, (3, 1, 48), 4, seen=(2, 0, 55)),
    "xczu9eg": Device(ULTRA, ((18, 13, 97),) * 7, (7, 5, 36), 3),
}


def device_of(board: Board) -> Device:
    return next(device for name, device in DEVICES.items() if board.part.startswith(name))


def counts(board: Board) -> tuple[int, int, int]:
    return board.dsp, board.ramb36, board.lut // LUTS_OF_A_CLB


@pytest.mark.parametrize("name", list_boards())
def test_the_layout_has_the_sites_of_the_device_and_the_board_its_columns(name: str) -> None:
    board = load_board(name)
    device = device_of(board)
    assert tuple(device.sites(kind) for kind in range(3)) == counts(board)
    assert device.dsp_columns == board.dsp_columns
    assert sum(height * count for height, count in board.dsp_columns) == board.dsp


@pytest.mark.parametrize("name", ["zcu104", "zcu102"])
def test_no_other_number_of_covered_regions_explains_the_three_counts(name: str) -> None:
    board = load_board(name)
    device = device_of(board)
    total, possible = len(device.columns), []
    for regions in range(1, total + 1):
        missing = [
            (total * device.columns[0][kind] * device.heights[kind] - count) / device.heights[kind] / regions
            for kind, count in enumerate(counts(board))
        ]
        most = [columns - seen for columns, seen in zip(device.columns[0], device.seen, strict=True)]
        if all(part == int(part) <= limit for part, limit in zip(missing, most, strict=True)):
            possible.append((regions, tuple(map(int, missing))))
    assert possible == [(device.regions, device.covered)]
