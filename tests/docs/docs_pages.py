"""The blocks of code of a page, and a session that runs them in a scratch folder from top to bottom.

A comment of HTML before a block says what is special about it:

    <!-- long: REASON -->      only the long tests run it
    <!-- long page: REASON --> the same for every block of the page
    <!-- not run: REASON -->   nothing runs it
    <!-- fails: REASON -->     its last command ends with an error
    <!-- about: REASON -->     the numbers that it prints differ elsewhere; the words are compared
    <!-- setup: NAME -->       begins with the folder NAME of `docs_setups`, before the page's first block
    <!-- ready: TEXT -->       a command of the block that ends in `&` is up when it has printed TEXT

A block with `title="FILE"` is that file of the scratch folder. `python` is executed as it stands; where a
`print` has a comment beside it, that is what it prints. `console` runs its lines that begin with `$`; the
lines below are what they print, with `...` for what differs from run to run. `text` is no code.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner
from markdown_it import MarkdownIt

from fluidnpu.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "rtl_tb" / "README.md",
        *DOCS.rglob("*.md"),
    ]
)
RUN = {"python", "console"}
DIRECTIVE = re.compile(r"<!--\s*(long page|long|not run|fails|about|setup|ready):\s*(.*?)\s*-->", re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
PRINTED = re.compile(r"^\s*(?:print\(.*)?\)  # (.*)$", re.MULTILINE)  # beside the end of a `print`: what it prints
COLUMNS = "80"
SLOWEST_START_S = 300  # of a machine with much else to do


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: where it stands, its language, and what the comments before it say."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None = None
    long: str | None = None
    exempt: str | None = None
    ready: str | None = None
    fails: str | None = None
    about: str | None = None

    @property
    def kind(self) -> str:
        """One of run, long, file, text, exempt; `unknown` is what nothing executes and no reason excuses."""
        if self.language == "text":
            return "text"
        if self.exempt:
            return "exempt"
        if self.long:
            return "long"
        if self.language in RUN and not (self.file and self.language == "console"):
            return "file" if self.file else "run"
        return "file" if self.file else "unknown"

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Page:
    """The blocks of a page in order, and the folders it begins with."""

    path: Path
    blocks: tuple[Block, ...]
    setups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


def read_page(path: Path) -> Page:
    """Parse a page. Blocks within lists and admonitions of Material (indented below `!!!`) count, too."""
    blocks, setups = [], []
    whole: str | None = None
    said: dict[str, str] = {}
    for token in MarkdownIt().parse(_dedented(path.read_text(encoding="utf-8"))):
        if token.type == "html_block":
            found = {key: " ".join(text.split()) for key, text in DIRECTIVE.findall(token.content)}
            whole = found.pop("long page", whole)
            setups += [found.pop("setup")] if "setup" in found else []
            said |= found
        elif token.type in ("fence", "code_block"):
            assert token.map is not None
            language = token.info.split()[0] if token.info.split() else ""
            title = TITLE.search(token.info)
            blocks.append(
                Block(
                    page=path,
                    line=token.map[0] + 1,
                    language=language,
                    text=token.content,
                    file=title[1] if title else None,
                    long=said.get("long", whole),
                    exempt=said.get("not run"),
                    ready=said.get("ready"),
                    fails=said.get("fails"),
                    about=said.get("about"),
                )
            )
            said = {}
    return Page(path, tuple(blocks), tuple(setups))


def _dedented(text: str) -> str:
    """Pull the bodies of admonitions and tabs (`!!!`, `???`, `===`) to the left, so that a parser sees
    their fences.
    """
    out, inside = [], False
    for line in text.splitlines():
        if re.match(r"(!!!|\?\?\?\+?|===) ", line):
            inside = True
            out.append("")
        elif inside and (line.startswith("    ") or not line.strip()):
            out.append(line[4:])
        else:
            inside = False
            out.append(line)
    return "\n".join(out) + "\n"


@dataclass
class Session:
    """Runs the blocks of one page in its scratch folder, which is the current one."""

    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    ran: int = 0
    printed: list[tuple[str, str]] | None = None  # with a list: what is shown, and what was printed; none is compared

    def run(self, block: Block) -> None:
        """Run one block, or write it where it is a file; an assertion names its line on the page."""
        if block.file:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self.python(block)
        else:
            self.console(block)
        self.ran += 1

    def python(self, block: Block) -> None:
        """Execute a block; a traceback names the page and the line in it."""
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)
        expected = PRINTED.findall(block.text)
        if expected and self.printed is not None:
            self.printed.append(("\n".join(expected), printed.getvalue()))
        elif expected:
            assert printed.getvalue().splitlines() == expected, f"{block.where} prints\n{printed.getvalue()}"

    def console(self, block: Block) -> None:
        """Execute the commands of a block, and compare their output with the lines shown."""
        lines = list(commands(block.text))
        for number, (command, shown) in enumerate(lines, 1):
            if command.endswith("&"):
                self.start(command.removesuffix("&").strip(), block)
                continue
            code, printed = self.command(command)
            wanted = (1, 2) if block.fails and number == len(lines) else (0,)
            assert code in wanted, f"{block.where}: '{command}' ends with {code}:\n{printed}"
            if self.printed is not None:
                self.printed.append((shown, printed))
                continue
            assert not shown or alike(shown, printed, numbers=not block.about), (
                f"{block.where}: '{command}' prints\n{printed}"
            )

    def command(self, line: str) -> tuple[int, str]:
        """Exit code and output of a line: `fluidnpu` alone runs in this process, all else in a shell."""
        words = shlex.split(line, comments=True)
        if words[0] == "fluidnpu" and not set("|><;&$*") & set(line.partition(" #")[0]):
            done = CliRunner(env={"COLUMNS": COLUMNS}).invoke(main, words[1:])
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done.exit_code, done.output
        ended = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
        )
        return ended.returncode, ended.stdout + ended.stderr

    def start(self, line: str, block: Block) -> None:
        """Start a command that stays, and wait until it has printed what the page says it prints when it is
        ready.
        """
        assert block.ready, f"{block.where}: a command in the background needs <!-- ready: TEXT -->"
        log = self.folder / f".background{len(self.started)}.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"], cwd=self.folder, env=environment(), stdout=out, stderr=out, text=True
            )
        self.started.append(process)
        for _ in range(10 * SLOWEST_START_S):
            if block.ready in log.read_text():
                return
            assert process.poll() is None, (
                f"{block.where}: '{line}' ended with {process.returncode}:\n{log.read_text()}"
            )
            time.sleep(0.1)
        raise AssertionError(f"{block.where}: '{line}' has not printed '{block.ready}':\n{log.read_text()}")

    def stop(self) -> None:
        """End what was started."""
        for process in self.started:
            process.terminate()
            process.wait(timeout=SLOWEST_START_S)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the lines shown below it; a backslash continues a command.

    >>> list(commands("$ a \\\\\\n    b\\nout\\n$ c\\n"))
    [('a b', 'out\\n'), ('c', '')]
    """
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE):
        joined = re.sub(r"\s*\\\n\s*", " ", part)
        command, _, shown = joined.partition("\n")
        if command.strip():
            yield re.sub(r"\s{2,}#\s.*$", "", command).strip(), shown


def alike(shown: str, printed: str, *, numbers: bool = True) -> bool:
    r"""Tell whether the output is what a page shows: `...` stands for anything, white space does not count.

    >>> alike("a 1.5\n", "a  2\n"), alike("a 1.5\n", "a  2\n", numbers=False)
    (False, True)
    """
    if not numbers:
        shown, printed = (re.sub(r"\b[0-9a-f]*\d[\d.,a-f]*", "0", text) for text in (shown, printed))
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, printed, options)


def environment() -> Mapping[str, str]:
    """The environment of a command: this checkout's `fluidnpu`, wherever the shell stands."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": paths, "PATH": path, "COLUMNS": COLUMNS}
