"""Write ResNet-50's cycles that the study of TETRIS plans with, from the pages of every layer.

    python benchmarks/tetris_cycles.py

The study is installed without `docs`, so it has a copy: `studies/tetris/data/resnet50.json`, which names the
boards and memories. `make tables` runs this behind the pages.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "studies" / "tetris" / "data" / "resnet50.json"


def cycles_of(page: str) -> dict[str, dict[str, int]]:
    """Read the cycles of each layer by batch size from the text of a page."""
    found = {}
    for part in re.split(r"^B = ", page, flags=re.MULTILINE)[1:]:
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in part.splitlines() if line[:1] == "|"]
        found[part.split()[0]] = {
            row[0]: int(row[5]) for row in rows if len(row) > 6 and row[5].isdigit() and row[0] != "all"
        }
    return found


def main() -> None:
    """Write the copy anew."""
    kept = json.loads(COPY.read_text(encoding="utf-8"))
    for board, facts in kept["boards"].items():
        page = ROOT / "docs" / "explanation" / "cycles" / f"resnet50-{board}-{facts['memory']}.md"
        facts["cycles"] = cycles_of(page.read_text(encoding="utf-8"))
    COPY.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
