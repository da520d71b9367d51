"""Runs the proofs, their covers and their seeded bugs and prints a line for each.

    python -m fluidnpu.rtl_tb.proving.report [NAME ...]

The exit code is 1 when a verdict is not as it must be, 2 when no proof has that name.
"""

from __future__ import annotations

import sys
import time

from .catalogue import PROOFS
from .prover import Proof, Seed, cover, prove

REACHED = "what it is about can happen"


def _checks(proof: Proof) -> list[tuple[str, str, Seed | None]]:
    """(Verdict that must come, subject of the check, seeded bug) of each check."""
    bugs = [(seed.verdict, f"seeded bug '{seed.name}'", seed) for seed in proof.seeds]
    return [("PASS", proof.says, None), ("PASS", REACHED, None), *bugs]


def main() -> None:
    """Run all proofs, or those named on the command line."""
    names = sys.argv[1:] or list(PROOFS)
    strangers = [name for name in names if name not in PROOFS]
    if strangers:
        print(f"no proof is named {', '.join(strangers)}; there are {', '.join(PROOFS)}", file=sys.stderr)
        sys.exit(2)
    wrong = 0
    for name in names:
        proof = PROOFS[name]
        for expected, what, seed in _checks(proof):
            began = time.monotonic()
            verdict = cover(proof) if what == REACHED else prove(proof, seed)
            wrong += verdict != expected
            mark = "" if verdict == expected else f"  (must be {expected})"
            print(f"{name:15} {verdict:7} {time.monotonic() - began:6.1f} s  {what}{mark}", flush=True)
    print(f"{len(names)} proofs, {wrong} verdicts are not as they must be")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
