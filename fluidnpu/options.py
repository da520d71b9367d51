"""Options that several subcommands share, and the meaning of their text.

Every refusal is one sentence that names the option.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from .errors import UsageError, one_sentence

Decorated = Callable[..., Any]
Option = Callable[[Decorated], Decorated]


class UserPath(click.Path):
    """A path as the user gives it; an empty one would quietly mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path, or click's own error and exit code 2."""
        return self.fail("a path must not be empty", param, ctx) if value == "" else super().convert(value, param, ctx)


PATH = UserPath(path_type=Path)

BOARD = click.option("--board", required=True, metavar="NAME|FILE.toml", help="zc706, zcu104, or your own board file")
DESIGN_B_MAX = click.option(
    "--b-max", type=int, metavar="N", help="largest batch, 1 to 16  [default: the design's, else 8]"
)
DESIGN_FILE = click.option(
    "--design", "design_file", type=PATH, metavar="design.json", help="use this design instead of searching"
)
MEMORY = click.option(
    "--memory",
    metavar="NAME",
    help="the board's memory that weights and activations lie in, as its file names them: ps, pl, ps_striped  "
    "[default: the first]",
)
DATA = click.option(
    "--data",
    type=PATH,
    metavar="DATA",
    help="images: .npz with arrays `images` and `labels`, idx file, or a folder a class; labels where accuracy is asked "
    "for  [default: those that come with fluidnpu, for a network trained on them]",
)
EXIT_RATES = click.option(
    "--exit-rates",
    metavar="A,B,...",
    help="share of samples that leaves at each exit  [default: the model's, else measured on --data]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")


def cycle_model(default: str) -> Option:
    """Make the option `--model`."""
    models = click.Choice(["paper", "exact"])
    return click.option("--model", "cycle_model", default=default, show_default=True, type=models, help="cycle model")


def core_option(default: str, help: str) -> Option:
    """Make the option `--core`."""
    return click.option("--core", default=default, show_default=True, type=click.Choice(["hls", "rtl"]), help=help)


class Options(Protocol):
    """The options of a subcommand, as its own frozen record."""

    @property
    def as_json(self) -> bool:
        """One JSON object on standard output."""


O = TypeVar("O", bound=Options)  # noqa: E741


def takes(record: type[O]) -> Callable[[Callable[[O], None]], Decorated]:
    """Hand a subcommand its options as one record.

    Expected errors leave as one sentence and an exit code (errors.py).
    """

    def decorate(function: Callable[[O], None]) -> Decorated:
        @functools.wraps(function)
        def wrapped(**words: Any) -> None:
            options = record(**words)
            with one_sentence(options.as_json):
                function(options)

        return wrapped

    return decorate


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Read finite numbers with commas between them; None where the option is absent. Raises UsageError.

    >>> numbers("--exit-rates", "0.25,0.75")
    (0.25, 0.75)
    """
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = (math.nan,)
    if not all(map(math.isfinite, values)):
        raise UsageError(f"{option} must be finite numbers with commas between them, not '{text}'")
    return values
