r"""Takes Yosys' text of an elaborated design apart, module by module. Pure; no I/O.

Names that Yosys makes up bear lines of source, and numbers that count through a whole design. Here the lines
are left out and the numbers count through a module, so that its text changes only when the module does.

>>> m = elaborated(EXAMPLE)["\\m"]
>>> m.plain, m.children
('m', ('$not', '\\n'))
>>> m.stub
'attribute \\blackbox 1\nmodule \\m\n  wire width 2 input 1 \\a\nend\n'
>>> m == elaborated(EXAMPLE.replace("$9", "$19").replace(":3", ":30"))["\\m"]
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXAMPLE = r"""attribute \src "m.sv:1.1-9.10"
attribute \hdlname "m"
attribute \top 1
module \m
  wire width 2 input 1 \a
  wire $not$m.sv:3$9_Y
  cell $not $not$m.sv:3$9
    connect \A \a
  end
  cell \n \inner
  end
end
"""
_MODULE = re.compile(r"^((?:attribute [^\n]*\n)*)module (\S+)\n(.*?)^end\n", re.M | re.S)
_PORT = re.compile(r"^  wire (?:.* )?(?:input|output|inout) \d+ .*\n", re.M)
_CELL = re.compile(r"^  cell (\S+) ", re.M)
_LEFT_OUT = re.compile(r"^ *attribute \\(?:src|top) .*\n", re.M)
_LINE = re.compile(r"(?<=\.sv:)[\d.-]+(?=\$)")
_NUMBER = re.compile(r"(?<=\$)\d+(?![^\W_])")  # not the digits that begin a digest


@dataclass(frozen=True)
class Elaborated:
    """A module with its parameters set, in Yosys' own language.

    `name`: as Yosys has it; `plain`: as the RTL has it; `text`: the module; `children`: the types of its
    cells, modules among them, each once; `stub`: the module with its ports alone.
    """

    name: str
    plain: str
    text: str
    children: tuple[str, ...]
    stub: str


def elaborated(design: str) -> dict[str, Elaborated]:
    """Return the modules of a design by name, in its order."""
    modules = {}
    for match in _MODULE.finditer(_LEFT_OUT.sub("", design)):
        attributes, name, body = match.groups()
        hdl_name = re.search(r'\\hdlname "(.*)"', attributes)
        modules[name] = Elaborated(
            name=name,
            plain=hdl_name[1] if hdl_name else name.removeprefix("\\"),
            text=_renumbered(f"{attributes}module {name}\n{body}end\n"),
            children=tuple(sorted(set(_CELL.findall(body)))),
            stub=f"attribute \\blackbox 1\nmodule {name}\n{''.join(_PORT.findall(body))}end\n",
        )
    return modules


def _renumbered(text: str) -> str:
    """Numbers in the order in which they first occur: other numbers, the same text."""
    numbers: dict[str, int] = {}
    return _NUMBER.sub(lambda match: str(numbers.setdefault(match[0], len(numbers) + 1)), _LINE.sub("", text))
