"""Runs proofs, their covers and their seeded bugs, and prints a line for each.

    python -m fluidnpu.rtl_tb.proving.report [NAME ...] [--no-bugs]

A proof that holds is PASS, a seeded bug that it finds is `caught`, with what found it. FAIL and MISSED are
the lines that must not be: of those, the trace of the counterexample is named. The exit code is 1 when there
is one, 2 for wrong arguments.

>>> from pathlib import Path
>>> said(Seed(name="b", file="f.sv", old="a", new="c"), ProofOutcome(verdict="PASS", folder=Path("nowhere")))
('MISSED', "seeded bug 'b': no run from reset breaks the proof")
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from ..common.command import ended
from ..errors import ProofError
from .catalogue import PROOFS
from .prover import Proof, ProofOutcome, Seed, answer, cover

REACHED = "what it is about can happen"


def said(seed: Seed | None, outcome: ProofOutcome) -> tuple[str, str]:
    """Return the word and the sentence for an outcome of a proof, or of one of its seeded bugs."""
    if seed is None:
        word = "PASS" if outcome.verdict == "PASS" else "FAIL"
        return word, "" if word == "PASS" else _found(outcome)
    bug = f"seeded bug '{seed.name}'"
    if outcome.verdict == seed.verdict:
        return "caught", f"{bug}: {_found(outcome)}"
    if outcome.verdict == "PASS":
        return "MISSED", f"{bug}: no run from reset breaks the proof"
    return (
        "MISSED",
        f"{bug}: {_found(outcome)}, and it must be {'lost induction' if seed.any_state else 'a run from reset'}",
    )


def _found(outcome: ProofOutcome) -> str:
    where = f", {outcome.broken}" if outcome.broken else ""
    if outcome.verdict == "UNKNOWN":
        return f"the induction no longer closes{where}"
    at = "" if outcome.cycle is None else f" at cycle {outcome.cycle}"
    return f"a counterexample{at}{where}"


def _lines(proof: Proof, bugs: bool) -> Iterator[tuple[str, str, float, ProofOutcome]]:
    """Yield (word, sentence, seconds, outcome) of each question about a proof."""
    began = time.monotonic()
    outcome = answer(proof)
    word, what = said(None, outcome)
    yield word, f"{what}: {proof.says}" if what else proof.says, time.monotonic() - began, outcome
    began = time.monotonic()
    outcome = cover(proof)
    word = "PASS" if outcome.verdict == "PASS" else "FAIL"
    yield (
        word,
        REACHED if word == "PASS" else "a situation of its `cover` statements is never reached",
        time.monotonic() - began,
        outcome,
    )
    for seed in proof.seeds if bugs else ():
        began = time.monotonic()
        outcome = answer(proof, seed)
        word, what = said(seed, outcome)
        yield word, what, time.monotonic() - began, outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all proofs, or those named; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.proving.report",
        description="Prove what the catalogue says of the RTL, and show that each proof finds its seeded bugs.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(PROOFS)}; all by default")
    parser.add_argument("--no-bugs", action="store_true", help="leave out the seeded bugs")
    parser.add_argument("--list", action="store_true", help="show the proofs and their sentences and stop")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(f"{name:15} {len(proof.seeds):3} seeded bugs  {proof.says}" for name, proof in PROOFS.items()))
        return 0
    for name in chosen.names:
        if name not in PROOFS:
            near = get_close_matches(name, PROOFS, 1)
            parser.error(
                f"NAME must be a proof, not '{name}' ({f'did you mean {near[0]}?' if near else '--list shows them'})"
            )
    names, words = chosen.names or list(PROOFS), list[str]()
    try:
        for name in names:
            for word, what, seconds, outcome in _lines(PROOFS[name], not chosen.no_bugs):
                words.append(word)
                print(f"{name:15} {word:6} {seconds:6.1f} s  {what}", flush=True)
                if word in ("FAIL", "MISSED"):
                    print(
                        f"{'':24} log: {outcome.log}" + (f"\n{'':24} trace: {outcome.trace}" if outcome.trace else "")
                    )
    except (ProofError, OSError) as error:
        print(f"FAIL  {error}", file=sys.stderr)
        return 1
    caught, bugs = words.count("caught"), words.count("caught") + words.count("MISSED")
    failed = words.count("FAIL") + words.count("MISSED")
    bugs_told = "" if chosen.no_bugs else f", {caught} of {bugs} seeded bugs caught"
    print(
        f"{len(names)} proofs: {words.count('PASS')} of {2 * len(names)} checks hold{bugs_told}"
        + (f"; {failed} FAILED" if failed else "")
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.proving.report"))
