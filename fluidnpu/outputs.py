"""Paths that a command is to write, refused before any work: kinds of options, and the check of all of them.

A command says with `FILE_OUT` or `FOLDER_OUT` that an option names something to write; `takes` (options.py)
has every such option checked, whatever else the command does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .errors import UsageError


class UserPath(click.Path):
    """A path as the user gives it; an empty one would quietly mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path, or click's own error and exit code 2."""
        return self.fail("a path must not be empty", param, ctx) if value == "" else super().convert(value, param, ctx)

    def beside(self, folder: Path, text: str) -> str:
        """Return the path as begun at a folder: that of the file that says it."""
        return str(folder / text) if text else text


class PathOrWord(UserPath):
    """A path, or a word that stands for none."""

    def __init__(self, word: str) -> None:
        super().__init__(path_type=Path)
        self.word = word

    def beside(self, folder: Path, text: str) -> str:
        """Return the word as it is, and a path as begun at a folder."""
        return text if text == self.word else super().beside(folder, text)


class TextWithPath(click.types.StringParamType):
    """Text that may name a path behind a sign, as NAME=BUNDLE does, or be one where it has an ending."""

    def __init__(self, *, sign: str = "", ending: str = "") -> None:
        self.sign, self.ending = sign, ending

    def beside(self, folder: Path, text: str) -> str:
        """Return the text with its path begun at a folder."""
        before, sign, path = text.rpartition(self.sign) if self.sign else ("", "", text)
        return before + sign + str(folder / path) if path.endswith(self.ending) else text


class OutputPath(UserPath):
    """A path that the command writes: a file, or a folder with files."""

    def __init__(self, *, folder: bool) -> None:
        super().__init__(path_type=Path)
        self.folder = folder


PATH = UserPath(path_type=Path)
FILE_OUT = OutputPath(folder=False)
FOLDER_OUT = OutputPath(folder=True)


def check_outputs(context: click.Context) -> None:
    """Refuse outputs of a command line that cannot be written, or that are one another or an input.

    Defaults are not looked at: a command that uses one checks it itself. Raises UsageError and FileError.
    """
    written = [(option, path, folder) for option, path, folder in _outputs(context) if not _is_stream(path)]
    for index, (option, path, folder) in enumerate(written):
        check_output(option, path, folder=folder)
        for other, there, _ in written[:index]:
            if is_same(path, there):
                raise UsageError(f"{other} and {option} must be two places, and both are '{path}'")
        if folder:
            continue
        for name, text in _given(context):
            if is_same(path, Path(text)):
                raise UsageError(f"{option} must not be what {name} reads, and both are '{path}'")


def check_output(option: str, path: Path, *, folder: bool = False) -> None:
    """Refuse a place that cannot be written, and name the option. Raises UsageError."""
    from fluidnpu.models import FileError
    from fluidnpu.models.files import check_place

    try:
        check_place(path, folder=folder)
    except FileError as error:
        raise UsageError(f"{option} {error}") from None


def _outputs(context: click.Context) -> Iterator[tuple[str, Path, bool]]:
    for param in context.command.params:
        value = context.params.get(param.name or "")
        source = context.get_parameter_source(param.name or "")
        if isinstance(param.type, OutputPath) and value is not None and source is not ParameterSource.DEFAULT:
            yield max(param.opts, key=len), value, param.type.folder


def _given(context: click.Context) -> Iterator[tuple[str, str]]:
    """Every other word of the command line, since files are named by many kinds of options.

    Of NAME=PATH and PATH=SHARE both sides come, too.
    """
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if isinstance(param.type, OutputPath):
            continue
        argument = isinstance(param, click.Argument)
        name = param.human_readable_name.split()[0] if argument else max(param.opts, key=len)
        for word in value if isinstance(value, tuple) else (value,):
            if isinstance(word, str | Path):
                before, _, after = str(word).partition("=")
                yield from ((name, text) for text in (str(word), before, after) if text)


def is_same(path: Path, other: Path) -> bool:
    """Return whether two paths are one place, also by links; neither needs to exist."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(other)


def _is_stream(path: Path) -> bool:
    """Return whether this is a device or a pipe: it holds nothing, and may stand for more than one output."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
