"""Options that the three ways to serve share, and the command that shows them in sections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from fluidnpu.host import oip
from fluidnpu.scheduler.policies import POLICY_FILES

from ...errors import UsageError
from ...options import PATH, Decorated, Option
from .configuration import COMMANDS

*_BUT_LAST, _LAST = sorted(POLICY_FILES)
PORT = click.IntRange(0, 65535)
POLICIES = (
    f"{', '.join(_BUT_LAST)}, {_LAST} or a package's; each also with :drain=1, :shed=1 and :anytime=3%; docs/explanation/scheduling "
    "says more"
)
CRITERIA = click.option(
    "--criteria",
    metavar="TEXT",
    help="when requests leave that do not say so themselves, such as 'confidence > 0.9 or slack < 5ms'  [default: the "
    "model's thresholds]",
)
TENANTS = click.option(
    "--tenants",
    type=PATH,
    metavar="FILE.toml",
    help="tenants that share each NPU, by the request's parameter tenant; --policy is that of each",
)
CERTIFY = click.option(
    "--certify",
    metavar="eta=0.99[,risk=0.05][,share=1%]",
    help="let thresholds follow a certificate: at every moment at least eta of the answers are the last exit's, with "
    "probability 1 - risk; of those that leave early, a share runs on",
)
RATE = click.option("--rate", type=float, help="expected requests a second  [default: half of capacity]")
SLO = click.option(
    "--slo", metavar="200ms", help="objective of requests that name none  [default: five lone latencies]"
)


class DeviceChoice(click.Choice):  # type: ignore[type-arg]  # that of click 8.1 takes none
    """Takes one of some kinds of devices, or the name of one that a package brings."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Look among the packages for a name that is none of the kinds."""
        if value in self.choices:
            return value
        from fluidnpu.host.devices import DEVICE_EXTENSIONS

        return click.Choice([*self.choices, *DEVICE_EXTENSIONS.names]).convert(value, param, ctx)


def device_option(*more: str, help: str) -> Option:
    """Make the option `--device` of the kinds that keep real time, and more; packages may bring others."""
    kinds = DeviceChoice(["simulated", "cpu", *more, "pynq", "devmem"])
    return click.option("--device", default="simulated", show_default=True, type=kinds, help=help)


_LISTENING = (
    click.option("--http", type=PORT, metavar="PORT", help="serve REST here (0: any free port), with a live page at /"),
    click.option("--grpc", type=PORT, metavar="PORT", help="serve gRPC here"),
    click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on; 0.0.0.0 is every one"),
    click.option("--unix", type=PATH, metavar="FOLDER", help="serve both at UNIX sockets here: http.sock, grpc.sock"),
    click.option(
        "--unix-mode", metavar="OCTAL", default="660", show_default=True, help="who may connect there, as for chmod"
    ),
)
_BOUNDS = (
    click.option("--token-file", type=PATH, metavar="FILE", help="requests must carry the bearer token in this file"),
    click.option("--tls-cert", type=PATH, metavar="FILE.pem", help="certificate: all surfaces speak TLS"),
    click.option("--tls-key", type=PATH, metavar="FILE.pem", help="its key"),
    click.option(
        "--max-queue",
        type=click.IntRange(1, 1 << 20),
        default=1024,
        show_default=True,
        metavar="N",
        help="requests without an answer",
    ),
    click.option(
        "--max-batch",
        type=click.IntRange(1, 4096),
        default=64,
        show_default=True,
        metavar="N",
        help="images in one request",
    ),
    click.option(
        "--shared-memory",
        type=click.IntRange(0, 1 << 20),
        default=0,
        metavar="MIB",
        help="of shared memory that clients of this machine may register  [default: none]",
    ),
)
_RECORDS = (
    click.option("--guarded", is_flag=True, help="check program, registers and results after every job"),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="warning",
        show_default=True,
        metavar="LEVEL",
        help="of the JSON lines on standard error: debug, info, warning or error",
    ),
    click.option("--log-requests", is_flag=True, help="log a line a request, too"),
    click.option("--spans", metavar="URL", help="send a span a request here, as OTLP over HTTP"),
)


def _adding(options: tuple[Decorated, ...]) -> Decorated:
    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


listening, bounds, records = map(_adding, (_LISTENING, _BOUNDS, _RECORDS))  # in the order that help shows


class Sectioned(click.Command):
    """A way to serve, whose help has sections, and which says which of the three ways an option belongs to.

    `examples`: command lines, and what each does. `sections`: headings by the parameter that each begins
    with.
    """

    def __init__(
        self,
        *words: Any,
        examples: Mapping[str, str],
        sections: Mapping[str, str],
        **options: Any,
    ) -> None:
        super().__init__(*words, **options)
        self.examples, self.sections = examples, sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and every section under its heading."""
        with formatter.section("Examples"):
            width = max(map(len, self.examples))
            for line, does in self.examples.items():
                formatter.write(f"  {line:{width}}  {does}\n")
        parts: list[tuple[str, list[tuple[str, str]]]] = [("Options", [])]
        for param in self.get_params(ctx):
            if param.name in self.sections:
                parts.append((self.sections[param.name], []))
            if (record := param.get_help_record(ctx)) is not None and isinstance(param, click.Option):
                parts[-1][1].append(record)
        for heading, records in parts:
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records, col_max=24)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises UsageError for an option of another way to serve, with its command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for name in COMMANDS:
                other: click.Command = import_module(f"fluidnpu.commands.{name}").command
                (argument,) = (param for param in other.params if isinstance(param, click.Argument))
                words = f"fluidnpu {name} {argument.metavar}"
                if error.option_name == f"--{argument.name}":
                    raise UsageError(f"{ctx.info_name} has no {error.option_name}: write `{words}`") from None
                if any(error.option_name in param.opts for param in other.params):
                    option = f"{error.option_name} ..."
                    raise UsageError(f"{ctx.info_name} has no {error.option_name}: write `{words} {option}`") from None
            raise


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The options that a server and the front of a fleet share, as text and numbers."""

    http: int | None
    grpc: int | None
    host: str
    unix: Path | None
    unix_mode: str
    max_queue: int
    max_batch: int
    shared_memory: int
    token_file: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    guarded: bool
    log_level: str
    log_requests: bool
    spans: str | None
    policy: str | None
    rate: float | None
    slo: str | None
    criteria: str | None
    tenants: Path | None
    as_json: bool

    def surfaces(self, **more: int | None) -> oip.ServeOptions:
        """The same as the server takes it, with more ports. Raises UsageError and HostError."""
        if self.http is None and self.grpc is None and self.unix is None:
            raise UsageError(
                "a server must have --http, --grpc or --unix, and it has none; `fluidnpu stream` measures a stream of "
                "images without one"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("--tls-cert", "--tls-key")[:: 1 if self.tls_key is None else -1]
            raise UsageError(f"{given} must come with {missing}, which is missing")
        if not re.fullmatch("0?[0-7]{3}", self.unix_mode):
            raise UsageError(f"--unix-mode must be three octal digits, such as 660, not '{self.unix_mode:.40}'")
        options = oip.ServeOptions(
            host=self.host,
            http=self.http,
            grpc=self.grpc,
            unix=self.unix,
            unix_mode=int(self.unix_mode, 8),
            token_file=self.token_file,
            certificate=self.tls_cert,
            key=self.tls_key,
            spans=None if self.spans is None else oip.spans_to(self.spans),
            limits=oip.Limits(queue=self.max_queue, batch=self.max_batch, shared_bytes=self.shared_memory << 20),
            **more,
        )
        options.check()
        return options
