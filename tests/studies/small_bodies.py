"""Write the numbers that `test_verdicts.py` asks all rules with: small runs of the studies.

    python tests/studies/small_bodies.py [STUDY...]

Fluid Batching's is cut from a run at full size, `build/study/fluid-batching/study.json`: its policies take
long to solve. A new part of a study is in its rules' numbers only after this has run again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import patch

from fluidnpu.scheduler.comparison import HERE
from fluidnpu.studies import STUDIES, Size, find_study, run_study
from fluidnpu.studies.writing import dumps

HERE_FOLDER = Path(__file__).parent / "bodies"
FULL = Path(__file__).parents[2] / "build" / "study" / "fluid-batching" / "study.json"
NOT_JUDGED = ("frontier", "drift", "codesign", "accuracy", "map, ResNet-50, ZC706", "map, Inception-v3, ZCU104")
SIZES = {
    "delen": Size(seeds=2, requests=600),
    "pame": Size(seeds=2, requests=400),
    "tetris": Size(seeds=1, requests=400),
    "ensemble": Size(seeds=1, requests=200),
}
SMALLER = {
    "fluidnpu.studies.delen.shares.FLOOD_S": 8,
    "fluidnpu.studies.delen.shares.PHASE_S": 6,
    "fluidnpu.studies.pame.simulations.PROOF_NODES": 100,
    "fluidnpu.studies.pame.simulations.PROOF_SAMPLES": 320,
    "fluidnpu.studies.pame.load.REQUESTS": 3000,
}


def small_body(name: str) -> str:
    """Run a study at its small size; give its numbers as text."""
    if name not in SIZES:
        body = json.loads(FULL.read_text())
        for part in NOT_JUDGED:
            del body["parts"][part]
        return dumps(body)
    patches = [patch(target, value) for target, value in SMALLER.items()]
    for one in patches:
        one.start()
    try:
        return dumps(run_study(find_study(name), SIZES[name], HERE, lambda done, total: None))
    finally:
        for one in patches:
            one.stop()


if __name__ == "__main__":
    for study in sys.argv[1:] or STUDIES:
        (HERE_FOLDER / f"{study}.json").write_text(small_body(study))
