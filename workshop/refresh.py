"""Make the stale committed texts again, in the order in which they depend on one another.

    python -m workshop.refresh [NAME...] [--jobs N]

Without names it makes all that `make stale` lists, but for what takes hours; a name, or a pattern of names,
makes that row. A row that fails leaves its files as they are, and the others go on; exit code 1 tells it.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .output import Artefact
from .sources import ROOT, Tree
from .stale import ITSELF, digests, read_digests, row_named, stale, write_digests

STAMP = re.compile(r"\n*^Figures of the tree of .*\n?\Z", re.MULTILINE)
TOLD_LINES = 15  # of a command that failed
_digests = threading.Lock()


def make(row: Artefact, root: Path) -> str:
    """Run a row's command and put what it made in place; give the last lines of a failure, else nothing.

    Nothing is put in place before the command has succeeded. What takes hours shows its own progress.
    """
    program, *words = shlex.split(row.command)
    first = {"python": [sys.executable], "fluidnpu": [sys.executable, "-m", "fluidnpu"]}.get(program, [program])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PYTHONPATH": str(root), "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **row.env}
    shown = None if row.hours else subprocess.STDOUT
    out = subprocess.PIPE if row.prints or not row.hours else None
    errors = subprocess.PIPE if row.prints and not row.hours else shown
    done = subprocess.run([*first, *words], cwd=root, env=env, stdout=out, stderr=errors, text=True)
    if done.returncode:
        output = f"{done.stdout or ''}\n{done.stderr or ''}".strip()
        return "\n".join(output.splitlines()[-TOLD_LINES:]) or f"'{row.command}' ended with {done.returncode}"
    if row.prints:
        place = root / row.files[0]
        content = row.spliced(place.read_text(encoding="utf-8"), done.stdout) if row.part else done.stdout
        replace(place, content.encode())
    for made, source in row.copies.items():
        replace(root / made, (root / source).read_bytes())
    if row.hours:
        for page in row.paths(root):
            if page.suffix == ".md":
                replace(page, stamped(page.read_text(encoding="utf-8"), tree_of(root)).encode())
    return ""


def replace(path: Path, content: bytes) -> None:
    """Write a file whole, or leave it as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    shutil.move(file.name, path)


def tree_of(root: Path) -> str:
    """Name the checkout: its commit, whether it was changed since, and today."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{datetime.date.today().isoformat()} ({git('rev-parse', '--short=8', 'HEAD')}{changed})"


def stamped(text: str, tree: str) -> str:
    r"""End a page with the tree that its figures are from.

    >>> stamped("# Page\n", "2026-11-25 (1a2b3c4d)")
    '# Page\n\nFigures of the tree of 2026-11-25 (1a2b3c4d).\n'
    >>> stamped(stamped("# Page\n", "2026-11-24 (0)"), "2026-11-25 (1)").count("Figures")
    1
    """
    return f"{STAMP.sub('', text).rstrip()}\n\nFigures of the tree of {tree}.\n"


def remember(row: Artefact, root: Path, before: Mapping[str, str]) -> None:
    """Keep the digests of a row that was made just now: its sources `before` it ran, and what it made."""
    made = row_named(tree := Tree(root), row.name)  # anew: the blocks of a page are part of its row
    with _digests:
        recorded = read_digests(root)
        recorded[row.name] = {**before, ITSELF: digests(tree, made)[ITSELF]}
        write_digests(root, recorded)


def refresh(
    root: Path, names: Sequence[str] = (), *, jobs: int = 1, say: Callable[[str], None] = print
) -> dict[str, str]:
    """Make what is stale, and give the last lines of each row that failed, by its name.

    `names`: patterns of rows to make, those that take hours included; without any, all others that are
    stale.
    """
    failed: dict[str, str] = {}
    tried: set[str] = set()
    began = time.monotonic()
    while True:
        rows = [row for row, _ in stale(Tree(root), names) if (names or not row.hours) and row.name not in tried]
        if not rows:
            return failed
        # Nothing is made of a page. Whatever else was made may change what follows, which is asked again.
        batch = [row for row in rows if row.leaf]
        batch = batch if batch == rows else [next(row for row in rows if row not in batch)]
        tried |= {row.name for row in batch}
        left = len(rows) - len(batch)

        def one(row: Artefact) -> None:
            started, before = time.monotonic(), digests(Tree(root), row)
            failure = make(row, root)
            if failure:
                failed[row.name] = failure
            else:
                remember(row, root, before)
            how = "FAILED" if failure else "made"
            say(f"{time.monotonic() - began:5.0f} s  {how} {row.name} in {time.monotonic() - started:.0f} s")

        count = f"{len(batch)} pages and notebooks" if len(batch) > 1 else batch[0].name
        say(f"{time.monotonic() - began:5.0f} s  making {count}{f'; {left} more to look at' if left else ''}")
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            list(pool.map(one, batch))


def main() -> int:
    """Refresh, and tell what failed."""
    parser = argparse.ArgumentParser(prog="python -m workshop.refresh", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="rows to make, or patterns of them; what takes hours, too"
    )
    parser.add_argument("--jobs", type=int, default=2, help="pages at a time")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {given.jobs}")
    try:
        failed = refresh(ROOT, given.names, jobs=given.jobs, say=lambda line: print(line, flush=True))
    except ValueError as error:
        parser.error(str(error))
    for name, failure in failed.items():
        print(f"\n{name} could not be made:\n{failure}", file=sys.stderr)
    left = [row.name for row, _ in stale(Tree(ROOT)) if row.hours]
    if left:
        print(f"left, since they take long: {', '.join(left)}; `python -m workshop.refresh NAME` makes one")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
