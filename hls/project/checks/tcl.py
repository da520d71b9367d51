"""Check of Tcl scripts against the commands and options of Vivado HLS, Vitis HLS and Vivado. Runs nothing.

It finds unbalanced braces, unknown commands and options, options without a value, missing operands, and
variables that are read before they are set.

>>> check_tcl("open_project -reset prj", tool="vivado_hls")
[]
>>> check_tcl("open_project -rest prj", tool="vivado_hls")
["line 1: open_project has no option '-rest'"]

Source: UG902 (v2019.2) chapter 4 for Vivado HLS, UG1399 (v2022.1) "Tcl Commands" and "Deprecated and
Unsupported Features" for Vitis HLS, UG835 (v2019.2, v2022.1) for Vivado, the Tcl manual for the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ...errors import TclError

CLOSING = {"{": "}", "[": "]", '"': '"'}


@dataclass(frozen=True)
class TclCommand:
    """The syntax of a command: options with a value, options without, least and most operands."""

    valued: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    least: int = 0
    most: int = 99


def _command(least: int, most: int, valued: str = "", flags: str = "") -> TclCommand:
    return TclCommand(frozenset(valued.split()), frozenset(flags.split()), least, most)


TCL: Mapping[str, TclCommand] = {
    "set": _command(1, 2),
    "puts": _command(1, 2),
    "exit": _command(0, 1),
    "error": _command(1, 3),
    "if": _command(2, 99),
    "foreach": _command(3, 99),
    "expr": _command(1, 99),
    "list": _command(0, 99),
    "lindex": _command(1, 99),
    "llength": _command(1, 1),
    "lappend": _command(1, 99),
    "lrange": _command(3, 3),
    "dict": _command(1, 99),
    "append": _command(1, 99),
    "lsort": _command(1, 99),
    "lsearch": _command(2, 99),
    "split": _command(1, 2),
    "concat": _command(0, 99),
    "format": _command(1, 99),
    "string": _command(2, 99),
    "file": _command(2, 99),
    "glob": _command(1, 99, "-directory", "-nocomplain"),
    "source": _command(1, 1),
    "info": _command(1, 9),
    "catch": _command(1, 3),
    "return": _command(0, 1),
    "cd": _command(1, 1),
    "open": _command(1, 2),
    "read": _command(1, 2),
    "close": _command(1, 1),
    "regexp": _command(2, 99, "", "-nocase -all -inline -line"),
}

VIVADO_HLS: Mapping[str, TclCommand] = {
    "open_project": _command(1, 1, "", "-reset"),
    "open_solution": _command(1, 1, "", "-reset"),
    "set_top": _command(1, 1),
    "add_files": _command(1, 1, "-cflags -csimflags", "-tb"),
    "set_part": _command(1, 1, "-tool"),
    "create_clock": _command(0, 1, "-period -name"),
    "set_clock_uncertainty": _command(1, 2),
    "config_array_partition": _command(
        0, 0, "-maximum_size -auto_partition_threshold -auto_promotion_threshold", "-scalarize_all -include_ports"
    ),
    "config_rtl": _command(0, 0, "-reset -reset_level -module_prefix", "-reset_async -register_reset_num"),
    "config_schedule": _command(0, 0, "-effort", "-relax_ii_for_timing -verbose"),
    "config_compile": _command(0, 0, "-pipeline_loops -name_max_length", "-no_signed_zeros -unsafe_math_optimizations"),
    "csim_design": _command(0, 0, "-argv -ldflags -mflags -profile", "-clean -compiler -O -setup"),
    "csynth_design": _command(0, 0),
    "cosim_design": _command(
        0, 0, "-argv -ldflags -mflags -rtl -tool -trace_level", "-O -setup -disable_deadlock_detection"
    ),
    "export_design": _command(
        0, 0, "-format -flow -rtl -vendor -library -version -ipname -display_name -description -taxonomy", ""
    ),
    "close_solution": _command(0, 0),
    "close_project": _command(0, 0),
}

VITIS_HLS: Mapping[str, TclCommand] = {
    **VIVADO_HLS,
    "open_solution": _command(1, 1, "-flow_target", "-reset"),
    "config_array_partition": _command(0, 0, "-complete_threshold -throughput_driven"),
    "config_schedule": _command(0, 0, "", "-enable_dsp_full_reg"),
}

VIVADO: Mapping[str, TclCommand] = {
    "create_project": _command(0, 2, "-part", "-force -in_memory"),
    "close_project": _command(0, 0, "", "-quiet"),
    "current_project": _command(0, 1),
    "current_fileset": _command(0, 0),
    "current_design": _command(0, 1),
    "current_bd_design": _command(0, 1),
    "add_files": _command(1, 1, "-fileset", "-norecurse -quiet"),
    "get_files": _command(0, 1, "-of_objects", "-quiet"),
    "update_compile_order": _command(0, 0, "-fileset"),
    "update_ip_catalog": _command(0, 0, "-repo_path", "-rebuild"),
    "set_property": _command(2, 3, "-name -value", "-dict -quiet"),
    "get_property": _command(2, 2),
    "get_ips": _command(0, 1, "", "-all -quiet"),
    "get_ipdefs": _command(0, 1, "-filter", "-all -quiet"),
    "get_board_parts": _command(0, 1, "", "-quiet -latest_file_version"),
    "create_bd_design": _command(1, 1),
    "create_bd_cell": _command(1, 1, "-type -vlnv -reference"),
    "create_bd_intf_port": _command(1, 1, "-mode -vlnv"),
    "get_bd_intf_ports": _command(1, 1, "", "-quiet"),
    "assign_bd_address": _command(0, 1),
    "create_bd_addr_seg": _command(3, 3, "-range -offset"),
    "exclude_bd_addr_seg": _command(1, 99, "-target_address_space"),
    "get_bd_cells": _command(0, 1, "-filter", "-quiet"),
    "get_bd_pins": _command(1, 1, "", "-quiet"),
    "get_bd_intf_pins": _command(1, 1, "", "-quiet"),
    "get_bd_addr_spaces": _command(1, 1),
    "get_bd_addr_segs": _command(0, 1, "-of_objects"),
    "connect_bd_net": _command(2, 99, "-net"),
    "connect_bd_intf_net": _command(2, 2),
    "apply_bd_automation": _command(1, 1, "-rule -config -dict"),
    "validate_bd_design": _command(0, 0, "", "-force"),
    "save_bd_design": _command(0, 0),
    "make_wrapper": _command(1, 1, "", "-top -import"),
    "generate_target": _command(2, 2, "", "-force"),
    "launch_runs": _command(1, 1, "-to_step -jobs", ""),
    "wait_on_run": _command(1, 1, "-timeout"),
    "get_runs": _command(0, 1),
    "open_run": _command(1, 1, "-name"),
    "link_design": _command(0, 0, "-part -name -top -mode"),
    "synth_design": _command(0, 0, "-top -part -mode", ""),
    "opt_design": _command(0, 0),
    "place_design": _command(0, 0),
    "route_design": _command(0, 0),
    "write_hw_platform": _command(0, 1, "-file", "-fixed -include_bit -force"),
    "get_cells": _command(0, 99, "-filter -of_objects", "-hierarchical -quiet -regexp -nocase"),
    "get_sites": _command(0, 1, "-of_objects -filter", "-quiet"),
    "report_utilization": _command(0, 0, "-file", "-hierarchical"),
    "report_timing_summary": _command(0, 0, "-file -max_paths", ""),
    "report_high_fanout_nets": _command(0, 0, "-file -max_nets", "-timing"),
    "report_design_analysis": _command(0, 0, "-file", "-congestion -complexity -timing"),
    "report_methodology": _command(0, 0, "-file"),
    "report_cdc": _command(0, 0, "-file", "-details"),
    "ipx::package_project": _command(0, 0, "-root_dir -vendor -library -taxonomy -set_current", "-import_files -force"),
    "ipx::current_core": _command(0, 0),
    "ipx::get_memory_maps": _command(1, 1, "-of_objects"),
    "ipx::get_address_blocks": _command(1, 1, "-of_objects"),
    "ipx::add_register": _command(2, 2),
    "ipx::get_bus_interfaces": _command(1, 1, "-of_objects"),
    "ipx::create_xgui_files": _command(1, 1),
    "ipx::update_checksums": _command(1, 1),
    "ipx::check_integrity": _command(1, 1, "", "-quiet"),
    "ipx::save_core": _command(1, 1),
}

TOOLS: Mapping[str, Mapping[str, TclCommand]] = {
    "vivado_hls": {**TCL, **VIVADO_HLS},
    "vitis_hls": {**TCL, **VITIS_HLS},
    "vivado": {**TCL, **VIVADO},
}


def check_tcl(text: str, tool: str) -> list[str]:
    """Check a script for `tool`, one of TOOLS: one sentence for each problem."""
    try:
        return list(_Checker(TOOLS[tool]).check(text, 1))
    except TclError as error:
        return [str(error)]


class _Checker:
    """A walk through commands in order, into bodies and bracketed commands, with the variables set so far."""

    def __init__(self, commands: Mapping[str, TclCommand]) -> None:
        self._commands = commands
        self._set = {"argv", "argc", "env"}

    def check(self, text: str, line: int) -> Iterator[str]:
        for at, words in split_commands(text, line):
            yield from self._check_command(at, words)

    def _check_command(self, line: int, words: list[str]) -> Iterator[str]:
        for word in words[1:]:
            if not word.startswith("{"):
                yield from self._check_substitutions(word, line)
        name = words[0]
        command = self._commands.get(name)
        if command is None:
            yield f"line {line}: there is no command '{name}'"
            return
        yield from self._check_words(line, name, command, words[1:])
        yield from self._check_bodies(line, name, words)

    def _check_bodies(self, line: int, name: str, words: list[str]) -> Iterator[str]:
        if name in ("set", "lappend", "append") and len(words) > (2 if name == "set" else 1):
            self._set.add(words[1])
        elif name == "regexp":
            operands = [word for word in words[1:] if word not in self._commands[name].flags]
            self._set.update(operands[2:])
        elif name == "foreach":
            self._set.update(_inner(words[1]).split())
            yield from self.check(_inner(words[-1]), line)
        elif name == "catch":
            yield from self.check(_inner(words[1]), line)
            self._set.update(words[2:])
        elif name == "if":
            yield from self._check_substitutions(_inner(words[1]), line)
            for before, word in pairwise(words[1:]):
                if before == "elseif":
                    yield from self._check_substitutions(_inner(word), line)
                elif word not in ("else", "elseif", "then"):
                    yield from self.check(_inner(word), line)
        elif name == "expr":
            for word in words[1:]:
                yield from self._check_substitutions(_inner(word), line)

    def _check_words(self, line: int, name: str, command: TclCommand, words: list[str]) -> Iterator[str]:
        """Check options and the number of operands; plain Tcl commands have no options here."""
        operands, at = 0, 0
        while at < len(words):
            word = words[at]
            if not re.fullmatch(r"-[A-Za-z]\w*", word) or (name in TCL and not command.flags):
                operands += 1
            elif word in command.valued:
                at += 1
                if at == len(words) or words[at] in command.valued | command.flags:
                    yield f"line {line}: {name} {word} needs a value"
            elif word not in command.flags:
                yield f"line {line}: {name} has no option '{word}'"
            at += 1
        if not command.least <= operands <= command.most:
            yield f"line {line}: {name} takes {command.least} to {command.most} operands, not {operands}"

    def _check_substitutions(self, word: str, line: int) -> Iterator[str]:
        """Variables and bracketed commands inside a word."""
        at = 0
        while at < len(word):
            if word[at] == "\\":
                at += 2
            elif word[at] == "[":
                end = _end(word, at, line)
                yield from self.check(word[at + 1 : end], line)
                at = end + 1
            elif word[at] == "$":
                variable = re.match(r"\$(?:\{([^}]*)\}|(\w+))", word[at:])
                name = (variable.group(1) or variable.group(2)) if variable else ""
                if name not in self._set:
                    yield f"line {line}: variable '{name}' is read before it is set"
                at += len(variable.group(0)) if variable else 1
            else:
                at += 1


def _inner(word: str) -> str:
    """The text of a braced or quoted word."""
    return word[1:-1] if word[:1] in ("{", '"') else word


def split_commands(text: str, line: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Split a script into (line, words) of its commands; words keep their braces, quotes and brackets.

    TclError when one of those is not closed.

    >>> list(split_commands("set a {b c}; puts [x $a] # no comment"))
    [(1, ['set', 'a', '{b c}']), (1, ['puts', '[x $a]', '#', 'no', 'comment'])]
    """
    words: list[str] = []
    start, at = line, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and text[at + 1 : at + 2] == "\n":
            line, at = line + 1, at + 2
        elif char == "#" and not words:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif char in "\n;":
            if words:
                yield start, words
            words, at = [], at + 1
            line += char == "\n"
            start = line
        elif char.isspace():
            at += 1
        else:
            if not words:
                start = line
            end = _word_end(text, at, line)
            words.append(text[at:end])
            line += text.count("\n", at, end)
            at = end
    if words:
        yield start, words


def _word_end(text: str, at: int, line: int) -> int:
    if text[at] in '{"':
        end = _end(text, at, line) + 1
        if end < len(text) and text[end] not in " \t\n;\\":
            raise TclError(f"line {line}: there must be a space after a closing '{text[end - 1]}'")
        return end
    while at < len(text) and not text[at].isspace() and text[at] != ";":
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            at = _end(text, at, line)
        elif text[at : at + 2] == "${":
            at = _end(text, at + 1, line)
        elif text[at] in "}]":
            raise TclError(f"line {line}: '{text[at]}' closes nothing")
        at += 1
    return at


def _end(text: str, at: int, line: int) -> int:
    """The place where the brace, bracket or quote at `at` closes."""
    opening, closing = text[at], CLOSING[text[at]]
    depth, place = 0, at
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == closing and ((opening == '"' and place > at) or opening != '"'):
            depth -= 1
            if depth <= 0:
                return place
        elif char == opening:
            depth += 1
        elif char == "[" and opening == '"':
            place = _end(text, place, line)
        place += 1
    raise TclError(f"line {line}: '{opening}' is never closed")
