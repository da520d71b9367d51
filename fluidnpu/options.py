"""Options that several subcommands share, and the meaning of their text.

Every refusal is one sentence that names the option.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.core import ParameterSource

from fluidnpu import boards

from .errors import UsageError, one_sentence
from .outputs import FILE_OUT as FILE_OUT
from .outputs import FOLDER_OUT as FOLDER_OUT
from .outputs import PATH as PATH
from .outputs import check_outputs

if TYPE_CHECKING:
    from fluidnpu.scheduler.exits import PowerModel

Decorated = Callable[..., Any]
Option = Callable[[Decorated], Decorated]


BOARD = click.option(
    "--board",
    required=True,
    metavar="NAME|FILE.toml",
    help=f"{', '.join(boards.list_boards())}, or your own board file",
)
DESIGN_B_MAX = click.option(
    "--b-max", type=int, metavar="N", help="largest batch, 1 to 16  [default: the design's, else 8]"
)
DESIGN_FILE = click.option(
    "--design", "design_file", type=PATH, metavar="design.json", help="use this design instead of searching"
)
MEMORY = click.option(
    "--memory",
    metavar="NAME",
    help="the board's memory that weights and activations lie in, as its file names them: ps_striped, ps, pl  "
    "[default: the first that an array fits with]",
)
POWER = click.option(
    "--power",
    metavar="IDLE,ACTIVE",
    help="watts of the board while its NPU does nothing and works, for modelled energies  [default: the board file's]",
)
EXPLAIN = click.option("--explain", is_flag=True, help="also say what every word and every number on the screen means")
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
_READING = "fluidnpu.reading"  # what `reading` keeps of the command line, in the context's meta


def _kept(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None:
        context.meta.setdefault(_READING, {})[option.name] = value


def reading(command: Decorated) -> Decorated:
    """Add the options that say how MODEL is read; `reading_options` gives what they are."""
    weights = click.option(
        "--most-weights",
        type=click.IntRange(min=1),
        metavar="N",
        expose_value=False,
        callback=_kept,
        help="refuse an ONNX file of more weights  [default: 268435456]",
    )
    logits = click.option(
        "--logits",
        metavar="NAME[,NAME...]",
        expose_value=False,
        callback=_kept,
        help="outputs of an ONNX file that are exits, or `none`; others are returned as they are  [default: vectors of logits, "
        "but not the heads of one trunk]",
    )
    size = click.option(
        "--input",
        "input_size",
        metavar="CxHxW|HxW",
        expose_value=False,
        callback=_kept,
        help="size of the image, where an ONNX file leaves it open or has a dummy, in the file's order  [default: the file's]",
    )
    return weights(logits(size(command)))


def is_default(name: str) -> bool:
    """Return whether an option of the command that runs has its default, which nobody typed."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT


def reading_options() -> dict[str, Any]:
    """Return how a model is read, as keywords of `models.read_model`; those are None that nobody gave."""
    context = click.get_current_context(silent=True)
    kept = {} if context is None else context.meta.get(_READING, {})
    names, size = kept.get("logits"), kept.get("input_size")
    return {
        "most_weights": kept.get("most_weights"),
        "exits": None if names is None else () if names == "none" else tuple(names.split(",")),
        "size": None if size is None else input_size(size),
    }


def input_size(text: str) -> tuple[int, ...]:
    """Return the sizes that `--input` names, as in 3x320x320. Raises UsageError for other text."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdecimal() and 0 < len(part) < 7 for part in parts):
        raise UsageError(f"--input must be sizes as in 3x320x320 or 320x320, not '{text}'")
    return tuple(int(part) for part in parts)


JSON = click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")


class RenamedOption(click.Option):
    """An option whose older name is still understood and no longer shown: the last of its names."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Give names and help without the older name."""
        record = super().get_help_record(ctx)
        return record and (record[0].replace(f", {self.opts[-1]}", ""), record[1])


def cycle_model(default: str) -> Option:
    """Make the option `--cycles`; its older name `--model` sounded like the network, which is MODEL."""
    return click.option(
        "--cycles",
        "--model",
        "cycle_model",
        cls=RenamedOption,
        default=default,
        show_default=True,
        type=click.Choice(["paper", "exact"]),
        help="cycle model: exact counts what our RTL takes, paper is a publication's fit",
    )


BITS = click.option(
    "--bits",
    type=click.Choice(["16", "8"]),
    default="16",
    show_default=True,
    callback=lambda _context, _parameter, value: int(value),
    help="bits of a word of the NPU: with 8 a DSP slice multiplies twice, and words take half of the memory (ADR 75)",
)
EVALUATIONS = click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    metavar="N",
    help="arrays that the exact model counts, at the most  [default: a quick search: 8 for small networks, 1 for "
    "large ones]",
)


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
    """Hand a subcommand its options as one record, once the places that it is to write can be written.

    Expected errors leave as one sentence and an exit code (errors.py).
    """

    def decorate(function: Callable[[O], None]) -> Decorated:
        @functools.wraps(function)
        def wrapped(**words: Any) -> None:
            options = record(**words)
            with one_sentence(options.as_json):
                check_outputs(click.get_current_context())
                function(options)

        return wrapped

    return decorate


def read_power(text: str | None) -> PowerModel | None:
    """Read watts; None where the option is absent. Raises UsageError."""
    watts = numbers("--power", text)
    if watts is None:
        return None
    if len(watts) != 2:
        raise UsageError(f"--power must be two numbers of watts, idle and active, not '{text}'")
    from fluidnpu.scheduler.exits import PowerModel

    return PowerModel(idle_w=watts[0], active_w=watts[1])


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
