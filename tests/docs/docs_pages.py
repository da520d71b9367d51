"""The blocks of code of a page, and a session that runs them in a scratch folder from top to bottom.

    python tests/docs/docs_pages.py PAGE...    # writes what the blocks print now into the pages

A comment of HTML before a block says what is special about it:

    <!-- long: REASON -->      only the long tests run it
    <!-- long page: REASON --> the same for every block of the page
    <!-- not run: REASON -->   nothing runs it
    <!-- fails: REASON -->     its last command ends with an error
    <!-- setup: NAME -->       begins with the folder NAME of `docs_setups`, before the page's first block
    <!-- ready: TEXT -->       a command of the block that ends in `&` is up when it has printed TEXT

A block with `title="FILE"` is that file of the scratch folder. `python` is executed as it stands; where a
`print` has a comment beside it, that is what it prints. `console` runs its lines that begin with `$`; the
lines below are what they print, with `...` for anything. `text` is no code. Only the shape of an output is
compared: numbers, rules and white space may differ.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner
from docs_setups import Setups

from fluidnpu.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")), *DOCS.rglob("*.md")])
PAGES.append(ROOT / "rtl_tb" / "README.md")
PART = re.compile(
    r"<!--\s*(?P<key>long page|long|not run|fails|setup|ready):\s*(?P<reason>.*?)\s*-->"
    r"|^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)
PRINTED = re.compile(r"^\s*(?:print\(.*)?\)  # (.*)$", re.MULTILINE)  # beside the end of a `print`: what it prints
NUMBER = r"\b[0-9a-f]*\d[0-9a-f]*(?:[.,]\d[0-9a-f]*)*"  # of any base
COLUMNS = "80"
SLOWEST_START_S = 300  # of a machine with much else to do


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its language, its place, and what the comments before it say."""

    page: Path
    line: int  # of its fence
    span: tuple[int, int]  # of its text in that of the page
    indent: str
    language: str
    text: str
    file: str | None = None
    long: str | None = None
    exempt: str | None = None
    ready: str | None = None
    fails: str | None = None

    @property
    def kind(self) -> str:
        """One of run, long, file, text, exempt; `unknown` is what nothing executes and no reason excuses."""
        if self.language == "text":
            return "text"
        if self.exempt or self.long:
            return "exempt" if self.exempt else "long"
        if self.file and self.language != "console":
            return "file"
        return "run" if self.language in ("python", "console") and not self.file else "unknown"

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
    """Find the blocks of a page, those in lists and admonitions too."""
    text = path.read_text(encoding="utf-8")
    blocks, setups, whole, said = [], [], None, dict[str, str]()
    for part in PART.finditer(text):
        if part["key"] == "setup":
            setups.append(part["reason"])
        elif part["key"] == "long page":
            whole = part["reason"]
        elif part["key"]:
            said[part["key"]] = " ".join(part["reason"].split())
        else:
            title = re.search(r'title="([^"]+)"', part["info"])
            blocks.append(
                Block(
                    page=path,
                    line=text.count("\n", 0, part.start()) + 1,
                    span=part.span("text"),
                    indent=part["indent"],
                    language=part["language"],
                    text=re.sub(rf"^{part['indent']}", "", part["text"], flags=re.MULTILINE),
                    file=title[1] if title else None,
                    long=said.get("long", whole),
                    exempt=said.get("not run"),
                    ready=said.get("ready"),
                    fails=said.get("fails"),
                )
            )
            said = {}
    return Page(path, tuple(blocks), tuple(setups))


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
        if expected := PRINTED.findall(block.text):
            self.look("\n".join(expected), printed.getvalue(), block.where)

    def console(self, block: Block) -> None:
        """Execute the commands of a block, and compare their output with the lines shown."""
        lines = list(commands(block.text))
        for number, (command, shown) in enumerate(lines, 1):
            if command.endswith("&"):
                self.start(command.removesuffix("&").strip(), block)
                continue
            code, printed = self.command(command)
            wanted = (1, 2) if block.fails and number == len(lines) else (0,)
            wrong = code not in wanted or "Traceback (most recent call last)" in printed
            assert not wrong, f"{block.where}: '{command}' ends with {code}:\n{printed}"
            if shown:
                self.look(shown, printed, f"{block.where}: '{command}'")

    def look(self, shown: str, printed: str, where: str) -> None:
        """Compare the shape of what is shown with what was printed, or keep both."""
        if self.printed is None:
            assert alike(shown, printed), f"{where} prints\n{printed}"
        else:
            self.printed.append((shown, printed))

    def command(self, line: str) -> tuple[int, str]:
        """Exit code and output of a line: `fluidnpu` alone runs in this process, all else in a shell."""
        words = shlex.split(line, comments=True)
        if words[0] == "fluidnpu" and not set("|><;&$*") & set(line.partition(" #")[0]):
            done = CliRunner(env={"COLUMNS": COLUMNS}).invoke(main, words[1:])
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done.exit_code, done.output
        shell = ["bash", "-c", f"set -o pipefail; {line}"]
        ended = subprocess.run(shell, cwd=self.folder, env=environment(), capture_output=True, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    def start(self, line: str, block: Block) -> None:
        """Start a command that stays, and wait until it has printed what the page says."""
        assert block.ready, f"{block.where}: a command in the background needs <!-- ready: TEXT -->"
        log = self.folder / f".background{len(self.started)}.txt"
        with log.open("w") as out:
            shell = ["bash", "-c", f"exec {line}"]
            process = subprocess.Popen(shell, cwd=self.folder, env=environment(), stdout=out, stderr=out, text=True)
        self.started.append(process)
        for _ in range(10 * SLOWEST_START_S):
            if block.ready in log.read_text():
                return
            ended = f"{block.where}: '{line}' ended with {process.poll()}"
            assert process.poll() is None, f"{ended}:\n{log.read_text()}"
            time.sleep(0.1)
        raise AssertionError(f"{block.where}: '{line}' has not printed '{block.ready}':\n{log.read_text()}")

    def stop(self) -> None:
        """End what was started. Raises AssertionError where a process has failed before."""
        ended = [process.poll() for process in self.started]
        for process in self.started:
            process.terminate()
            process.wait(timeout=SLOWEST_START_S)
        assert not any(ended), f"commands in the background ended with {ended}"


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


def shape(text: str) -> str:
    r"""Give a text without its numbers, lengths of rules and bars, and repeated rows.

    >>> shape("B  time\n------\n1  2.5 ms\n2  -31,000 ms\n")
    'B time\n-\n0 0 ms'
    """
    masked = re.sub(rf"(?:(?<!\S)[+-])?{NUMBER}", "0", text)
    lines = [re.sub(r"([^\w\s.])\1+", r"\1", " ".join(line.split())) for line in masked.splitlines()]
    return "\n".join(line for line, _ in itertools.groupby(line for line in lines if line))


def alike(shown: str, printed: str, of: Callable[[str], str] = shape) -> bool:
    r"""Tell whether an output has the shape that a page shows.

    `...` stands for anything in its line; alone in a line, for any lines.

    >>> alike("a 1.5 of ...\n", "a  2 of two\n"), alike("a 1.5\n", "b 1.5\n"), alike("...\nb\n", "x\ny\nb\n")
    (True, False, True)
    >>> alike("a ...\nb\n", "a 1\nan error\nb\n")
    False
    """
    pattern = ""
    for line in of(shown).splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            words = (re.escape(word).replace(r"\.\.\.", r"[^\n]*") for word in line.split())
            pattern += "".join(rf"{word}\s+" if word != r"[^\n]*" else r"[^\n]*?\s*" for word in words)
    return bool(re.fullmatch(pattern, f"{of(printed).strip()}\n"))


def mended(shown: str, printed: str) -> str:
    r"""Give what a page shows with the words and numbers of this run; beside `...` only numbers change.

    >>> mended("a 1.5 of 0.0...\n...\nb 2\n", "a 16 of 0.03 ms\nx\nb 3\n")
    'a 16 of 0.0...\n...\nb 3\n'
    """
    if alike(shown, printed, of=str):
        return shown
    if "..." not in shown:
        return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    varies = re.compile(rf"(^\.\.\.\n)|((?:{NUMBER})?\.\.\.)|({NUMBER})|\n|[^\S\n]+", re.MULTILINE)
    pattern, last = "", 0
    for found in varies.finditer(shown):
        pattern += re.escape(shown[last : found.start()])
        if found[1]:
            pattern += r"(?:.*\n)*?"
        elif found[2]:
            pattern += re.escape(found[2][:-3]) + ".*"
        else:
            pattern += r"([0-9a-f.,]*\d[0-9a-f.,]*)" if found[3] else r"\s*\n" if found[0] == "\n" else r"[^\S\n]+"
        last = found.end()
    fits = re.fullmatch(rf"{pattern}\s*", f"{printed.rstrip()}\n")
    assert fits, f"its words have changed beside '...': mend it by hand. It prints\n{printed}"
    numbers = iter(fits.groups())
    return varies.sub(lambda found: next(numbers) if found[3] else found[0], shown)


def environment() -> Mapping[str, str]:
    """The environment of a command: this checkout's `fluidnpu`, wherever the shell stands."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PYTHONPATH": paths, "PATH": path, "COLUMNS": COLUMNS}


def rewritten(page: Page, folder: Path) -> str:
    """Run all blocks of a page and give its text with what they print now."""
    text = page.path.read_text(encoding="utf-8")
    setups = Setups(folder / "setups")
    scratch = folder / "page"
    scratch.mkdir()
    for name in page.setups:
        setups.begin(name, scratch)
    os.chdir(scratch)
    session, fresh = Session(scratch), dict[tuple[int, int], str]()
    try:
        for block in page.blocks:
            if block.kind in ("run", "file", "long"):
                session.printed = []
                session.run(block)
                fresh[block.span] = textwrap.indent(with_outputs(block, session.printed), block.indent)
    finally:
        session.stop()
    for (begin, end), new in reversed(fresh.items()):
        text = text[:begin] + new + text[end:]
    return text


def with_outputs(block: Block, outputs: list[tuple[str, str]]) -> str:
    """Give the text of a block with new outputs."""
    text, at = block.text, 0
    for shown, printed in outputs:
        if block.language == "python":
            assert len(shown.splitlines()) == len(printed.splitlines()), f"{block.where} prints\n{printed}"
            lines = iter(printed.splitlines())
            text = PRINTED.sub(lambda m, n=lines: m[0].removesuffix(m[1]) + next(n), text)  # type: ignore[misc]
        else:
            at, new = text.index(f"\n{shown}", at) + 1, mended(shown, printed)
            text, at = text[:at] + new + text[at + len(shown) :], at + len(new)
    return text


if __name__ == "__main__":
    for given in map(Path, sys.argv[1:]):
        path = given.resolve()
        with tempfile.TemporaryDirectory() as name:
            path.write_text(rewritten(read_page(path), Path(name)), encoding="utf-8")
