"""The answers of a study's tasks, a line of JSON each, so that a study that was stopped resumes where it was.

The file's name holds a digest of all that decides the answers: the study, its size, and the sources. So the
answers of another question, or of other sources, are never taken, and never lost.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as scratch:
...     kept = AnswerFile.open(Path(scratch), "toy", "2 seeds")
...     kept.keep("part", "key", [1, 2])
...     AnswerFile.open(Path(scratch), "toy", "2 seeds").answers
{('part', 'key'): [1, 2]}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fluidnpu.models import files

ROOMS = ("boards", "models", "dse", "scheduler", "studies")  # whose sources decide the answers


@dataclass(frozen=True)
class AnswerFile:
    """A file of answers, and those found in it by part and key."""

    path: Path
    answers: dict[tuple[str, str], Any]

    @classmethod
    def open(cls, folder: Path, study: str, size: str) -> AnswerFile:
        """Find what an earlier run of the same question left in a folder; a line that was cut off is dropped.

        Raises FileError.
        """
        path = folder / f"answers-{digest_of(study, size)}.jsonl"
        answers, whole = {}, 0
        with files.naming(path):
            for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
                read = _read(line)
                if read is None:
                    break
                answers[read[0], read[1]] = read[2]
                whole += len(line)
            if path.is_file() and path.stat().st_size > whole:
                with path.open("r+b") as file:
                    file.truncate(whole)
        return cls(path, answers)

    def keep(self, part: str, key: str, answer: Any) -> None:
        """Add an answer in plain JSON types. Raises FileError or WriteError."""
        line = json.dumps([part, key, answer], allow_nan=False) + "\n"
        with files.naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(line)

    def forget(self) -> None:
        """Remove the file, once the study is written."""
        with files.naming(self.path):
            self.path.unlink(missing_ok=True)


def _read(line: bytes) -> tuple[str, str, Any] | None:
    """Read a whole line; None for one that was cut off."""
    try:
        part, key, answer = json.loads(line)
    except ValueError:
        return None
    return (part, key, answer) if line.endswith(b"\n") else None


def digest_of(study: str, size: str) -> str:
    """Give twelve hexadecimal digits of a question and of the sources that answer it."""
    return hashlib.sha256(f"{study} {size} {_sources()}".encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _sources() -> str:
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _source_files() -> Iterator[Path]:
    """Python, boards and recordings of the rooms."""
    for room in ROOMS:
        spec = find_spec(f"fluidnpu.{room}")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for ending in ("*.py", "*.toml", "*.json", "*.npz"):
                yield from sorted(Path(folder).rglob(ending))
