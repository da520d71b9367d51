"""A copy of the checkout to change, and a small tree with a door, for tests of what is stale."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copied(folder: Path) -> Path:
    """Copy the files that git knows, or would know, with the rooms' links as they are."""
    words = ["git", "ls-files", "-co", "--exclude-standard"]
    named = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in named:
        source, place = ROOT / name, folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            place.symlink_to(source.readlink())
        elif source.is_file():
            place.write_bytes(source.read_bytes())
    return folder


def small(folder: Path) -> Path:
    """Write a room with a door, an inner folder, and a script that uses one name of two."""
    files = {
        "dse/__init__.py": "import lazy_loader\n",
        "dse/__init__.pyi": "from .model import cost as cost\nfrom .other import price as price\n",
        "dse/model.py": "from .inner.table import ROWS\n\ndef cost():\n    from .late import why\n    return ROWS, why\n",
        "dse/late.py": "why = 1\n",
        "dse/other.py": "price = 2\n",
        "dse/inner/__init__.py": "",
        "dse/inner/table.py": "ROWS = (1, 2)  # a comment\n",
        "dse/data.json": "{}\n",
        "host/__init__.py": "",
        "host/server.py": "from fluidnpu.dse import price\n",
        "fluidnpu/__init__.py": "",
        "fluidnpu/__init__.pyi": "from .dse import cost as cost\n",
        "benchmarks/beside.py": "import os\n",
        "benchmarks/one.py": "import beside\nfrom fluidnpu.dse import cost\n",
        "benchmarks/front.py": "import fluidnpu\n\nprint(fluidnpu.cost())\n",
        "benchmarks/dotted.py": "from fluidnpu import dse\n\nprint(dse.price)\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
