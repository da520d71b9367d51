"""The console command. Each subcommand reads and leaves files that can be diffed; `--json` prints one object for scripts.

Heavy imports happen inside the commands, so that `fluidnpu --help` answers at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .errors import one_sentence

Command = Callable[..., Any]


class UserPath(click.Path):
    """A path as the user gives it; an empty one would quietly mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or click's own error and exit code 2."""
        return self.fail("a path must not be empty", param, ctx) if value == "" else super().convert(value, param, ctx)


PATH = UserPath(path_type=Path)

BOARD = click.option("--board", required=True, metavar="NAME|FILE.toml", help="zc706, zcu104, or your own board file")
B_MAX = click.option("--b-max", default=8, show_default=True, metavar="N", help="largest batch, 1 to 16")
DESIGN_B_MAX = click.option(
    "--b-max", type=int, metavar="N", help="largest batch, 1 to 16  [default: the design's, else 8]"
)
MEMORY = click.option(
    "--memory",
    metavar="NAME",
    help="the board's memory that weights and activations lie in, as its file names them: ps, pl, ps_striped  [default: the first]",
)
DATA = click.option(
    "--data",
    type=PATH,
    metavar="FILE.npz",
    help="labelled images (arrays `images` and `labels`); default: those that come with fluidnpu",
)
POLICIES = "adaptive, adaptive-l, adaptive-m, adaptive-s, credit, fluid, fluid-repaired, greedy, guarded, lazy, optimal, serial or staged"
JSON = click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")


def cycle_model(default: str) -> Callable[[Command], Command]:
    """The option `--model`."""
    models = click.Choice(["paper", "exact"])
    return click.option("--model", "cycle_model", default=default, show_default=True, type=models, help="cycle model")


def core_option(default: str, help: str) -> Callable[[Command], Command]:
    """The option `--core`."""
    return click.option("--core", default=default, show_default=True, type=click.Choice(["hls", "rtl"]), help=help)


def command(function: Command) -> Command:
    """Expected errors leave as one sentence and an exit code (see errors.py)."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with one_sentence(bool(kwargs.get("as_json"))):
            return function(*args, **kwargs)

    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fluidnpu")
def main() -> None:
    """Design, verify and serve early-exit networks on FPGA NPUs; without a board, on a simulated one."""


@main.command()
@click.option(
    "--out",
    default="out/demo",
    show_default=True,
    type=PATH,
    help="folder for report, trace and projects",
)
@click.option(
    "--requests", default=1000, show_default=True, help="images to serve, at most those that come with fluidnpu"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the Poisson arrivals")
@JSON
@command
def demo(out: Path, requests: int, seed: int, as_json: bool) -> None:
    """The whole chain on the shipped network: designs, C simulation, 1,000 real images served, a report."""
    from .commands.demo import run

    run(out, requests=requests, seed=seed, as_json=as_json)


@main.command()
@click.argument("model", type=PATH)
@JSON
@command
def check(model: Path, as_json: bool) -> None:
    """Can this model be used? Layers, MACs, exits and operators, or what stands in the way and where."""
    from .commands import build as commands

    commands.check(model, as_json)


@main.command()
@click.argument("model", type=PATH)
@click.option(
    "--exits", "places", metavar="N|at=NAME,NAME", help="attach exits at equal MACs, N in all, or at named tensors"
)
@click.option(
    "--out",
    type=PATH,
    metavar="NEW.onnx",
    help="where to write the network, normalisations folded",
)
@click.option(
    "--threshold", default=1.0, show_default=True, help="confidence above which a new exit is taken; 1: never"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="seed of resnet50's and inception_v3's weights",
)
@JSON
@command
def exits(model: Path, places: str | None, out: Path | None, threshold: float, seed: int, as_json: bool) -> None:
    """Where MODEL can be left early, and heads put there; MODEL is ONNX, or resnet50 or inception_v3 with random weights."""
    from .commands import exits as command_exits

    command_exits.exits(model, places, out, threshold, seed, as_json)


@main.command()
@click.argument("model", type=PATH)
@BOARD
@B_MAX
@MEMORY
@cycle_model("paper")
@core_option("rtl", "whose accumulators must fit: those of the SystemVerilog or of the HLS core")
@click.option(
    "--objective",
    default="throughput",
    show_default=True,
    type=click.Choice(["throughput", "latency"]),
    help="throughput over batch sizes, or the latency of a single sample",
)
@click.option(
    "--evaluations",
    default=24,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="arrays that the exact model counts, at the most",
)
@click.option(
    "--weights",
    metavar="W1,W2,...",
    help="how much throughput at each batch size counts, such as the histogram that `simulate` shows  [default: all the same]",
)
@click.option(
    "--exits",
    metavar="N|at=NAME,NAME",
    help="more exits, at equal MACs or at named tensors: heads in a network, cuts free of charge in a layer table",
)
@click.option(
    "--exit-rates", metavar="A,B,...", help="share of samples that leaves at each exit, for the design's users"
)
@click.option("--out", type=PATH, metavar="design.json", help="where to write the fitted design")
@click.option("--report", type=PATH, metavar="FILE.html", help="where to write the design report")
@click.option(
    "--calibration",
    type=PATH,
    metavar="calibration.json",
    help="search and scale by what `import-reports` read of a built project",
)
@JSON
@command
def dse(
    model: Path,
    board: str,
    exits: str | None,
    exit_rates: str | None,
    out: Path | None,
    report: Path | None,
    calibration: Path | None,
    as_json: bool,
    **search: Any,
) -> None:
    """Search the whole design space of a board for MODEL: ONNX, a layer table, resnet50 or inception_v3."""
    from .commands import build as commands

    work = commands.workload(model, exits, exit_rates)
    commands.dse(work, board, commands.Search(**search), out, report, calibration, as_json)


@main.command()
@click.argument("model", type=PATH)
@BOARD
@DESIGN_B_MAX
@MEMORY
@click.option(
    "--design",
    "design_file",
    type=PATH,
    metavar="design.json",
    help="use this design instead of searching",
)
@cycle_model("exact")
@core_option("hls", "Vivado HLS core or SystemVerilog core")
@click.option("--out", required=True, type=PATH, help="folder for the bitstream project")
@DATA
@click.option(
    "--tolerance", default=0.5, show_default=True, help="points of accuracy that int16 may lose against float"
)
@JSON
@command
def build(
    model: Path,
    board: str,
    b_max: int | None,
    design_file: Path | None,
    out: Path,
    data: Path | None,
    tolerance: float,
    as_json: bool,
    **search: Any,
) -> None:
    """Write the bitstream project and the driver's bundle for MODEL on a board."""
    from .commands import build as commands

    commands.build(model, board, b_max, design_file, commands.Search(**search), out, data, tolerance, as_json)


@main.command("import-reports")
@click.argument("project", type=PATH)
@click.option("--board", metavar="NAME|FILE.toml", help="the project's board, where it is a file of your own")
@click.option(
    "--out",
    type=PATH,
    metavar="FILE.json",
    help="where to write the record  [default: PROJECT/calibration.json]",
)
@JSON
@command
def import_reports(project: Path, board: str | None, out: Path | None, as_json: bool) -> None:
    """After `make bitstream`: what Vivado HLS and Vivado reported of PROJECT beside what was predicted, as a record for `dse`."""
    from .commands import import_reports as importing

    importing.import_project(project, board, out, as_json)


@main.command()
@click.argument("model", type=PATH)
@BOARD
@DESIGN_B_MAX
@click.option(
    "--design",
    "design_file",
    type=PATH,
    metavar="design.json",
    help="use this design instead of searching",
)
@click.option(
    "--batches", metavar="B[,B...]", help="batch sizes to compare  [default: every one up to the design's largest]"
)
@DATA
@JSON
@command
def verify(
    model: Path,
    board: str,
    b_max: int | None,
    design_file: Path | None,
    batches: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Compile the generated HLS C++ and compare every layer with the golden model, bit for bit."""
    from .commands import build as commands

    commands.verify(model, board, b_max, design_file, batches, data, as_json)


@main.command()
@click.argument("table", required=False, type=PATH, metavar="DESIGN|TABLE.json")
@click.option(
    "--policy",
    "policies",
    default="serial,greedy,fluid",
    show_default=True,
    metavar="P[,P...]",
    help="policies to compare; docs/scheduling.md lists them",
)
@click.option("--rate", type=float, help="mean arrivals per second (with a trace: default its own)")
@click.option("--slo", metavar="200ms", help="latency objective of every request (with a trace: default its own)")
@click.option("--requests", type=click.IntRange(min=1), default=20000, show_default=True, help="requests per seed")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="independent runs; intervals are over them",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="seeds that run at once; changes no number",
)
@click.option(
    "--traffic",
    default="poisson",
    show_default=True,
    metavar="KIND|TRACE.csv",
    help="poisson, mmpp[:burst=2:share=0.2:dwell=1s], diurnal[:swing=0.4:period=600s], or arrivals recorded as CSV",
)
@click.option(
    "--exit-rates", metavar="A,B,...", help="share of samples that leaves at each exit, instead of the table's"
)
@click.option(
    "--confidences",
    type=PATH,
    metavar="FILE.csv|.npz|MODEL.onnx",
    help="recorded confidences decide who leaves where, and give the accuracy",
)
@click.option("--thresholds", metavar="A,B,...", help="with --confidences; default: those of MODEL.onnx")
@DATA
@click.option("--true-exit-rates", metavar="A,B,...", help="exit rates as they are, where the policies believe others")
@click.option(
    "--latency-factor",
    type=float,
    default=1.0,
    show_default=True,
    help="how much longer runs take than the policies believe",
)
@click.option(
    "--log",
    type=PATH,
    metavar="FILE.jsonl",
    help="where to write the first seed's decisions and reasons",
)
@click.option(
    "--replay",
    "replayed",
    type=PATH,
    metavar="FILE.jsonl",
    help="check that such a log repeats to the same schedule (on DESIGN|TABLE.json, if given)",
)
@click.option("--report", type=PATH, metavar="FILE.html", help="where to write an HTML report")
@click.option(
    "--study",
    type=click.Choice(["fluid-batching"]),
    help="instead: all tables and figures about serving of that paper, beside its numbers (minutes; fewer --seeds or --requests: less)",
)
@click.option(
    "--out",
    type=PATH,
    default="out/study",
    show_default=True,
    help="folder for the study's page and numbers",
)
@JSON
@command
def simulate(table: Path | None, replayed: Path | None, study: str | None, out: Path, **words: Any) -> None:
    """Compare serving policies on a design's (or any) latency table, with intervals over seeds.

    A policy that does not keep up with the load is called unstable and has no latencies; the others have theirs.

    Exit code: 0 compared (in --json an unstable policy has "unstable": true); 1 --replay found a difference; 2 bad input.
    """
    from .commands import simulate as simulating

    if study is not None:
        simulating.run_study_command(out, *(words[k] for k in ("seeds", "requests", "processes", "as_json")))
    elif replayed is not None:
        simulating.replay_log(replayed, table, words["as_json"])
    else:
        simulating.simulate(simulating.Asked(table=table, **words))


@main.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--device",
    default="simulated",
    show_default=True,
    type=click.Choice(["simulated", "rtl", "cosim", "pynq", "devmem"]),
    help="where to run: simulated; in Verilator, with the core in SystemVerilog (rtl) or in C++ (cosim); on this board with PYNQ, or without",
)
@click.option(
    "--policy",
    default="fluid",
    show_default=True,
    metavar="P[:KEY=VALUE...]",
    help=f"{POLICIES}; each also with :shed=1 and :anytime=3%; docs/scheduling.md says more",
)
@click.option("--rate", required=True, type=float, help="mean arrivals per second")
@click.option("--slo", required=True, metavar="200ms", help="latency objective of every request")
@click.option(
    "--requests", type=click.IntRange(min=1), metavar="N", help="serve the first N images only  [default: all]"
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the arrivals")
@DATA
@click.option(
    "--registers",
    metavar="ADDRESS",
    help="devmem: physical address of the NPU's registers  [default: that of the board's generated design]",
)
@click.option(
    "--reserved",
    metavar="ADDRESS:SIZE",
    help="devmem: physical memory that Linux leaves to the NPU, such as 0x30000000:128MiB  [default: the programmable logic's own]",
)
@JSON
@command
def serve(**words: Any) -> None:
    """Serve images through a built BUNDLE (or the project around it), on a simulated NPU or on this board.

    Exit code: 0 all requests ended; 1 the device failed; 2 bad input; 130 or 143 stopped by Ctrl-C or SIGTERM.
    """
    from .commands import serve as serving

    serving.serve(serving.Asked(**words))


@main.command()
@click.option("--architecture", default="resnet8", show_default=True, type=click.Choice(["resnet8", "resnet20"]))
@click.option("--epochs", default=12, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--tolerance",
    default=0.5,
    show_default=True,
    help="points of accuracy that early exits may cost on the held-out split",
)
@click.option("--out", required=True, type=PATH, metavar="MODEL.onnx", help="where to write the model")
@click.option(
    "--data",
    type=PATH,
    help="folder with Fashion-MNIST's four files; default: where Debian puts them",
)
@JSON
@command
def train(
    architecture: str, epochs: int, seed: int, tolerance: float, out: Path, data: Path | None, as_json: bool
) -> None:
    """Train all exits of a network jointly on Fashion-MNIST and write it as one ONNX file."""
    from .commands import build as commands

    commands.train(architecture, out, epochs, seed, tolerance, data, as_json)


@main.command()
@JSON
@command
def doctor(as_json: bool) -> None:
    """What is installed here, what is missing, and what each missing part would be good for."""
    from .commands import build as commands

    commands.doctor(as_json)
