"""Steps of a run: commands of this program, each skipped where its result is fresh.

A result is fresh where the command is the same, what it reads has the same content, and what it wrote is
still there as it was written. Times of files do not count. The log of a run stands in its folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu.models import files

from ... import __version__

if TYPE_CHECKING:
    from rich.console import Console

LOG = "run.json"


@dataclass(frozen=True, kw_only=True)
class CommandStep:
    """One command line: the command and its words, the paths that it reads, and those that it writes.

    `name`: what the log calls the step. `facts`: what its result depends on beside these, such as the digest
    of a board.
    """

    name: str
    command: str
    words: tuple[str, ...]
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    facts: str = ""

    @property
    def line(self) -> str:
        """The command line as a shell takes it."""
        return shlex.join(["fluidnpu", self.command, *self.words])


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """A step's report (what `--json` prints), its seconds, and digests of what it depended on and wrote.

    `written`: the digest of every file, by its path below the folder of the run.
    """

    key: str
    written: dict[str, str]
    report: dict[str, Any]
    seconds: float
    kept: bool = field(default=True, compare=False)


def argument(path: Path) -> str:
    """Return a path as an argument of a command line; one that begins like an option gets its folder."""
    return f"./{path}" if str(path).startswith("-") else str(path)


class StepLog:
    """The results of the steps of a run, in a folder's log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOG
        self.results = self._read()
        self._digests: dict[Path, str] = {}  # of what steps read, until a step writes it

    def run(self, out: Console, step: CommandStep) -> StepResult:
        """Show the command; run it unless its result is fresh, and keep the result in the log.

        Raises FailedStep where the command fails.
        """
        out.print(f"$ {step.line}", markup=False, soft_wrap=True)
        result = self.measure(step.name, self._key(step), lambda: run_command(step), step.writes)
        out.print("  [dim]fresh: kept[/]" if result.kept else f"  [dim]{result.seconds:.1f} s[/]")
        return result

    def measure(
        self, name: str, key: str, work: Callable[[], dict[str, Any]], writes: Sequence[Path] = ()
    ) -> StepResult:
        """Return the result of work in the log if it is fresh, else do the work and keep its result."""
        result = self.results.get(name)
        if result is not None and result.key == key and self._is_whole(result):
            return result
        begun = time.monotonic()
        report = work()
        seconds = round(time.monotonic() - begun, 1)
        self._digests = {path: digest for path, digest in self._digests.items() if path not in writes}
        written = {str(path.relative_to(self.folder)): digest_of(path) for path in _files_of(writes)}
        result = StepResult(key=key, written=written, report=report, seconds=seconds, kept=False)
        self._keep(name, result)
        return result

    def digest(self, path: Path) -> str:
        """Digest what a step reads, once."""
        if path not in self._digests:
            self._digests[path] = digest_of(path)
        return self._digests[path]

    def _is_whole(self, result: StepResult) -> bool:
        return all(digest_of(self.folder / name) == digest for name, digest in result.written.items())

    def _keep(self, name: str, result: StepResult) -> None:
        """Write a result into the log."""
        self.results[name] = result
        log = {step: asdict(entry) for step, entry in self.results.items()}
        for entry in log.values():
            del entry["kept"]  # a fact of this run, not of the result
        files.write_file(self.path, json.dumps(log, indent=1, sort_keys=True) + "\n")

    def _read(self) -> dict[str, StepResult]:
        """Read the log; a log that is not whole says nothing, so that every step runs."""
        try:
            log = json.loads(self.path.read_text(encoding="utf-8"))
            return {name: StepResult(**values) for name, values in log.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _key(self, step: CommandStep) -> str:
        """Digest what a result depends on: inputs by content, outputs by their place in the folder."""
        words = []
        for word in step.words:
            path = next((path for path in step.reads if Path(word) == path or word.startswith(f"{path}@")), None)
            if path is not None:
                word = self.digest(path) + str(Path(word)).removeprefix(str(path))
            elif Path(word).is_relative_to(self.folder):
                word = str(Path(word).relative_to(self.folder))
            words.append(word)
        return key_of(step.command, words, step.facts)


def digest_of(path: Path) -> str:
    """Digest a file, or names and contents of all files of a folder; empty for what is missing.

    Raises FileError where something cannot be read.
    """
    with files.naming(path, "be readable"):
        if path.is_dir():
            names = [(str(file.relative_to(path)), digest_of(file)) for file in files_below(path)]
            return _sha256(json.dumps(names).encode())
        return _sha256(path.read_bytes()) if path.is_file() else ""


def files_below(folder: Path) -> list[Path]:
    """List all files below a folder, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _files_of(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]


def key_of(*facts: object) -> str:
    """Digest what a result depends on, and the version of this program."""
    return _sha256(json.dumps([__version__, *facts]).encode())


class FailedStep(SystemExit):
    """The end of a step whose command has printed its sentence.

    `report` is what its `--json` printed; `code` is its exit code.
    """

    def __init__(self, step: str, code: Any, report: dict[str, Any]) -> None:
        super().__init__(code)
        self.step, self.report = step, report


def run_command(step: CommandStep) -> dict[str, Any]:
    """Run a command of this program in this process; return the object that its `--json` prints.

    Raises FailedStep where the command ends with another code than 0.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            show_command(step.command, [*step.words, "--json"])
    except SystemExit as end:
        raise FailedStep(step.name, end.code, _last_object(printed.getvalue())) from None
    return _last_object(printed.getvalue())


def show_command(name: str, words: Sequence[str]) -> None:
    """Run a command of this program in this process, on its own screen. Raises SystemExit where it fails."""
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    assert command is not None
    command.main(list(words), prog_name=f"{root.info_name} {name}", standalone_mode=False)


def _last_object(text: str) -> dict[str, Any]:
    lines = text.splitlines()
    report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return report


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
