"""Check of HLS pragmas against an allow-list for each dialect; compilers ignore a mistyped pragma.

>>> check_pragmas("#pragma HLS PIPELINE II=1")
[]
>>> check_pragmas("#pragma HLS PIPELINE IL=1")
["line 1: pragma HLS PIPELINE has no option 'IL'"]

Source: UG902 (v2019.2), High-Level Synthesis, chapter 4, `set_directive_*` commands and their pragma forms;
UG1399 (v2022.1), Vitis HLS, "HLS Pragmas" and "Deprecated and Unsupported Features".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.dialect import Dialect

_NAME = r"[A-Za-z_][A-Za-z_0-9.]*"
_NUMBER = r"[0-9]+"
_CORES = (
    "RAM_(1P|2P|S2P|T2P)(_BRAM|_LUTRAM|_URAM)?|ROM_(1P|2P)(_BRAM|_LUTRAM)?|FIFO(_BRAM|_LUTRAM|_SRL)?"
    "|Mul|MulnS|DSP48|AddSub"
)


@dataclass(frozen=True)
class Directive:
    """Options of one pragma: `values` are name=pattern, `flags` stand alone, `needs` are required."""

    values: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()


def _one_of(*words: str) -> frozenset[str]:
    return frozenset(words)


DIRECTIVES: Mapping[str, Directive] = {
    "ALLOCATION": Directive({"instances": _NAME, "limit": _NUMBER}, _one_of("function", "operation", "core")),
    "ARRAY_PARTITION": Directive(
        {"variable": _NAME, "dim": _NUMBER, "factor": _NUMBER}, _one_of("complete", "cyclic", "block"), _one_of("variable")
    ),
    "ARRAY_RESHAPE": Directive(
        {"variable": _NAME, "dim": _NUMBER, "factor": _NUMBER}, _one_of("complete", "cyclic", "block"), _one_of("variable")
    ),
    "DATAFLOW": Directive({}, _one_of("disable_start_propagation")),
    "DATA_PACK": Directive({"variable": _NAME, "instance": _NAME}, _one_of("struct_level", "field_level"), _one_of("variable")),
    "DEPENDENCE": Directive(
        {"variable": _NAME, "distance": _NUMBER},
        _one_of("array", "pointer", "inter", "intra", "RAW", "WAR", "WAW", "true", "false"),
    ),
    "EXPRESSION_BALANCE": Directive({}, _one_of("off")),
    "FUNCTION_INSTANTIATE": Directive({"variable": _NAME}, frozenset(), _one_of("variable")),
    "INLINE": Directive({}, _one_of("region", "recursive", "off")),
    "INTERFACE": Directive(
        {
            "port": _NAME,
            "bundle": _NAME,
            "depth": _NUMBER,
            "offset": "off|direct|slave|" + _NUMBER,
            "name": _NAME,
            "latency": _NUMBER,
            "num_read_outstanding": _NUMBER,
            "num_write_outstanding": _NUMBER,
            "max_read_burst_length": _NUMBER,
            "max_write_burst_length": _NUMBER,
        },
        _one_of(
            "ap_none", "ap_stable", "ap_vld", "ap_ack", "ap_hs", "ap_ovld", "ap_memory", "bram", "ap_fifo", "ap_bus",
            "ap_ctrl_none", "ap_ctrl_hs", "ap_ctrl_chain", "axis", "s_axilite", "m_axi", "register", "both", "forward", "reverse", "off",
        ),
        _one_of("port"),
    ),
    "LATENCY": Directive({"min": _NUMBER, "max": _NUMBER}),
    "LOOP_FLATTEN": Directive({}, _one_of("off")),
    "LOOP_MERGE": Directive({}, _one_of("force")),
    "LOOP_TRIPCOUNT": Directive({"min": _NUMBER, "max": _NUMBER, "avg": _NUMBER}),
    "PIPELINE": Directive({"II": _NUMBER}, _one_of("rewind", "enable_flush", "off")),
    "RESET": Directive({"variable": _NAME}, _one_of("off"), _one_of("variable")),
    "RESOURCE": Directive({"variable": _NAME, "core": _CORES, "latency": _NUMBER}, frozenset(), _one_of("variable", "core")),
    "STREAM": Directive({"variable": _NAME, "depth": _NUMBER, "dim": _NUMBER}, _one_of("off"), _one_of("variable")),
    "UNROLL": Directive({"factor": _NUMBER}, _one_of("region", "skip_exit_check")),
}  # fmt: skip


_PARTITION = Directive(
    {"variable": _NAME, "type": "complete|cyclic|block", "dim": _NUMBER, "factor": _NUMBER},
    frozenset(),
    _one_of("variable", "type"),
)
VITIS_DIRECTIVES: Mapping[str, Directive] = {
    **{name: directive for name, directive in DIRECTIVES.items() if name not in ("DATA_PACK", "RESOURCE")},
    "AGGREGATE": Directive({"variable": _NAME, "compact": "bit|byte|none|auto"}, frozenset(), _one_of("variable")),
    "ARRAY_PARTITION": _PARTITION,
    "ARRAY_RESHAPE": _PARTITION,
    "BIND_STORAGE": Directive(
        {
            "variable": _NAME,
            "type": "fifo|(ram_(1p|1wnr|2p|s2p|t2p)|rom_(1p|2p|np))",
            "impl": "bram|lutram|uram|srl|memory|auto",
            "latency": _NUMBER,
        },
        frozenset(),
        _one_of("variable", "type"),
    ),
    "DEPENDENCE": Directive(
        {
            "variable": _NAME,
            "class": "array|pointer",
            "type": "inter|intra",
            "direction": "RAW|WAR|WAW",
            "distance": _NUMBER,
            "dependent": "true|false",
        }
    ),
    "INTERFACE": Directive(
        {**DIRECTIVES["INTERFACE"].values, "mode": "|".join(sorted(DIRECTIVES["INTERFACE"].flags))},
        _one_of("register", "both", "forward", "reverse", "off"),
        _one_of("port", "mode"),
    ),
}
BY_DIALECT = {Dialect.VIVADO_HLS: DIRECTIVES, Dialect.VITIS_HLS: VITIS_DIRECTIVES}


def check_pragmas(text: str, dialect: Dialect = Dialect.VIVADO_HLS) -> list[str]:
    """Check the pragmas of a C++ text: one sentence for each problem."""
    options_of = BY_DIALECT[dialect]
    problems = []
    names = set(re.findall(r"[A-Za-z_]\w*", "\n".join(line for line in text.splitlines() if "#pragma" not in line)))
    for number, line in enumerate(text.splitlines(), 1):
        if not re.match(r"\s*#\s*pragma\b", line):
            continue
        words = line.split()
        if len(words) < 3 or words[0] != "#pragma" or words[1] != "HLS":
            problems.append(f"line {number}: a pragma must read '#pragma HLS DIRECTIVE', not '{line.strip()}'")
        elif words[2] not in options_of:
            problems.append(f"line {number}: there is no pragma HLS {words[2]}")
        else:
            options = _check_options(words[2], options_of[words[2]], words[3:], names)
            problems += [f"line {number}: {problem}" for problem in options]
    return problems


def _check_options(name: str, directive: Directive, options: list[str], names: set[str]) -> list[str]:
    problems = []
    given = set()
    for option in options:
        key, equals, value = option.partition("=")
        given.add(key)
        if equals and key in directive.values:
            if not re.fullmatch(directive.values[key], value):
                problems.append(f"pragma HLS {name} cannot have {key}={value}")
            elif key in ("variable", "port") and names and not {*value.split("."), "return"} <= {"return", *names}:
                problems.append(f"pragma HLS {name} names '{value}', which the text does not")
        elif equals or key not in directive.flags:
            problems.append(f"pragma HLS {name} has no option '{key}'")
    problems += [f"pragma HLS {name} needs {need}=" for need in sorted(directive.needs - given)]
    return problems
