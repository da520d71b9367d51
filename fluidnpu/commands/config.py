"""`fluidnpu config`: files with the options of `serve`, `stream` and `fleet`, and those around a server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import click

from fluidnpu.host import kit

from .. import show
from ..errors import UsageError
from ..options import FOLDER_OUT, JSON, PATH, takes
from .helpers.configuration import Configuration, place_errors


@dataclass(frozen=True, kw_only=True)
class ConfigCheckOptions:
    """The command line of `fluidnpu config check`."""

    file: Path
    as_json: bool


@click.group("config")
def command() -> None:
    """Files with the options of `serve`, `stream` and `fleet`, and those around a server."""


@command.command("check")
@click.argument("file", type=PATH, metavar="FILE.toml")
@JSON
@takes(ConfigCheckOptions)
def check(options: ConfigCheckOptions) -> None:
    """Read a configuration file, and all that it names, as its commands would; a wrong line is named.

    Bundles of `serve` are loaded on a simulated NPU. Ports are not opened, and boards not asked.

    Exit code: 0 right; 2 bad input.
    """
    read = Configuration.read(options.file)
    if not read.tables:
        raise UsageError(f"'{options.file}' must have a table, such as [serve], and it has none")
    for name in read.tables:
        module = import_module(f".{name}", __package__)
        context = module.command.make_context(name, ["--config", str(options.file)])
        record = get_type_hints(module.check)["options"]
        with context, place_errors():
            module.check(record(**context.params))
    if options.as_json:
        show.emit({"file": str(options.file), "commands": sorted(read.tables)})
        return
    for name in read.tables:
        print(f"'{options.file}' is right: fluidnpu {name} --config {options.file}")


@dataclass(frozen=True, kw_only=True)
class KitOptions:
    """The command line of `fluidnpu config kit`."""

    folder: Path
    name: str
    as_json: bool


@command.command("kit")
@click.argument("folder", type=FOLDER_OUT, metavar="FOLDER")
@click.option("--name", default="demo", show_default=True, help="of the model in serve.toml")
@JSON
@takes(KitOptions)
def write_kit(options: KitOptions) -> None:
    """Write what an operator needs around a server: systemd units, a Containerfile and a first serve.toml.

    A bundle that `fluidnpu build` wrote has the same in its folder kit.
    """
    from fluidnpu.models import files

    texts = kit.kit_files(options.name)
    files.write_files({options.folder / name: text for name, text in texts.items()})
    if options.as_json:
        show.emit({"folder": str(options.folder), "files": sorted(texts)})
        return
    print(f"{options.folder}: {', '.join(sorted(texts))}")
