"""Puts known bugs into the RTL, one at a time, and prints what finds each.

    python -m fluidnpu.rtl_tb.proving.bugs [WORD ...] [--list]

`bugs.toml` is the list. The exit code is 1 when a bug is not found, 2 for wrong arguments.

>>> len(BUGS), sum(bug.was == "survived" for bug in BUGS)
(156, 13)
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from ..common.command import ended
from ..common.sources import edited, sources
from ..errors import RtlError, SimulationError
from ..simulation.model import play
from ..simulation.setups import BenchSetup, setup
from .catalogue import PROOFS
from .prover import Proof, answer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROUNDS = 8  # of the campaign, at most
DRAWN = 6  # vectors that a core with words of 8 bits gets behind its edges


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A change of the RTL: `old`, which occurs once in `file`, becomes `new`.

    `by`: what must find it: "proof NAME", "bench TOP", "core", "npu" or "npu least" (the campaign on that
    array), or "extremes"; "bench TOP bytes", "core bytes" or "npu bytes" with words of 8 bits. `was`: what
    found it when it was put in first: "default" tests, "long" ones, "by luck", or none ("survived").
    """

    name: str
    file: str
    old: str
    new: str
    by: str
    was: str = "default"

    @property
    def edit(self) -> tuple[str, str, str]:
        """The change as builds take it: file, old text, new text."""
        return self.file, self.old, self.new

    @property
    def text(self) -> str:
        """The file with the bug in it. SimulationError unless it fits once."""
        return edited(sources(), [self.edit])[self.file]


def _read() -> tuple[Bug, ...]:
    raw = files("fluidnpu.rtl_tb").joinpath("proving").joinpath("bugs.toml").read_text()
    return tuple(Bug(**entry) for entry in tomllib.loads(raw)["bug"])


BUGS: tuple[Bug, ...] = _read()


def found(bug: Bug) -> str:
    """Return how a bug shows in what must find it, or "" when it does not.

    RtlError when the RTL with the bug does not even build.
    """
    kind, _, name = bug.by.partition(" ")
    if kind == "proof":
        return _by_proof(bug, PROOFS[name])
    if kind == "bench":
        module, _, words = name.partition(" ")
        return _by_bench(bug, setup(module, {"WordBits": 8} if words == "bytes" else None))
    if kind == "extremes":
        return _by_extremes(bug)
    return _by_campaign(bug, name) if kind == "npu" else _by_core(bug, name)


def _by_proof(bug: Bug, proof: Proof) -> str:
    outcome = answer(proof, override={bug.file: bug.text})
    if outcome.verdict == "PASS":
        return ""
    what = "a counterexample" if outcome.verdict == "FAIL" else "the induction no longer closes"
    return f"{what}, {outcome.broken}"


def _by_bench(bug: Bug, ready: BenchSetup) -> str:
    model = type(ready.model)(top=ready.model.top, parameters=ready.model.parameters, override={bug.file: bug.text})
    model.build()
    return ", ".join(play(model, env=ready.env).failed)


def _by_campaign(bug: Bug, array: str) -> str:
    from ..npu.campaign import campaign
    from ..npu.world import ARRAY, BYTES, LEAST, model_of

    design = {"": ARRAY, "least": LEAST, "bytes": BYTES}[array]
    model = model_of(design, (bug.edit,))
    model.build()
    try:
        campaign(1, ROUNDS, model=model, design=design)
    except SimulationError as error:
        return str(error).split(";")[0]
    return ""


def _by_extremes(bug: Bug) -> str:
    from ..npu.extremes import first_wrong
    from ..npu.world import LEAST, model_of

    return first_wrong(model_of(LEAST, (bug.edit,))).split(";")[0]


def _by_core(bug: Bug, array: str) -> str:
    from ..core.edges import BYTES, SPLIT, first_difference

    # Words of 8 bits need products, too: the edges are sums without any.
    return first_difference((bug.edit,), drawn=DRAWN if array else 0, numbers=BYTES if array else SPLIT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the bugs in, print what finds each; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.proving.bugs",
        description="Put known bugs into the RTL, one at a time, and tell what finds each.",
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="only bugs whose names hold one of these words")
    parser.add_argument("--list", action="store_true", help="show the bugs and what must find each, and stop")
    chosen = parser.parse_args(arguments)
    selected = [bug for bug in BUGS if not chosen.words or any(word in bug.name for word in chosen.words)]
    if not selected:
        parser.error(f"WORD must be in the name of a bug (--list shows them), not {' '.join(chosen.words)}")
    missed = 0
    for bug in selected:
        if chosen.list:
            print(f"{bug.by:30} {bug.name}")
            continue
        began = time.monotonic()
        try:
            how = found(bug)
        except (RtlError, OSError) as error:
            print(f"FAIL  {bug.name}: {error}", file=sys.stderr)
            return 1
        missed += not how
        verdict = f"{bug.by}: {how}" if how else f"{bug.by} does not find it"
        print(f"{'caught' if how else 'MISSED'} {time.monotonic() - began:6.1f} s  {bug.name}: {verdict}", flush=True)
    if not chosen.list:
        print(f"{len(selected) - missed} of {len(selected)} bugs caught")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.proving.bugs"))
