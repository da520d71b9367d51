"""Rendering of the core's Vivado HLS C++ from a design. Text only.

Most files are the same C++ for every design, which decides by the constants of `params.h`. Templates only
render those constants, and as many queues and memories as a design has.

>>> from fluidnpu.dse.testing import tiny_design
>>> sorted(render_core(tiny_design()))[:2]
['array.h', 'banks.h']
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from fluidnpu.dse import Design
from fluidnpu.models.numeric import MULTIPLIER_BITS, WORDS, Word

from ..program.compiler import check_buildable
from ..program.layout import SHIFT_AT, SHIFT_BITS, header_bits
from ..views.formats import render_format_header
from .dialect import Dialect, in_dialect

if TYPE_CHECKING:
    import jinja2

CORE_FILES = (  # `.j2`: rendered; the others are copied
    "params.h.j2",
    "fluidnpu_core.h.j2",
    "words.h.j2",
    "command.h.j2",
    "banks.h",
    "loader.h.j2",
    "fill.h",
    "multiply.h.j2",
    "pool.h",
    "output_walk.h",
    "drain.h.j2",
    "array.h.j2",
    "post.h.j2",
    "fluidnpu_core.cpp.j2",
    "tb_core.cpp.j2",
)

LINES_AHEAD = 32  # beats in flight; more than the latency from reading a row to the credit for its beat


@dataclass(frozen=True)
class HeaderConstant:
    """One line of `params.h`."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True)
class StreamQueue:
    """A stream between the core's processes; `depth` in beats."""

    name: str
    type: str
    depth: int
    packed: bool = True  # a struct as one word


@dataclass(frozen=True)
class BankMemory:
    """An array of the C++ that holds banks `first` and following, all in one kind of RAM."""

    name: str
    first: int
    size: str  # number of banks as a C++ expression
    cell: str  # the core that Vivado HLS takes


def _memories(name: str, size: str, banks: int, ultra: int) -> tuple[BankMemory, ...]:
    """The arrays for `banks` banks: the first `ultra` in UltraRAM, the others in block RAM."""
    if 0 < ultra < banks:
        return (
            BankMemory(f"{name}_ultra", 0, str(ultra), "RAM_2P_URAM"),
            BankMemory(f"{name}_block", ultra, f"{size} - {ultra}", "RAM_2P_BRAM"),
        )
    return (BankMemory(name, 0, size, "RAM_2P_URAM" if ultra else "RAM_2P_BRAM"),)


@dataclass(frozen=True)
class CoreText:
    """The values that the core's templates read: a design and everything derived from it."""

    design: Design
    ultra_banks: int = 0  # of finished rows first, then of partial sums

    @property
    def word(self) -> Word:
        """The kind of the design's words."""
        return WORDS[self.design.word_bits]

    @property
    def word_bits(self) -> int:
        """Bits of a word."""
        return self.word.bits

    @property
    def packed(self) -> bool:
        """True where a DSP multiplies a word by the weights of two columns."""
        return self.design.array.chain_columns > 1

    @property
    def header_words(self) -> int:
        """Words of a column's header."""
        return self.design.array.bias_words

    @property
    def bias_bits(self) -> int:
        """Bits of a bias."""
        return self.word.sum_bits

    @property
    def residual(self) -> str:
        """The field of a command that scales a residual."""
        return "residual_multiplier" if self.packed else "residual_shift"

    @property
    def stacked_column(self) -> str:
        """C++ for the column that PE j makes where two PEs work on a column, or on a row of each lane."""
        return "(j / 4 * 2 + j % 2)" if self.packed else "j / 2"

    @property
    def stacked_pes(self) -> tuple[str, str]:
        """C++ for the two PEs of column k there."""
        return ("k / 2 * 4 + k % 2", "k / 2 * 4 + k % 2 + 2") if self.packed else ("2 * k", "2 * k + 1")

    @property
    def banks(self) -> int:
        """Banks of finished rows: one a PE, and one a channel of a pool."""
        return max(self.design.t_c, self.design.input_words)

    @property
    def ready_ultra(self) -> int:
        """Banks of finished rows in UltraRAM."""
        return min(self.banks, self.ultra_banks)

    @property
    def sums_ultra(self) -> int:
        """Banks of partial sums in UltraRAM."""
        return min(self.design.t_c, max(0, self.ultra_banks - self.banks))

    @property
    def sums(self) -> tuple[BankMemory, ...]:
        """Partial sums: one bank a PE."""
        return _memories("sums", "TC", self.design.t_c, self.sums_ultra)

    @property
    def ready(self) -> tuple[BankMemory, ...]:
        """Finished rows: one bank a PE, and one a channel of a pool."""
        return _memories("ready", "Banks", self.banks, self.ready_ultra)

    @property
    def banks_text(self) -> str:
        """A sentence that says which banks lie in which RAM."""
        if self.ultra_banks in (0, self.banks + self.design.t_c):
            return f"All banks lie in {'UltraRAM' if self.ultra_banks else 'block RAM'}."
        return (
            f"{self.ready_ultra} banks of `ready` and {self.sums_ultra} of `sums` lie in UltraRAM, "
            "the others in block RAM."
        )

    @property
    def queues(self) -> tuple[StreamQueue, ...]:
        """The streams between processes: commands, beats for post-processing, and credits for them."""
        return (
            StreamQueue("to_loader", "command_fifo_t", 4),
            StreamQueue("to_array", "command_fifo_t", 2),
            StreamQueue("to_post", "command_fifo_t", 4),
            StreamQueue("lines", "line_fifo_t", LINES_AHEAD),
            StreamQueue("credits", "credit_fifo_t", LINES_AHEAD, packed=False),
        )

    @property
    def halves(self) -> int:
        """Halves of a bank that are addressed apart: one for each half of a split tree."""
        return 2 if self.design.split else 1

    @property
    def columns(self) -> int:
        """The largest number of columns of a command in any mode."""
        return max(self.banks, self.design.t_c * self.halves)

    @property
    def widest_bits(self) -> int:
        """Bits of the widest beat, rounded up to a multiple of 1024."""
        d = self.design
        words = max(d.input_words, d.t_p * d.weight_slots, d.out_words)
        return 1024 * -(-d.word_bits * words // 1024)

    @property
    def row_distance(self) -> int:
        """The fewest cycles between writing and reading a row, as the exact model counts them."""
        return self.design.array.row_distance(ultra=self.ultra_banks > 0)

    @property
    def constants(self) -> tuple[HeaderConstant, ...]:
        """The constants of `params.h`: parameters of the design, then numbers derived from them.

        None depends on the network, so networks share a compiled core.
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
            HeaderConstant(name, value, meanings[name])
            for name, value in d.rtl_parameters().items()
            if name in meanings
        ]
        line = -(-self.columns // d.out_words) * d.out_words + d.out_words
        return (
            *given,
            HeaderConstant("MaxCols", self.columns, "most columns of a command"),
            HeaderConstant("Banks", self.banks, "banks of finished rows: one a PE, and one a channel of a pool"),
            HeaderConstant("Halves", self.halves, "independent halves of a bank"),
            HeaderConstant("BankDepth", -(-d.t_r // self.halves), "rows of a half"),
            HeaderConstant(
                "SumBits", 2 * d.word_bits + 1 + (2 * d.t_p - 1).bit_length(), "bits of the sum of 2 TP products"
            ),
            HeaderConstant(
                "BiasesPerSlot", d.t_p // d.array.bias_words, f"{header_bits(d)}-bit biases in a weight slot"
            ),
            HeaderConstant("LineWords", line, "columns of a row of outputs, in whole beats and one more"),
            HeaderConstant("LinesAhead", LINES_AHEAD, "beats of a row on their way to post-processing"),
            HeaderConstant("CreditBits", LINES_AHEAD.bit_length(), "bits of a count of them"),
            HeaderConstant("RowDistance", self.row_distance, "fewest cycles between writing and reading a row"),
            *(self._pair_constants if self.packed else ()),
        )

    @property
    def _pair_constants(self) -> tuple[HeaderConstant, ...]:
        """The constants of a core whose DSPs multiply by two weights at once."""
        field = self.design.array.field_bits
        bits = field - 15  # a product has 15 bits, its sign among them
        return (
            HeaderConstant("FieldBits", field, "bits of the lower one of two products in a DSP"),
            HeaderConstant("Piece", 1 << bits, "products that a lower field holds"),
            HeaderConstant("PieceBits", bits, "bits of a count of them"),
            HeaderConstant("MultiplierBits", MULTIPLIER_BITS, "bits of the multiplier of a column"),
            HeaderConstant("ShiftAt", SHIFT_AT, "first bit of its shift in a header"),
            HeaderConstant("ShiftBits", SHIFT_BITS, "bits of that"),
        )


def row_distance(design: Design, ultra_banks: int = 0) -> int:
    """The fewest cycles between writing and reading a row of sums; `run_array` must be a shorter pipeline.

    `ultra_banks`: as for `render_core`.
    """
    return CoreText(design, ultra_banks).row_distance


def render_core(design: Design, ultra_banks: int = 0, dialect: Dialect = Dialect.VIVADO_HLS) -> dict[str, str]:
    """Render the core's C++: file name -> text; ProgramError for a design that cannot be built.

    `ultra_banks`: the number of accumulator banks in UltraRAM, as `hls_ultra_banks` counts them.
    """
    check_buildable(design)
    core = CoreText(design, min(ultra_banks, CoreText(design).banks + design.t_c))
    texts = {file.removesuffix(".j2"): in_dialect(_core_text(file, core), dialect) for file in CORE_FILES}
    return texts | {"formats.h": render_format_header()}


def _core_text(file: str, core: CoreText) -> str:
    name = f"core/{file}"
    return render(name.removesuffix(".j2"), {"core": core}) if name.endswith(".j2") else _source(name)


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
