"""Make the computed parts of the tree again: pages, tables, pictures, fitted data.

    python docs/refresh.py [NAME...] [--jobs N]

Without a name it makes all that takes minutes at most, for a release. A name, or a pattern such as
`study-*` or `docs/how-to/*.md`, makes those rows, the long ones too. A row that fails leaves its files, and
the exit code is 1. A table ends with the command, the tree and the date that made it; for data they
stand in docs/reference/data.md. Nothing is refused for being older than the sources.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import re
import shlex
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from compact_svg import compact

ROOT = Path(__file__).resolve().parent.parent
DATA = "docs/reference/data.md"
STAMP = re.compile(r"\n*^Made by `[^`]*`\s+on\s+the\s+tree\s+[^.]*\.\n*\Z", re.MULTILINE)
COLUMNS = 110  # of a line of prose
LAST_LINES = 15  # of a command that failed
_data_page = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Row:
    """Committed files, or a part of one, that one command makes."""

    name: str
    command: str  # runs at the root, without a shell
    page: str = ""  # what the command prints stands there
    part: str = ""  # only between the comments <!-- PART --> and <!-- end -->
    copies: Mapping[str, str] = field(default_factory=dict)  # committed file: the file of the run
    writes: str = ""  # patterns of files that the command writes itself
    rewrite: bool = False  # a test writes what it else compares
    stamped: bool = True  # the page has a line with command, tree and date
    leaf: bool = False  # nothing is made of it: a page with its own blocks
    long: str = ""  # its cost, where that is more than minutes

    def files(self, root: Path) -> list[str]:
        """List its files, below the root."""
        patterns = (self.page, *self.copies, *self.writes.split())
        return [path.relative_to(root).as_posix() for one in patterns if one for path in sorted(root.glob(one))]


def study(name: str, pages: str, size: str, figures: str, long: str = "") -> Row:
    """Give the row of a paper's study: its statements, tables, and the figures that pages show."""
    kept = {f"{pages}/{kind}.md": f"{kind}.md" for kind in ("statements", "tables")}
    kept |= {f"{pages}/figures/{figure}.svg": f"figures/{figure}.svg" for figure in figures.split()}
    out = f"build/study/{name}"
    command = f"fluidnpu simulate --study {name} {size} --processes 2 --out {out}"
    copies = {file: f"{out}/{made}" for file, made in kept.items()}
    return Row(name=f"study-{name}", command=command, copies=copies, long=long)


def computed(name: str, page: str, script: str, part: str = "", long: str = "") -> Row:
    """Give the row of a benchmark that prints a page, or a part of one."""
    command = f"python benchmarks/{script}"
    return Row(name=name, page=f"docs/explanation/{page}.md", command=command, part=part, long=long)


WIRE = "host/oip/wire"
EXPLAINED = "docs/explanation"
FULL = "--seeds 30 --requests 20000"
FASHION = "--data /usr/share/datasets/fashion-mnist"
FOREIGN = "foreign.py --seeds 8 --few-seeds 4 --set"
PYTEST = "python -m pytest -q -p no:cacheprovider tests"
SYNTHESIS = "python -m fluidnpu.rtl_tb.synthesis"
ROWS = (
    Row(
        name="protobuf",
        command=f"python -m grpc_tools.protoc -I {WIRE} --descriptor_set_out {WIRE}/inference.protoset inference.proto",
        writes=f"{WIRE}/inference.protoset",
    ),
    Row(
        name="cycles-of-networks",
        command="python benchmarks/network_cycles.py",
        page="studies/running/data/resnet50_cycles.json",
        stamped=False,
    ),
    Row(
        name="reference-projects",
        command=f"{PYTEST}/hls/test_hls_project.py -k 'reference or variant'",
        writes="tests/reference/tiny_zc706/**/* tests/reference/tiny_zc706_*.diff",
        rewrite=True,
    ),
    Row(
        name="operators",
        command="python -m fluidnpu.models.onnx.catalogue docs/reference/operators.md",
        writes="docs/reference/operators.md",
        stamped=False,
    ),
    Row(name="pictures", command="python docs/make_pictures.py --demo", writes="docs/pictures/*.svg"),
    computed("networks", "cycles/networks", "networks.py"),
    computed("cores", "cycles/cores", "either_core.py"),
    computed("chains", "chains", "chains.py", "computed"),
    study("tetris", f"{EXPLAINED}/placement/tetris", "--seeds 1 --requests 8000", "goodput cost"),
    study("ensemble", f"{EXPLAINED}/placement/ensemble", FULL, "rate"),
    Row(
        name="network",
        command="fluidnpu train --architecture resnet8 --epochs 12 --seed 1 --out build/resnet8.onnx",
        copies={"models/data/resnet8_fashion_mnist.onnx": "build/resnet8.onnx"},
        long="a quarter of an hour, and Debian's dataset-fashion-mnist",
    ),
    Row(name="logic", command=f"{SYNTHESIS}.calibration fit", writes="dse/resources/logic.json", long="an hour"),
    Row(name="clocks", command=f"{SYNTHESIS}.timing --write", writes="dse/resources/clocks.json", long="half an hour"),
    Row(
        name="routes",
        command=f"{SYNTHESIS}.route --page {EXPLAINED}/route.md",
        writes=f"{EXPLAINED}/route.md",
        stamped=False,  # each line names its tree
        long="tens of minutes, and nextpnr (make route)",
    ),
    Row(
        name="every-layer",
        command="make --no-print-directory --keep-going -j 2 layers",
        copies={f"{EXPLAINED}/cycles/index.md": "build/cycles-index.md"},
        long="an hour and a half of two cores",
    ),
    Row(
        name="tuned-weights",
        command="python benchmarks/table2_tune.py",
        writes="scheduler/policies/tuned/*.json",
        long="not timed",
    ),
    Row(
        name="recorded-exits",
        command=f"python -m fluidnpu.studies.pame.record {FASHION} --work build/record/exits studies/pame/data",
        writes="studies/pame/data/fashion.npz studies/pame/data/digits.npz",
        long="minutes, and Debian's dataset-fashion-mnist",
    ),
    Row(
        name="recorded-maps",
        command=f"python -m fluidnpu.studies.pame.record_maps {FASHION} --work build/record/maps studies/pame/data",
        writes="studies/pame/data/landmarks.npz studies/pame/data/segmentation.npz",
        long="minutes, and Debian's dataset-fashion-mnist",
    ),
    Row(
        name="recorded-delen",
        command="python -m fluidnpu.studies.delen.recording",
        writes="studies/delen/data/recorded.npz",
        long="minutes, and Debian's dataset-fashion-mnist",
    ),
    study(
        "fluid-batching",
        f"{EXPLAINED}/scheduling",
        FULL,
        "fig-7 fig-8 fig-9a fig-9b fig-10 frontier map-resnet-50-zc706",
        "a quarter of an hour",
    ),
    study("pame", f"{EXPLAINED}/pame", FULL, "fig-2 fig-12 fig-13 splits maps", "not timed"),
    study("delen", f"{EXPLAINED}/delen", FULL, "fig-10 figs-11-12", "a minute"),
    computed(
        "foreign", "scheduling/foreign", f"{FOREIGN} foreign --out build/foreign", "foreign", "a quarter of an hour"
    ),
    computed(
        "batching", "scheduling/foreign", f"{FOREIGN} batching --out build/batching", "batching", "a quarter of an hour"
    ),
    Row(
        name="coverage",
        command="python benchmarks/coverage.py --zoo build/coverage/env/bin/python",
        page="docs/reference/coverage.md",
        part="coverage",
        long="twenty minutes, with an environment of its own",
    ),
    computed("way-out", "cycles/way-out", "way_out.py", "computed", "three minutes, after `coverage`"),
    computed("filters", "cycles/filters", "filters.py", "computed", "ten minutes, after `coverage`"),
    computed("int8", "cycles/int8", "int8.py", "computed", "ten minutes, after `coverage`"),
    computed("full-size", "pame/full-size", "full_size.py", long="not timed"),
)


def rows(root: Path = ROOT) -> Iterator[Row]:
    """Give the list, and after it a row for every page and notebook that shows outputs of its own blocks."""
    yield from ROWS
    pages = [root / "README.md", root / "rtl_tb" / "README.md", *sorted(root.glob("docs/**/*.md"))]
    for path in (path for path in pages if re.search(r"^ *```(console|python)", path.read_text("utf-8"), re.MULTILINE)):
        name = path.relative_to(root).as_posix()
        yield Row(name=name, command=f"python tests/docs/docs_pages.py {name}", writes=name, stamped=False, leaf=True)
    for path in sorted(root.glob("docs/notebooks/*.ipynb")):
        name = path.relative_to(root).as_posix()
        yield Row(
            name=name, command=f"python tests/docs/docs_notebooks.py {name}", writes=name, stamped=False, leaf=True
        )


def make(row: Row, root: Path, tree: str) -> str:
    """Run a row's command and put what it made in place; give the last lines of a failure, else nothing."""
    program, *words = shlex.split(row.command)
    first = {"python": [sys.executable], "fluidnpu": [sys.executable, "-m", "fluidnpu"]}.get(program, [program])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PYTHONPATH": str(root), "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    env |= {"FLUIDNPU_REWRITE_REFERENCE": "1"} if row.rewrite else {}
    shown = None if row.long else subprocess.PIPE  # what takes hours shows its progress
    out = subprocess.PIPE if row.page else shown
    done = subprocess.run([*first, *words], cwd=root, env=env, stdout=out, stderr=shown, text=True)
    if done.returncode:
        told = f"{done.stdout or ''}\n{done.stderr or ''}".strip() or f"it ended with {done.returncode}"
        return "\n".join(told.splitlines()[-LAST_LINES:])
    texts = {
        file: (root / made).read_text("utf-8") for file, made in row.copies.items() if file.endswith((".md", ".svg"))
    }
    for file, made in row.copies.items():
        if file not in texts:
            (root / file).write_bytes((root / made).read_bytes())
    if row.page:
        texts[row.page] = spliced((root / row.page).read_text("utf-8"), row, done.stdout, tree)
    texts |= {file: compact(text) for file, text in texts.items() if file.endswith(".svg")}
    for file, text in texts.items():
        stamp = row.stamped and not row.part and file.endswith(".md")
        (root / file).write_text(stamped(text, row.command, tree) if stamp else text, "utf-8")
    note(row, root, tree)
    return ""


def spliced(page: str, row: Row, printed: str, tree: str) -> str:
    """Give a page with what was printed, whole or in its part; a ValueError where it has no such part."""
    if not row.part:
        return printed
    found = re.search(rf"(?<=<!-- {row.part} -->\n\n).*?(?=<!-- end -->)", page, re.DOTALL)
    if found is None:
        raise ValueError(f"{row.page} must have a part <!-- {row.part} -->")
    return page[: found.start()] + stamped(printed, row.command, tree) + page[found.end() :]


def stamped(text: str, command: str, tree: str) -> str:
    r"""End a text with what made it.

    >>> stamped("| a |\n\nMade by `x` on the tree 0, 2026-11-01.\n", "y", "1a2b3c4d, 2026-11-25")
    '| a |\n\nMade by `y` on the tree 1a2b3c4d, 2026-11-25.\n'
    """
    made = textwrap.fill(f"Made by `{command}` on the tree {tree}.", COLUMNS, break_on_hyphens=False)
    return f"{STAMP.sub('', text).rstrip()}\n\n{made}\n"


def tree_of(root: Path) -> str:
    """Name the checkout: its commit, whether it has changes, and today."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{git('rev-parse', '--short=8', 'HEAD')}{changed}, {datetime.date.today().isoformat()}"


def note(row: Row, root: Path, tree: str) -> None:
    """Write the tree of a row's data into their table."""
    with _data_page:
        page = root / DATA
        text = page.read_text("utf-8")
        line = rf"^(\|.*\| `{re.escape(row.command)}` \| ).* \|$"
        page.write_text(re.sub(line, rf"\g<1>{tree} |", text, flags=re.MULTILINE), "utf-8")


def refresh(chosen: Sequence[Row], root: Path, jobs: int = 1) -> dict[str, str]:
    """Make rows in their order, then pages, `jobs` at a time; give the last lines of failures by name."""
    failed, tree = dict[str, str](), tree_of(root)

    def one(row: Row) -> None:
        began = time.monotonic()
        try:
            failure = make(row, root, tree)
        except (OSError, ValueError) as error:
            failure = str(error)
        print(f"{'FAILED' if failure else 'made'} {row.name} in {time.monotonic() - began:.0f} s", flush=True)
        if failure:
            failed[row.name] = failure

    for row in (row for row in chosen if not row.leaf):
        one(row)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, (row for row in chosen if row.leaf)))
    return failed


def main() -> int:
    """Refresh, and print what failed."""
    parser = argparse.ArgumentParser(prog="python docs/refresh.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows or patterns; without one, all that are not long")
    parser.add_argument(
        "--jobs", type=int, default=2, choices=range(1, 65), metavar="N", help="pages at a time, 2 by default"
    )
    given = parser.parse_args()
    if not (ROOT / ".git").exists():
        parser.error(f"a refresh names its tree, so {ROOT} must be a checkout of git")
    listed = list(rows())
    for name in given.names:
        if not fnmatch.filter([row.name for row in listed], name):
            parser.error(
                f"'{name}' must be a row or a pattern of rows: {', '.join(row.name for row in ROWS)}, or a page"
            )
    chosen = [r for r in listed if any(fnmatch.fnmatch(r.name, n) for n in given.names) or not (given.names or r.long)]
    failed = refresh(chosen, ROOT, given.jobs)
    for name, failure in failed.items():
        print(f"\n{name} could not be made:\n{failure}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
