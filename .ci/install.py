"""Install with pip and show the step that it is at: `install.py "what, and how long" PIP'S WORDS...`.

On a terminal one line changes as pip continues; elsewhere a line is printed at the beginning and at the end.
All that pip says is in `install.log` of the environment. Needs nothing but Python.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

STEPS = (
    (r"Collecting ([^\s(<>=;~!\[]+)", "asking for {}"),
    (r"\s+Downloading (\S+) \((.* MB)\)", "downloading {}, {}"),
    (r"Building wheel for (\S+)", "building {}"),
    (r"Installing collected packages: (.*)", "unpacking {count} packages"),
)  # what pip says, and what we do


def step_of(line: str) -> str | None:
    """Say in a few words which step pip's line begins; None for all other lines.

    >>> step_of("  Downloading numpy.whl (18.3 MB)"), step_of("Installing collected packages: a, b")
    ('downloading numpy.whl, 18.3 MB', 'unpacking 2 packages')
    """
    for pattern, words in STEPS:
        if found := re.match(pattern, line):
            return words.format(*found.groups(), count=found[1].count(",") + 1)
    return None


def install(what: str, words: list[str]) -> int:
    """Run pip, show its steps, and return its exit status."""
    live, began = sys.stdout.isatty(), time.monotonic()
    clear = "\r\033[K" if live else ""
    log = Path(sys.prefix, "install.log")
    print(what, flush=True)
    command = [sys.executable, "-m", "pip", "install", "--progress-bar=off", "--disable-pip-version-check", *words]
    with (
        log.open("a", encoding="utf-8") as kept,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip,
    ):
        assert pip.stdout is not None
        for line in pip.stdout:
            kept.write(line)
            if live and (step := step_of(line)):
                print(f"{clear}  {time.monotonic() - began:3.0f} s  {step[:68]}", end="", flush=True)
            if line.startswith(("ERROR", "error")):
                print(clear + line, end="", flush=True)
    said = f"done in {time.monotonic() - began:.0f} s" if pip.returncode == 0 else f"it failed; {log} says more"
    print(f"{clear}  {said}", flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(install(sys.argv[1], sys.argv[2:]))
