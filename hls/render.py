"""Render the Vivado HLS C++ of the core from a design: text in, text out. All decisions are made here, none in the templates.

>>> from dse.testing import tiny_design
>>> sorted(render_core(tiny_design()))[:2]
['command.h', 'fluidnpu_core.cpp']
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
        return max(self.design.input_words, self.design.t_c * (2 if self.split else 1))

    @property
    def row_distance(self) -> int:
        """Fewest cycles of a P-tile, more than the array's pipeline is deep: product, tree, pair adder, read, add, write."""
        return 10 + 2 * (self.design.t_p - 1).bit_length()

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
            Constant("Banks", max(d.t_c, d.input_words), "accumulator banks: one a PE, and one a channel of a pool"),
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


def render_core(design: Design) -> dict[str, str]:
    """File name -> text of the core's C++; ProgramError for a design that cannot be built."""
    check_buildable(design)
    core = CoreText(design)
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
