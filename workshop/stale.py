"""List the committed texts whose inputs have changed since they were made.

    python -m workshop.stale [NAME...]

It reads sources and runs nothing: a few seconds, with Python alone. Exit code 1 where `make refresh` has work
to do. What takes hours is listed and fails nothing: its pages say from which tree their figures are.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .output import Artefact
from .outputs import outputs
from .sources import Tree

DIGESTS = Path("workshop") / "digests.json"
ITSELF = "itself"
Digests = dict[str, dict[str, str]]


def digests(tree: Tree, row: Artefact) -> dict[str, str]:
    """Digest what a row depends on, by room, and what it made, as `itself`."""
    named = {tree.root / root for root in row.roots}
    missing = sorted(path for path in named if not path.is_file())
    if missing:
        raise SystemExit(f"the row '{row.name}' must name files that exist, not {missing[0].relative_to(tree.root)}")
    made = set(row.paths(tree.root))
    inputs = tree.inputs(named) | {path for pattern in row.data for path in tree.root.glob(pattern) if path.is_file()}
    rooms: dict[str, list[str]] = {}
    for path in sorted(inputs - made):
        name = path.relative_to(tree.root).as_posix()
        if not any(fnmatch.fnmatch(name, pattern) for pattern in row.ignore):
            rooms.setdefault(tree.room(path), []).append(f"{name} {tree.digest(path)}")
    own = (
        [row.text]
        if row.text
        else [f"{path.relative_to(tree.root)} {hashlib.sha256(row.made(path)).hexdigest()}" for path in sorted(made)]
    )
    rooms[ITSELF] = own
    return {room: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12] for room, lines in sorted(rooms.items())}


def read_digests(root: Path) -> Digests:
    """Read the digests of the last refresh; none where the file is not there."""
    path = root / DIGESTS
    digests: Digests = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return digests


def write_digests(root: Path, digests: Mapping[str, Mapping[str, str]]) -> None:
    """Write the digests, a row a line, so that two branches seldom meet in one."""
    lines = (f" {json.dumps(name)}: {json.dumps(digests[name], sort_keys=True)}" for name in sorted(digests))
    (root / DIGESTS).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def changes(now: Mapping[str, str], then: Mapping[str, str] | None) -> list[str]:
    """Name the rooms whose part of a row has changed; `itself` for what was edited since it was made."""
    if then is None:
        return ["never made by `make refresh`"]
    return sorted(room for room in {*now, *then} if now.get(room) != then.get(room))


def row_named(tree: Tree, name: str) -> Artefact:
    """Give a row as the checkout is now."""
    return next(row for row in outputs(tree) if row.name == name)


def stale(tree: Tree, names: Sequence[str] = ()) -> list[tuple[Artefact, list[str]]]:
    """List the stale rows, each with the rooms that changed, in the order in which they are to be made.

    `names`: patterns of rows to look at; without any, all. A ValueError names a pattern that fits no row.
    """
    recorded = read_digests(tree.root)
    rows = outputs(tree)
    for name in names:
        if not any(fnmatch.fnmatch(row.name, name) for row in rows):
            raise ValueError(f"NAME must fit a row of workshop/outputs.py, not '{name}'")
    rows = [row for row in rows if not names or any(fnmatch.fnmatch(row.name, name) for name in names)]
    judged = [(row, changes(digests(tree, row), recorded.get(row.name))) for row in rows]
    return [(row, changed) for row, changed in judged if changed]


def main() -> int:
    """Print what is stale: what `make refresh` mends first, then what takes hours."""
    parser = argparse.ArgumentParser(prog="python -m workshop.stale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to look at, or patterns of them; all by default")
    try:
        stale_rows = stale(Tree(), parser.parse_args().names)
    except ValueError as error:
        parser.error(str(error))
    short, long = [pair for pair in stale_rows if not pair[0].hours], [pair for pair in stale_rows if pair[0].hours]
    for row, changed in short:
        print(f"stale: {row.name} ({', '.join(changed)})")
    for row, changed in long:
        print(f"stale and long: {row.name} ({', '.join(changed)}); {row.hours}")
    if short:
        print(f"{len(short)} of the committed texts are stale; `make refresh` makes them again")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
