"""Render the Vivado HLS C++ of the core from a design: text in, text out. All decisions are made here, none in the templates.

>>> from fluidnpu.dse.testing import tiny_design
>>> sorted(render_core(tiny_design()))[:2]
['banks.h', 'command.h']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from fluidnpu.dse import Design

from ..program.compiler import check_buildable
from ..program.layout import BIAS_WORDS
from ..views.formats import render_format_header

if TYPE_CHECKING:
    import jinja2

CORE_FILES = (
    "params.h",
    "fluidnpu_core.h",
    "banks.h",
    "words.h",
    "command.h",
    "loader.h",
    "pe_array.h",
    "post.h",
    "fluidnpu_core.cpp",
    "tb_core.cpp",
)

LINES_AHEAD = 32  # more than the array's pipeline is deep from reading a row to writing a beat of it, and back


@dataclass(frozen=True)
class Constant:
    """One line of `params.h`."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True)
class Queue:
    """A stream inside the core, of so many beats."""

    name: str
    type: str
    depth: int
    packed: bool = True  # a struct as one word


@dataclass(frozen=True)
class BankMemory:
    """An array of the C++: as many banks in one kind of RAM."""

    name: str
    size: str  # as the C++ says it
    cell: str  # the core of Vivado HLS


@dataclass(frozen=True)
class BankArray:
    """Banks that are numbered on although the first `ultra` of them lie in UltraRAM and the others in block RAM."""

    name: str
    size: str
    banks: int
    ultra: int

    @property
    def mixed(self) -> bool:
        """Whether there are both."""
        return 0 < self.ultra < self.banks

    @property
    def memories(self) -> tuple[BankMemory, ...]:
        """What it is made of."""
        if self.mixed:
            return (
                BankMemory(f"{self.name}_ultra", str(self.ultra), "RAM_2P_URAM"),
                BankMemory(f"{self.name}_block", f"{self.size} - {self.ultra}", "RAM_2P_BRAM"),
            )
        return (BankMemory(self.name, self.size, "RAM_2P_URAM" if self.ultra else "RAM_2P_BRAM"),)

    @property
    def arguments(self) -> str:
        """Of a call."""
        return ", ".join(memory.name for memory in self.memories)

    def parameters(self, prefix: str = "") -> str:
        """Of a function."""
        return ", ".join(f"{prefix}acc_t {memory.name}[{memory.size}][Halves][BankDepth]" for memory in self.memories)


@dataclass(frozen=True)
class CoreText:
    """What the core's templates may ask: a design and all that follows from it."""

    design: Design
    ultra_banks: int = 0  # of finished rows first, then of partial sums

    @property
    def banks(self) -> int:
        """Banks of finished rows: one a PE, and one a channel of a pool."""
        return max(self.design.t_c, self.design.input_words)

    @property
    def sums(self) -> BankArray:
        """Partial sums: a bank for each PE."""
        return BankArray("sums", "TC", self.design.t_c, min(self.design.t_c, max(0, self.ultra_banks - self.banks)))

    @property
    def ready(self) -> BankArray:
        """Finished rows: a bank for each PE, and for each channel of a pool."""
        return BankArray("ready", "Banks", self.banks, min(self.banks, self.ultra_banks))

    @property
    def bank_arrays(self) -> tuple[BankArray, BankArray]:
        """Both of them."""
        return self.sums, self.ready

    @property
    def bank_memories(self) -> tuple[BankMemory, ...]:
        """The arrays of the C++."""
        return (*self.sums.memories, *self.ready.memories)

    @property
    def banks_text(self) -> str:
        """Where the banks lie, in words."""
        if self.ultra_banks in (0, self.banks + self.design.t_c):
            return f"All banks lie in {'UltraRAM' if self.ultra_banks else 'block RAM'}."
        return f"{self.ready.ultra} banks of `ready` and {self.sums.ultra} of `sums` lie in UltraRAM, the others in block RAM."

    @property
    def queues(self) -> tuple[Queue, ...]:
        """The streams between processes: a few commands ahead, and beats of rows on their way to post-processing."""
        return (
            Queue("to_loader", "command_fifo_t", 4),
            Queue("to_array", "command_fifo_t", 2),
            Queue("to_post", "command_fifo_t", 4),
            Queue("lines", "line_fifo_t", LINES_AHEAD),
            Queue("credits", "credit_fifo_t", LINES_AHEAD, packed=False),
        )

    @property
    def stackable(self) -> bool:
        """Whether WIDE and LANES exist."""
        return self.design.stackable

    @property
    def split(self) -> bool:
        """Whether SPLIT exists."""
        return self.design.split

    @property
    def columns(self) -> int:
        """Most columns of a command in any mode."""
        return max(self.banks, self.design.t_c * (2 if self.split else 1))

    @property
    def widest_bits(self) -> int:
        """Bits of the widest beat, in whole 1024."""
        d = self.design
        words = max(d.input_words, d.t_p * d.weight_slots, d.out_words)
        return 1024 * -(-16 * words // 1024)

    @property
    def row_distance(self) -> int:
        """Fewest cycles between writing and reading a row, more than the array's pipeline is deep.

        In it are the product, the adder tree, the pair's adder, reading the sum (later from UltraRAM), adding and writing it.
        """
        return 10 + 2 * (self.design.t_p - 1).bit_length() + (4 if self.ultra_banks else 0)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """`params.h`: the design's parameters that a core has a use for, then what follows from them.

        Nothing of the network is among them, so networks share a compiled core.
        """
        meanings = {
            "TR": "rows of an accumulator bank",
            "TP": "words a PE multiplies in one cycle",
            "TC": "processing elements",
            "AccBits": "bits of a stored partial sum",
            "WeightSlots": "slots of TP words in a weight beat",
            "OutWords": "words of an output beat and of a residual beat",
            "InWords": "words of an input beat",
            "Stackable": "k = 2 and lanes exist",
            "Split": "k = 1/2 exists",
        }
        d = self.design
        given = [
            Constant(name, value, meanings[name]) for name, value in d.rtl_parameters().items() if name in meanings
        ]
        line = -(-self.columns // d.out_words) * d.out_words + d.out_words
        halves = 2 if self.split else 1
        return (
            *given,
            Constant("MaxCols", self.columns, "most columns of a command"),
            Constant("Banks", self.banks, "banks of finished rows: one a PE, and one a channel of a pool"),
            Constant("Halves", halves, "independent halves of a bank"),
            Constant("BankDepth", -(-d.t_r // halves), "rows of a half"),
            Constant("SumBits", 33 + (2 * d.t_p - 1).bit_length(), "bits of the sum of 2 TP products"),
            Constant("BiasesPerSlot", d.t_p // BIAS_WORDS, "48-bit biases in a weight slot"),
            Constant("LineWords", line, "columns of a row of outputs, in whole beats and one more"),
            Constant("LinesAhead", LINES_AHEAD, "beats of a row on their way to post-processing"),
            Constant("RowDistance", self.row_distance, "fewest cycles between writing and reading a row"),
        )


def row_distance(design: Design, ultra_banks: int = 0) -> int:
    """Fewest cycles between writing and reading a row of sums: the pipeline of `run_array` must be less deep. `ultra_banks` as `render_core`."""
    return CoreText(design, ultra_banks).row_distance


def render_core(design: Design, ultra_banks: int = 0) -> dict[str, str]:
    """File name -> text of the core's C++; ProgramError for a design that cannot be built.

    `ultra_banks`: so many accumulator banks lie in UltraRAM, as `hls_ultra_banks` has them.
    """
    check_buildable(design)
    core = CoreText(design, min(ultra_banks, CoreText(design).banks + design.t_c))
    texts = {name: render(f"core/{name}", {"core": core}) for name in CORE_FILES}
    return texts | {"formats.h": render_format_header()}


def render(template: str, context: Mapping[str, object]) -> str:
    """Render `templates/<template>.j2`; an undefined name is an error, and trailing spaces are dropped."""
    text = _environment().get_template(f"{template}.j2").render(**context)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).rstrip("\n") + "\n"


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # here, since a board imports this room and renders nothing

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _source(name: str) -> str:
    return files("fluidnpu.hls").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
