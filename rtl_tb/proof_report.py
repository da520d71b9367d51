"""Runs the proofs and their seeded bugs and prints a line for each: `python -m rtl_tb.proof_report [NAME ...]`; exit code 1 when one is wrong."""

from __future__ import annotations

import sys
import time

from .formal import prove
from .proofs import PROOFS


def main() -> None:
    """All proofs, or those named."""
    wrong = 0
    for name in sys.argv[1:] or PROOFS:
        proof = PROOFS[name]
        for seed in (None, *proof.seeds):
            began = time.monotonic()
            verdict = prove(proof, seed)
            wrong += (verdict == "PASS") == bool(seed)
            what = f"seeded bug '{seed.name}'" if seed else proof.says
            print(f"{name:15} {verdict:7} {time.monotonic() - began:6.1f} s  {what}", flush=True)
    print(f"{len(sys.argv[1:] or PROOFS)} proofs, {wrong} verdicts are not as they must be")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
