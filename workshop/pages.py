"""What each page and notebook shows of runs: its executed blocks, and the sources that these name.

A page is read by regular expressions, since `make stale` needs nothing but Python; a test holds the blocks to
those that `tests/docs/docs_pages.py` reads and runs.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .output import Artefact
from .sources import Tree

DIRECTIVE = re.compile(r"<!--\s*(long page|long|not run|fails|about|setup|ready):.*?-->", re.DOTALL)
FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\bfluidnpu ([a-z][a-z-]*)")
MODULE = re.compile(r"python[0-9.]* -m (fluidnpu(?:\.\w+)+)")
SCRIPT = re.compile(r"python[0-9.]* ((?:benchmarks|docs|tests)/[\w/]+\.py)")
STUDY = re.compile(r"--study ([a-z-]+)")
BARE = ("model", "mine", "yolov8n")  # setups that run no command


def page_files(root: Path) -> list[Path]:
    """List the pages whose blocks are executed, as `tests/docs/docs_pages.py` does."""
    named = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "rtl_tb/README.md")
    return sorted([*(root / name for name in named), *(root / "docs").rglob("*.md")])


def pages(tree: Tree) -> Iterator[Artefact]:
    """Give a row for each page that shows what commands print."""
    for path in page_files(tree.root):
        text = path.read_text(encoding="utf-8")
        blocks = list(executed(text))
        if not blocks:
            continue
        code = "\n".join(blocks)
        roots = set(roots_of(tree, code, path.parent))
        setups = re.findall(r"<!-- setup: (\w+) -->", text)
        if setups:
            roots.add(tree.root / "tests" / "docs" / "docs_setups.py")
        if set(setups) - set(BARE):
            roots |= {tree.root / "fluidnpu" / "commands" / f"{name}.py" for name in ("dse", "build")}
        name = path.relative_to(tree.root).as_posix()
        directives = "\n".join(directive[0] for directive in DIRECTIVE.finditer(text))
        yield Artefact(
            name=name,
            files=(name,),
            command=f"python tests/docs/refresh_outputs.py {name}",
            roots=tuple(sorted(root.relative_to(tree.root).as_posix() for root in roots)),
            text=f"{directives}\n{code}",
        )


def executed(text: str) -> Iterator[str]:
    """Give the fenced blocks of a page that something runs: no plain text, and none marked `not run`."""
    begin = 0
    for block in FENCE.finditer(text):
        before, begin = text[begin : block.start()], block.end()
        if block[2] not in ("", "text") and "<!-- not run:" not in before:
            indent = len(block[1])
            yield "\n".join(line[indent:] for line in f"{block[2]}{block[3]}\n{block[4]}".splitlines())


def roots_of(tree: Tree, code: str, folder: Path) -> Iterator[Path]:
    """Find the files that commands and Python of some blocks name."""
    joined = re.sub(r"\\\n\s*", " ", code)
    if "fluidnpu " in joined:
        yield tree.root / "fluidnpu" / "cli.py"
    paths = [tree.root / "fluidnpu" / "commands" / f"{name.replace('-', '_')}.py" for name in COMMAND.findall(joined)]
    for module in MODULE.findall(joined):
        paths += tree.named(tree.place(module.rpartition(".")[0], folder) or folder, module.rpartition(".")[2])
    paths += [tree.root / script for script in SCRIPT.findall(joined)]
    paths += [tree.root / "studies" / name.replace("-", "_") / "study.py" for name in STUDY.findall(joined)]
    blocks = (block.partition("\n") for block in re.split(r"^(?=python|py\b)", code, flags=re.MULTILINE))
    snippets = [body for language, _, body in blocks if language.startswith(("python", "py"))]
    paths += imported(tree, snippets)
    yield from (path for path in paths if path.is_file())


def imported(tree: Tree, snippets: Iterable[str]) -> list[Path]:
    """Resolve the imports of snippets that are one session; a name imported in one is used in the next.

    Of a snippet only the leading lines may be Python.
    """
    session = ast.Module(body=[], type_ignores=[])
    for code in snippets:
        lines = code.splitlines()
        while lines:
            try:
                session.body += ast.parse("\n".join(lines)).body
                break
            except SyntaxError as error:
                lines = lines[: max(0, min(len(lines), error.lineno or 1) - 1)]
    return list(tree.imported(session, tree.root / "docs"))


def notebooks(tree: Tree) -> Iterator[Artefact]:
    """Give a row for each notebook of the documentation."""
    for path in sorted((tree.root / "docs" / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        python = "\n".join(line for cell in code for line in cell.splitlines() if not line.startswith(("!", "%")))
        roots = {*roots_of(tree, "\n".join(code), path.parent), *imported(tree, [python])}
        name = path.relative_to(tree.root).as_posix()
        yield Artefact(
            name=name,
            files=(name,),
            command=f"python tests/docs/refresh_outputs.py {name}",
            roots=tuple(sorted(root.relative_to(tree.root).as_posix() for root in roots)),
        )
