"""Functional coverage of the whole NPU, sampled in the RTL: situations that a run has met, or must meet.

The harness counts samples inside the NPU (`npu_model.cpp`); this file names them. Pure.

>>> named(1, 0x100 | 1 << 6 | 1 << 5)
['layer NORMAL with a residual, batch left by an exit', 'layer NORMAL with a residual, batch 1']
>>> sorted(named(2, 1 << 4 | 1 << 11 | 5 << 16))
['watchdog as the job would be done', 'watchdog in Drain', 'watchdog, next layer in Rest']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from fluidnpu.dse import Design, Mode
from fluidnpu.hls.formats import ActivationCode
from fluidnpu.hls.program import Descriptor

from ..data_plane.coverage import filter_bins, filter_bins_of_all, unit_bins, unit_bins_of_all

STATES = ("Idle", "Slots", "Await", "Begin", "Commands", "Drain", "Flush")
AHEAD = ("Rest", "Fetch", "Lookup", "Plan", "Planned", "Refused")  # of the layer that begins next
_PORTS = ("m0 read", "m1 read", "m2 read", "m2 write")
_EVENTS = (
    *(f"bus error of {port}" for port in _PORTS), "watchdog", "soft reset", "block that does not fit", "bad plan", "refused START",
    "refused EXIT or MERGE", "DONE",
)  # fmt: skip
_DONE_BIT, _WRITTEN_BIT = 10, 11
_CHANGES = ("unchanged", "left by an exit", "joined by a merge", "left and joined")
_QUEUES = ("core command", "input", "output", "residual", "block")
_PLACES = ("in the middle", "first", "last", "only")
_RESPONSES = {2: "SLVERR", 3: "DECERR"}
_LAYER, _MOMENT, _SLOT, _FULL, _BURST, _ANSWER, _PIECES = range(1, 8)
_USES = [use for use in ActivationCode if use is not ActivationCode.NONE]

_BUSY = STATES[1:6]
# Event -> states in which it can come.
_WHEN: Mapping[str, tuple[str, ...]] = {
    "bus error of m0 read": ("Await", "Commands", "Drain"),  # descriptors and weights
    "bus error of m1 read": ("Commands", "Drain"),
    "bus error of m2 read": ("Commands", "Drain"),
    "bus error of m2 write": ("Commands", "Drain"),
    "watchdog": _BUSY,
    "soft reset": STATES,
    "bad plan": ("Await",),
    "refused START": _BUSY,
    "refused EXIT or MERGE": _BUSY,
}
# Event -> how far the next layer can be when it comes.
_MEANWHILE: Mapping[str, tuple[str, ...]] = {
    "bus error of m0 read": ("Rest", "Fetch"),
    "watchdog": AHEAD,
    "soft reset": AHEAD,
}
# Pairs that one cycle must have met.
_TOGETHER = (
    ("watchdog", "soft reset"),
    *((f"bus error of {port}", other) for port in _PORTS for other in ("watchdog", "soft reset")),
    ("bad plan", "watchdog"),
    ("bad plan", "soft reset"),
)
_AT_THE_END = ("watchdog", "soft reset")  # in the cycle in which the job would be done


def named(kind: int, what: int) -> list[str]:
    """Return the bins that a sample of the harness falls into."""
    if kind == _LAYER:
        mode, residual = Mode(what & 15), " with a residual" if what >> 5 & 1 else ""
        lanes = "" if mode is not Mode.LANES else " by rows" if what >> 4 & 1 else " by samples"
        layer = f"layer {mode.name}{lanes}{residual}"
        return [f"{layer}, batch {_CHANGES[what >> 6 & 3]}", f"{layer}, batch {what >> 8}"]
    if kind == _MOMENT:
        return _moment(what & 0xFFFF, STATES[what >> 16 & 7], AHEAD[what >> 19])
    if kind == _SLOT:
        return [f"slot {what} active"]
    if kind == _FULL:
        return [f"{_QUEUES[what]} queue full"]
    if kind == _BURST:
        return [f"burst of {_PORTS[what & 3]} {'above' if what >> 2 else 'below'} 4 GiB"]
    if kind == _PIECES:
        return [
            f"pieces awaited in {STATES[what & 7]}",
            *(["pieces awaited, and a row of residuals"] if what >> 3 else []),
        ]
    port, response, place = _PORTS[what & 15], _RESPONSES.get(what >> 4 & 15, "EXOKAY"), _PLACES[what >> 8]
    return [f"{response} to {port}" + ("" if "write" in port else f", {place} beat")]


def layer_bins(layer: Descriptor, mode: Mode) -> set[str]:
    """The bins that a layer falls into by what its outputs pass and what its residual repeats."""
    use = ActivationCode(layer.activation)
    bins = unit_bins(layer) | filter_bins(layer) | ({f"a filter behind {mode.name}"} if layer.filter_kernel else set())
    return bins | ({f"{use.name} of {mode.name}"} if use is not ActivationCode.NONE else set())


def _moment(mask: int, state: str, ahead: str) -> list[str]:
    events = [name for bit, name in enumerate(_EVENTS) if mask >> bit & 1]
    names = [f"{event} in {state}" for event in events if event != "DONE"]
    names += [f"{event}, next layer in {ahead}" for event in events if event in _MEANWHILE]
    names += [f"{first} with {second}" for first, second in combinations(events, 2)]
    # DONE is held back by an error or a reset, so that only what lies before it shows the coincidence.
    if mask >> _WRITTEN_BIT & 1 and state == "Drain":
        names += [f"{event} as the job would be done" for event in events if event in _AT_THE_END]
    return names


def bins(samples: Mapping[tuple[int, int], int]) -> Counter[str]:
    """Return the hits of every bin."""
    total: Counter[str] = Counter()
    for (kind, what), hits in samples.items():
        for name in named(kind, what):
            total[name] += hits
    return total


def required(design: Design) -> frozenset[str]:
    """The bins that a campaign on this design must close."""
    layers = ["NORMAL", "MAX_POOL", "SUM_POOL"]
    layers += ["WIDE", "LANES by rows", *(["LANES by samples"] if design.b_max > 1 else [])] if design.stackable else []
    layers += ["SPLIT"] if design.split else []
    plans = [f"layer {name}{residual}" for name in layers for residual in ("", " with a residual")]
    wanted = {
        f"{plan}, batch {change}" for plan in plans for change in _CHANGES if design.b_max > 1 or "and" not in change
    }
    for plan in plans:
        least = 2 if "by samples" in plan else 1
        wanted |= {f"{plan}, batch {batch}" for batch in range(least, design.b_max + 1)}
    wanted |= {f"{event} in {state}" for event, states in _WHEN.items() for state in states}
    wanted |= {f"{event}, next layer in {state}" for event, states in _MEANWHILE.items() for state in states}
    wanted |= {name for pair in _TOGETHER for name in [_pair(*pair)]}
    wanted |= {f"{event} as the job would be done" for event in _AT_THE_END}
    wanted |= {f"slot {slot} active" for slot in range(32)}
    wanted |= {f"burst of {port} {side} 4 GiB" for port in _PORTS for side in ("below", "above")}
    if design.activation:
        modes = [mode for mode in Mode if any(name.split()[0] == mode.name for name in layers)]
        wanted |= {f"{use.name} of {mode.name}" for use in _USES for mode in modes}
        wanted |= unit_bins_of_all()
    wanted |= filter_bins_of_all(design)
    if design.has_filter:
        gemms = {name.split()[0] for name in layers} - {"MAX_POOL", "SUM_POOL"}
        wanted |= {f"a filter behind {name}" for name in gemms}
    if design.activation or design.has_filter:
        wanted |= {"bus error of m2 read in Await", "pieces awaited, and a row of residuals"}
        wanted |= {f"pieces awaited in {state}" for state in ("Await", "Commands", "Drain")}
    wanted |= {f"{response} to m2 write" for response in _RESPONSES.values()}
    wanted |= {f"SLVERR to {port}, {place} beat" for port in _PORTS[:3] for place in _PLACES[:3]}
    wanted -= {"SLVERR to m2 read, in the middle beat"}  # a row of residuals is a burst of two or three beats
    wanted |= {f"DECERR to {port}, first beat" for port in _PORTS[:3]}
    return frozenset(wanted | {f"{queue} queue full" for queue in ("core command", "input", "block")})


def _pair(first: str, second: str) -> str:
    first, second = sorted((first, second), key=_EVENTS.index)
    return f"{first} with {second}"
