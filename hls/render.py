"""Render the Vivado HLS C++ of the core from a design: text in, text out. All decisions are made here, none in the templates.

>>> from dse.testing import tiny_design
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

from dse import Design

from .compiler import check_buildable
from .layout import BIAS_WORDS
from .streams import COMMAND_FIELDS

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


@dataclass(frozen=True)
class Constant:
    """One line of `params.h`."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True)
class BitField:
    """Bits [high : low] of a command."""

    name: str
    low: int
    width: int

    @property
    def high(self) -> int:
        """Its highest bit."""
        return self.low + self.width - 1


@dataclass(frozen=True)
class CoreText:
    """What the core's templates may ask: a design and all that follows from it."""

    design: Design
    ultra_banks: int = 0  # banks in UltraRAM, counted as the C++ does

    @property
    def banks(self) -> int:
        """Accumulator banks: one a PE, and one a channel of a pool."""
        return max(self.design.t_c, self.design.input_words)

    @property
    def mixed(self) -> bool:
        """Whether some banks lie in UltraRAM and some in block RAM."""
        return 0 < self.ultra_banks < self.banks

    @property
    def bank_memories(self) -> tuple[tuple[str, str, str], ...]:
        """Arrays of banks: name, number of banks, core of Vivado HLS."""
        if self.mixed:
            return ("ultra", "UltraBanks", "RAM_2P_URAM"), ("block", "BlockBanks", "RAM_2P_BRAM")
        return (("acc", "Banks", "RAM_2P_URAM" if self.ultra_banks else "RAM_2P_BRAM"),)

    @property
    def bank_arrays(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(name for name, _, _ in self.bank_memories)

    @property
    def banks_arguments(self) -> str:
        """The banks as arguments of a call."""
        return ", ".join(self.bank_arrays)

    @property
    def banks_parameters(self) -> str:
        """The banks as parameters of a function."""
        return ", ".join(f"acc_t {name}[{size}][Halves][BankDepth]" for name, size, _ in self.bank_memories)

    @property
    def banks_parameters_const(self) -> str:
        """The banks as parameters of a function that only reads them."""
        return ", ".join(f"const acc_t {name}[{size}][Halves][BankDepth]" for name, size, _ in self.bank_memories)

    @property
    def banks_text(self) -> str:
        """Where the banks lie, in words."""
        if self.mixed:
            return f"the first {self.ultra_banks} banks lie in UltraRAM, the others in block RAM"
        return f"{self.banks} banks in {'UltraRAM' if self.ultra_banks else 'block RAM'}"

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
    def row_distance(self) -> int:
        """Fewest cycles of a P-tile, more than the array's pipeline is deep: product, tree, pair adder, read (later from UltraRAM), add, write."""
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
        ultra = (
            (
                Constant("UltraBanks", self.ultra_banks, "of them in UltraRAM, the first ones"),
                Constant("BlockBanks", self.banks - self.ultra_banks, "of them in block RAM"),
            )
            if self.mixed
            else ()
        )
        line = -(-self.columns // d.out_words) * d.out_words + d.out_words
        halves = 2 if self.split else 1
        return (
            *given,
            Constant("MaxCols", self.columns, "most columns of a command"),
            Constant("Banks", self.banks, "accumulator banks: one a PE, and one a channel of a pool"),
            *ultra,
            Constant("Halves", halves, "independent halves of a bank"),
            Constant("BankDepth", -(-d.t_r // halves), "rows of a half"),
            Constant("SumBits", 33 + (2 * d.t_p - 1).bit_length(), "bits of the sum of 2 TP products"),
            Constant("BiasesPerSlot", d.t_p // BIAS_WORDS, "48-bit biases in a weight slot"),
            Constant("LineWords", line, "columns of a row of outputs, in whole beats and one more"),
            Constant("RowDistance", self.row_distance, "fewest cycles of a P-tile"),
        )

    @property
    def command_fields(self) -> tuple[BitField, ...]:
        """Where the fields of a command lie."""
        fields, low = [], 0
        for name, width in COMMAND_FIELDS:
            fields.append(BitField(name, low, width))
            low += width
        return tuple(fields)


def render_core(design: Design, ultra_banks: int = 0) -> dict[str, str]:
    """File name -> text of the core's C++; ProgramError for a design that cannot be built.

    `ultra_banks`: accumulator banks in UltraRAM, each of which is there twice, as `hls_ultra_banks` counts them.
    """
    check_buildable(design)
    core = CoreText(design, min(ultra_banks, CoreText(design).banks))
    return {name: render(f"core/{name}", {"core": core}) for name in CORE_FILES}


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
    return files("hls").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
