"""Configuration files: a table a command, whose keys are the command's options without their dashes.

    [serve]
    bundles = ["demo=project"]     # the command's arguments, by their name
    http = 8000
    token-file = "token"           # paths begin at the folder of the file
    guarded = true

Words of the command line go before the file. Every refusal names the file and the line.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fluidnpu import models

from ...errors import UsageError, is_expected, sentence
from ...options import Option
from ...outputs import PATH, TextWithPath, UserPath

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMANDS = ("serve", "stream", "fleet")  # the ways to serve, each with its table
MOST_BYTES = 64 << 10  # of a file, whose pieces are read again to find a line
_KEPT = "fluidnpu.commands.helpers.configuration"  # the file of a command line, in the context's meta
_NUMBERS = (click.types.IntParamType, click.types.FloatParamType)


class WordsArgument(click.Argument):
    """Arguments of any number that a configuration file may give, with every version of click."""

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        """Take no words as none given."""
        return super().consume_value(ctx, {name: value for name, value in opts.items() if value != ()})


@dataclass(frozen=True)
class Configuration:
    """A file that was read: its tables by command, and its text, in which lines are looked up."""

    path: Path
    text: str
    tables: dict[str, dict[str, Any]]

    @staticmethod
    def read(path: Path) -> Configuration:
        """Read a file. Raises FileError, and UsageError for what is no table of a command."""
        text = models.read_text(path, "options in TOML", MOST_BYTES)
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"'{path}' must be TOML, and it is not: {error}") from None
        read = Configuration(path, text, tables)
        for name, table in tables.items():
            if name not in COMMANDS or not isinstance(table, dict):
                raise UsageError(f"{read.at(name)}: a table must be one of {', '.join(COMMANDS)}, not '{name}'")
        return read

    def at(self, *keys: str) -> str:
        """Name the line at which a key, or a table, first stands.

        It is the line behind the longest whole piece of the file that lacks the key.
        """
        lines = self.text.splitlines(keepends=True)
        for count in reversed(range(len(lines))):
            try:
                value: Any = tomllib.loads("".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                continue
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is None:
                return f"'{self.path}', line {count + 1}"
        return f"'{self.path}'"

    def values(self, command: click.Command, name: str) -> dict[str, Any]:
        """Return a command's options by the names of its parameters. Raises UsageError for a wrong key or
        value.
        """
        if name not in self.tables:
            there = ", ".join(f"[{table}]" for table in self.tables) or "none"
            raise UsageError(f"'{self.path}' must have the table [{name}], and it has {there}")
        params = {_key(param): param for param in command.params if param.name not in ("config", "help")}
        values = {}
        for key, value in self.tables[name].items():
            if key not in params:
                keys, close = ", ".join(sorted(params)), difflib.get_close_matches(key, params, 1)
                problem = f"a key of [{name}] must be one of {keys}, not '{key}'"
                hint = f"; did you mean '{close[0]}'?" if close else ""
                raise UsageError(f"{self.at(name, key)}: {problem}{hint}")
            try:
                values[params[key].name or ""] = self._checked(params[key], value)
            except (click.BadParameter, TypeError) as error:
                problem = error.message.rstrip(".") if isinstance(error, click.BadParameter) else str(error)
                raise UsageError(f"{self.at(name, key)}: {key} is wrong: {problem}") from None
        return values

    def _checked(self, param: click.Parameter, value: Any) -> Any:
        """Return a value as the command line would have it. Raises TypeError and click's BadParameter."""
        if param.nargs == -1:
            if not isinstance(value, list):
                raise TypeError(f"it must be a list of texts, not {value!r}")
            return tuple(self._checked_one(param, element) for element in value)
        return self._checked_one(param, value)

    def _checked_one(self, param: click.Parameter, value: Any) -> Any:
        flag = isinstance(param, click.Option) and param.is_flag
        number = isinstance(param.type, _NUMBERS)
        kind, wanted = (bool, "true or false") if flag else ((int, float), "a number") if number else (str, "text")
        if not isinstance(value, kind) or isinstance(value, bool) is not flag:
            raise TypeError(f"it must be {wanted}, not {value!r}")
        if isinstance(param.type, UserPath | TextWithPath):
            value = param.type.beside(self.path.parent, str(value))
        param.type.convert(value, param, None)
        return value


def _key(param: click.Parameter) -> str:
    return (max(param.opts, key=len) if isinstance(param, click.Option) else param.name or "").lstrip("-")


def _kept(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    """Make what the file says the defaults of the command line."""
    if value is None or context.resilient_parsing:
        return
    read = Configuration.read(value)
    context.default_map = read.values(context.command, context.info_name or "")
    context.meta[_KEPT] = read


def config_option(command: Any) -> Any:
    """Add the option `--config` to a command with a table of its own."""
    option: Option = click.option(
        "--config",
        type=PATH,
        metavar="FILE.toml",
        is_eager=True,
        expose_value=False,
        callback=_kept,
        help="options that are not given here, in a table of this command's name",
    )
    return option(command)


@contextmanager
def place_errors() -> Iterator[None]:
    """Add file and line to a refusal of what a configuration file says.

    The line is that of the option which the sentence names, else of the value, else of the key as a word,
    else of the value with the piece that came, else of the table. Raises UsageError with both.
    """
    context = click.get_current_context()
    read: Configuration | None = context.meta.get(_KEPT)
    try:
        yield
    except Exception as error:
        if read is None or (not is_expected(error) and not isinstance(error, OSError)):
            raise
        problem, name = sentence(error), context.info_name or ""
        if isinstance(error, OSError) and error.filename:
            problem = f"the file '{error.filename}' could not be used: {error.strerror}"
        table = read.tables[name]
        named = [key for key in table if f"--{key} " in problem]
        named += [key for key, value in table.items() if any(text in problem for text in _texts(value))]
        named += [key for key in table if re.search(rf"\b{re.escape(key)}\b", problem)]
        came = re.findall(r"\bnot '([^']+)'", problem)
        named += [key for key, value in table.items() if any(piece in text for piece in came for text in _texts(value))]
        raise UsageError(f"{read.at(name, *named[:1])}: {problem}") from None


def _texts(value: Any) -> list[str]:
    """Return the texts of a value, those behind `NAME=` without it, that a sentence may quote."""
    words = value if isinstance(value, list) else [value]
    return [f"{word.rpartition('=')[2]}" for word in words if isinstance(word, str) and len(word) > 1]
