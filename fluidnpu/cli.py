"""The console command.

Each subcommand reads and leaves files that can be diffed; `--json` prints one object for scripts.

A subcommand's module is loaded when it is asked for, and opens the rooms when it runs, so that help answers
at once.
"""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "build": "build",
    "check": "check",
    "demo": "demo",
    "doctor": "doctor",
    "dse": "dse",
    "exits": "exits",
    "import-reports": "import_reports",
    "prepare": "prepare",
    "serve": "serve",
    "simulate": "simulate",
    "train": "train",
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


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fluidnpu")
def main() -> None:
    """Design, verify and serve early-exit networks on FPGA NPUs; without a board, on a simulated one."""
