"""Draw the pictures of README and pages.

python docs/make_pictures.py          the concepts: seconds
python docs/make_pictures.py --demo   that of the README, too, from a run of the demo in its environment
"""

import io
import subprocess
import sys
from pathlib import Path

from concept_pictures import PICTURES
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
WIDTH = 80


def main() -> None:
    """Draw what the command line asks for."""
    if "--demo" in sys.argv[1:]:
        draw_demo()  # first: a demo that fails leaves all pictures
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


def draw_demo() -> None:
    """Run the demo, then write demo.svg."""
    command = [str(Path(sys.executable).parent / "fluidnpu"), "demo", "--out", "out/demo"]
    env = {
        "FORCE_COLOR": "1",
        "TTY_INTERACTIVE": "0",  # colours, but no progress bars
        "COLUMNS": str(WIDTH),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),  # this checkout
        "OMP_NUM_THREADS": "1",
        "HOME": str(Path.home()),
    }
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    screen = Console(record=True, width=WIDTH, file=io.StringIO())
    screen.print("[bold green]$[/] make demo", highlight=False)
    screen.print(Text.from_ansi(done.stdout.rstrip()))
    screen.save_svg(str(FOLDER / "demo.svg"), title="fluidnpu demo", unique_id="demo")


if __name__ == "__main__":
    main()
