"""Whole networks with words of 8 bits beside those of 16, by the exact model, as a part of a page.

    python benchmarks/int8.py [--folder build/coverage] [--network NAME]... > PART

Each network is searched on each board and memory for the fewest cycles of one sample, with words of 16 and of
8 bits; arrays of the best bounds are counted, `EVALUATIONS` of them. The array of 8 bits is then counted at
other clocks and batches. Networks that are not generated are files of the scoreboard, as `coverage_zoo.py`
lays them into FOLDER/zoo. Figures are simulated: cycles of the exact model, which equal those of the RTL, of
the NPU alone, at clocks that the page names. What took how long goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fluidnpu.boards import Board, load_board
from fluidnpu.dse import Question
from fluidnpu.dse.exact.search import Evaluation, evaluate_array, search_exact
from fluidnpu.dse.exact.sharing import share_memory
from fluidnpu.dse.hardware import roofline_cycles
from fluidnpu.models import LayerShape, Workload, read_onnx
from fluidnpu.models.zoo import full_size

EVALUATIONS = 4
BATCHES = (1, 2, 4, 8)
CORE = "rtl"  # whose chains columns of slices must hold
GENERATED = ("resnet50", "inception_v3", "mobilenet_v2", "efficientnet_lite0")  # networks of `models.zoo`
READ = ("yolov8n",)  # files of the scoreboard
PLACES = (  # board, memory, clocks in MHz; arrays are searched at the first
    ("zcu104", "ps_striped", (250, 200, 300)),
    ("zc706", "pl", (150, 200)),
    ("zc706", "ps_striped", (150, 200)),
)
VENDOR = """
| network | DPU, one thread | DPU, all threads | this NPU, B = 1 | this NPU, B = 8 |
|---|---:|---:|---:|---:|
""".strip()
PUBLISHED = {  # README of model_zoo in github.com/Xilinx/Vitis-AI 2.5, ZCU104, 2 x B4096, 300 MHz, DSPs at 600
    "resnet50": (83.6, 157.2),
    "inception_v3": (63.5, 122.1),
    "mobilenet_v2": (284.0, 609.0),
}


@dataclass(frozen=True, kw_only=True)
class Found:
    """A network's array for one place and width of a word, as a search has found it."""

    name: str
    question: Question
    best: Evaluation

    @property
    def board(self) -> Board:
        """The board with the clock of the search."""
        return self.question.board

    @property
    def array(self) -> str:
        """The array, as tables write it, with the lanes of its filter."""
        fit = self.best.fit
        lanes = f", {fit.lanes} lanes" if fit.lanes else ""
        return f"<{fit.t_r}, {fit.array.t_p}, {fit.array.t_c}>{lanes}"

    def at(self, mhz: int) -> Found:
        """The same array at another clock."""
        question = replace(self.question, board=replace(self.question.facts, clock_hz=mhz * 1_000_000))
        return replace(self, question=question, best=evaluate_array(question, self.best.fit, BATCHES))

    def frames(self, batch: int) -> float:
        """Frames a second."""
        return batch * self.board.clock_hz / self.best.total(self.best.layers, batch)

    def of_roofline(self, batch: int) -> float:
        """The share of the roofline of all DSPs of the device and of what its memory sustains."""
        macs = float(self.board.dsp * self.best.fit.array.chain_columns)
        words = self.question.dram.awake_words(self.question.word_bytes)
        roof = sum(_roof(layer, batch, macs, words) for layer in self.best.layers)
        return roof / self.best.total(self.best.layers, batch)


def _roof(layer: LayerShape, batch: int, macs: float, words: float) -> float:
    return roofline_cycles(layer, batch=batch, macs_per_cycle=macs, words_per_cycle=words)


def clocked(board: Board, mhz: int) -> Board:
    """The board at a clock that is assumed: nothing is predicted of a part of another name."""
    return replace(board, clock_hz=mhz * 1_000_000, part=f"{board.part} at an assumed clock", sources={})


def workload_of(name: str, folder: Path) -> Workload:
    """The layers of a network, which is generated or read."""
    return full_size(name).workload if name in GENERATED else read_onnx(folder / "zoo" / f"{name}.onnx").workload


def search(name: str, workload: Workload, board: str, memory: str, mhz: int, bits: int) -> Found:
    """Search for the fewest cycles of one sample; the winner shares its RAM for batches up to the largest."""
    began = time.process_time()
    question = Question(
        workload=workload,
        board=clocked(load_board(board), mhz),
        memory=memory,
        core=CORE,
        b_max=1,
        objective="latency",
        evaluations=EVALUATIONS,
        bits=bits,
    )
    ranking = search_exact(question)
    asked = replace(ranking.question, board=question.facts, b_max=max(BATCHES))
    fitted = share_memory(asked, ranking.best.fit.point).fit
    batches = BATCHES if bits == 8 else (1, max(BATCHES))
    found = Found(name=name, question=asked, best=evaluate_array(asked, fitted, batches))
    told = f"{name} on {board} {memory}, {bits} bits: {found.array} {found.frames(1):.1f}"
    print(f"{told} ({time.process_time() - began:.0f} s CPU)", file=sys.stderr, flush=True)
    return found


def rows(narrow: Found, wide: Found, clocks: Sequence[int]) -> list[str]:
    """Rows of a network on a place: of every clock, the first beside words of 16 bits."""
    made = []
    for mhz in clocks:
        at = narrow if mhz == clocks[0] else narrow.at(mhz)
        beside = f"{wide.frames(1):.1f}" if mhz == clocks[0] else ""
        cells = [at.name, f"{at.board.name}, `{at.question.target.ports.name}`", at.array, str(mhz), beside]
        cells += [*(f"{at.frames(batch):.1f}" for batch in BATCHES), f"{100 * at.of_roofline(1):.0f} %"]
        made.append(f"| {' | '.join([*cells, f'{100 * at.of_roofline(max(BATCHES)):.0f} %'])} |")
    return made


def energy(narrow: Found, wide: Found) -> str:
    """The row of a network's energy: what a board draws at work, for as long as a frame takes."""
    power = narrow.board.power
    assert power is not None
    each = [
        f"{1e3 * power.active_w / found.frames(batch):.1f}" for batch in (1, max(BATCHES)) for found in (wide, narrow)
    ]
    return f"| {narrow.name} | {' | '.join(each)} |"


def main() -> None:
    """Print the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="where the files are kept")
    parser.add_argument("--network", action="append", choices=(*GENERATED, *READ), default=[])
    given = parser.parse_args()
    wanted = given.network or [*GENERATED, *READ]
    print(
        "| network | board, memory | array | MHz | 16 bits, B = 1 | 8 bits, B = 1 | 2 | 4 | 8 | of its roofline, 1 | 8 |\n"
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    pairs: list[tuple[Found, Found]] = []
    for name in wanted:
        workload = workload_of(name, given.folder)
        for board, memory, clocks in PLACES:
            narrow, wide = (search(name, workload, board, memory, clocks[0], bits) for bits in (8, 16))
            print("\n".join(rows(narrow, wide, clocks)), flush=True)
            pairs += [(narrow, wide)] if board == PLACES[0][0] else []
    print(f"\n{VENDOR}")
    for narrow, _ in pairs:
        if narrow.name in PUBLISHED:
            one, every = PUBLISHED[narrow.name]
            print(
                f"| {narrow.name} | {one:g} | {every:g} | {narrow.frames(1):.1f} | {narrow.frames(max(BATCHES)):.1f} |"
            )
    print("\n| network | 16 bits, B = 1 | 8 bits, B = 1 | 16 bits, B = 8 | 8 bits, B = 8 |\n|---|---:|---:|---:|---:|")
    print("\n".join(energy(*pair) for pair in pairs))


if __name__ == "__main__":
    main()
