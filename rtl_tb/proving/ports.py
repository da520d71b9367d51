"""Outputs of modules that no assertion speaks of, and the reasons why; ports that no comment explains.

What is proven of a wire says nothing of the register between it and the port. So each output of a module must
be named in an assertion, of the module or of a proof, or lie before one on the way through assignments; or
`ports.toml` gives the reason why it need not.

>>> "stuck_o" in unasserted()["fluidnpu_row_buffer"]
False
>>> sorted(asserted("assign a = b && c;  always_ff @(posedge c) assert (a == d);"))
['a', 'b', 'c', 'd']
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ..common.sources import sources, texts_of
from .catalogue import PROOFS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAME = re.compile(r"[A-Za-z_]\w*")
_SETS = re.compile(r"(?:(\w+)\s*(?:\[[^\]]*\]\s*)*(?:\.\w+)?\s*(?:<=|=)(?!=)([^;]*);)")


@cache
def reasons() -> Mapping[str, Mapping[str, str]]:
    """The reasons of `ports.toml`: of each module, by output, or by "*" for all that are left."""
    read: dict[str, dict[str, str]] = tomllib.loads(
        files("fluidnpu.rtl_tb").joinpath("proving").joinpath("ports.toml").read_text()
    )
    return read


def outputs(text: str) -> list[str]:
    r"""Names of a module's outputs, in order.

    >>> outputs("module m (input t a_i, // b\n output logic [1:0] x_o,\n output t y_o\n);\nendmodule")
    ['x_o', 'y_o']
    """
    ports = _plain(text).partition(");\n")[0]
    return re.findall(r"\boutput\b[^,]*?(\w+)\s*(?=,|$)", ports)


def uncommented(text: str) -> list[str]:
    r"""Ports of a module that no comment on their line explains.

    >>> uncommented("module m (\n  input t a_i,  // a word\n  output t x_o,\n  output t y_o\n);\nendmodule")
    ['x_o', 'y_o']
    """
    header = re.split(r"^\);", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^ *(?:input|output)\b[^/\n]*?(\w+) *,? *$", header, re.MULTILINE)


def asserted(text: str) -> set[str]:
    """Names that occur in assertions of a text, and those before them on the way through its assignments."""
    plain = re.sub(r"\bmodule\b.*?\);\n", "", _plain(text), flags=re.DOTALL)
    inputs: set[str] = set()
    for start in re.finditer(r"\bassert\s*\(", plain):
        inputs |= set(_NAME.findall(_in_brackets(plain, start.end())))
    sets = [(name, set(_NAME.findall(value))) for name, value in _SETS.findall(plain)]
    before = 0
    while before != len(inputs):
        before = len(inputs)
        for name, values in sets:
            if name in inputs:
                inputs |= values
    return inputs


def unasserted() -> dict[str, list[str]]:
    """Outputs of each module that no assertion speaks of, those with a reason included."""
    proofs, texts = texts_of("proofs", ".sv"), sources()
    left: dict[str, list[str]] = {}
    for file, text in texts.items():
        module = file.removesuffix(".sv")
        declared = set[str]()
        for proof in [None, *(proof for proof in PROOFS.values() if file in proof.reads)]:
            checked = {name: texts[name] for name in (proof.reads if proof else (file,))}
            if proof:
                checked |= {name: checked[name] + proofs[checker] for name, checker in proof.inside.items()}
                checked |= {name: proofs[name] for name in proof.harness}
            declared |= asserted(checked.pop(file))
            declared |= {port for around in checked.values() for port in _through(around, module)}
        silent = [name for name in outputs(text) if name not in declared and not _alias(text, name) & declared]
        if silent:
            left[module] = silent
    return left


def _alias(text: str, name: str) -> set[str]:
    """What an output is by a plain assignment."""
    return set(re.findall(rf"assign\s+{name}\s*=\s*(\w+)\s*;", text))


def _through(harness: str, module: str) -> set[str]:
    """Ports of a module by which a harness's assertions know it."""
    asserted_names, plain = asserted(harness), _plain(harness)
    ports: set[str] = set()
    for start in re.finditer(rf"\b{module}\s*(?:#\s*\(|\w+\s*\()", plain):
        rest = plain[start.start() :].partition(";")[0]
        for port, value in re.findall(r"\.(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?", rest):
            if set(_NAME.findall(value or port)) & asserted_names:
                ports.add(port)
    return ports


def _in_brackets(text: str, start: int) -> str:
    """The text from `start` to the bracket that closes the one before it."""
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1]


def _plain(text: str) -> str:
    """A text without its comments and the blanks before them."""
    return re.sub(r" *(?://[^\n]*|/\*.*?\*/)", "", text, flags=re.DOTALL)
