"""Measures what each extra adds to an installation, in MB on the disk.

    python benchmarks/extras.py WHEEL [EXTRA ...]

pip installs `WHEEL` and `WHEEL[EXTRA]` into fresh folders and the files there are added up, compiled Python
included. benchmarks/extras.json keeps the size above the base and the number of packages;
docs/how-to/install.md shows them. It needs a package index; minutes, and two GB below the temporary folder.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RESULTS = Path(__file__).with_suffix(".json")
FOR_THE_PROJECT = ("dev", "docs", "notebooks", "route")  # extras that no user asks for


def extras_of(wheel: Path) -> list[str]:
    """Return the extras that a wheel declares, less those for the project's own work."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = re.findall(r"^Provides-Extra: (\S+)$", archive.read(name).decode(), re.M)
    return [extra for extra in declared if extra not in FOR_THE_PROJECT]


def measured(wheel: Path, extra: str) -> tuple[float, int]:
    """Install into a fresh folder; return its size in MB (10^6 bytes) and the number of distributions."""
    with tempfile.TemporaryDirectory() as folder:
        what = f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve())
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, what]
        subprocess.run(command, check=True)
        files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
        return sum(path.stat().st_size for path in files) / 1e6, len(list(Path(folder).glob("*.dist-info")))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="a wheel of fluidnpu")
    parser.add_argument("extras", nargs="*", help="[default: all]")
    given = parser.parse_args()
    base_mb, base_packages = measured(given.wheel, "")
    results = json.loads(RESULTS.read_text()) if given.extras else {"extras": {}}
    results["where"] = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    results["base"] = {"mb": round(base_mb, 1), "packages": base_packages}
    for extra in given.extras or extras_of(given.wheel):
        size, packages = measured(given.wheel, extra)
        results["extras"][extra] = {"mb": round(size - base_mb, 1), "packages": packages - base_packages}
        print(f"{extra:12} {size - base_mb:8.1f} MB  {packages - base_packages} packages", flush=True)
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
