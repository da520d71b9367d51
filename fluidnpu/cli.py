"""The console command.

Each subcommand reads and leaves files that can be diffed; `--json` prints one object for scripts, on one
line.

A subcommand's module is loaded when it is asked for, and opens the rooms when it runs, so that help answers
at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

import fluidnpu

from .commands.helpers.logs import FORMATS, LEVELS, start_logging
from .errors import EXIT_BAD_INPUT, UsageError, fail, flush_output, one_sentence

COMMANDS = {
    "build": "build",
    "check": "check",
    "config": "config",
    "demo": "demo",
    "doctor": "doctor",
    "dse": "dse",
    "exits": "exits",
    "fleet": "fleet",
    "import-reports": "import_reports",
    "measure": "measure",
    "place": "place",
    "prepare": "prepare",
    "run": "run",
    "serve": "serve",
    "simulate": "simulate",
    "stream": "stream",
    "train": "train",
    "tune": "tune",
    "verify": "verify",
}  # subcommand and its file in `commands/`


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when the subcommand is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand; None for an unknown name, which click refuses."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".commands.{COMMANDS[cmd_name]}", __package__).command
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as click does, but say in one sentence, or in JSON, what is wrong with a command line."""
        words = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        with one_sentence("--json" in words):
            try:
                code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
            except click.exceptions.NoArgsIsHelpError as error:
                error.show()
                code = EXIT_BAD_INPUT
            except click.ClickException as error:
                fail(_said(error), error.exit_code, "--json" in words)
            except click.Abort as error:  # click says so of Ctrl-C
                raise KeyboardInterrupt from error
            flush_output()
        sys.exit(code if isinstance(code, int) else 0)


def _said(error: click.ClickException) -> UsageError:
    """Say on one line what click found, and where the help is."""
    context = getattr(error, "ctx", None)
    see = "" if context is None else f"; see {context.command_path} --help"
    return UsageError(f"{error.format_message().rstrip('.')}{see}")


def _version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        click.echo(f"fluidnpu, version {fluidnpu.__version__}")
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    metavar="LEVEL",
    help="show logs from debug, info, warning or error on  [default: none]",
)
@click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(FORMATS),
    help="logs as lines for people or as one JSON object a line",
)
def main(log_level: str | None, log_format: str) -> None:
    """Design, verify and serve early-exit networks on FPGA NPUs; without a board, on a simulated one."""
    if log_level is not None:
        start_logging(log_level, log_format)
