"""`fluidnpu tune`: solve a policy's table and choose or tune its weights, for a bundle or as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluidnpu import dse, scheduler
from fluidnpu.models import files
from fluidnpu.scheduler import comparison, tuning

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..options import FILE_OUT, JSON, PATH, numbers, takes
from .helpers.circumstances import DESIGN_FILE, design_file, read_serving
from .helpers.spreading import Spread, engine_of, spread_over

if TYPE_CHECKING:
    from fluidnpu.scheduler.policies import Choice, Setting, Trial


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Spread):
    """The command line of `fluidnpu tune`, as text and numbers."""

    design: Path
    rate: float
    slo: str
    traffic: str
    exit_rates: str | None
    dial: float
    generations: int
    seed: int
    resume: bool
    out: Path | None
    as_json: bool


@click.command("tune")
@click.argument("design", type=PATH, metavar="PROJECT|BUNDLE|DESIGN|TABLE.json")
@click.option("--rate", required=True, type=float, help="mean arrivals per second")
@click.option("--slo", required=True, metavar="200ms", help="latency objective of every request")
@click.option("--traffic", default="poisson", show_default=True, metavar="KIND", help="as of fluidnpu simulate")
@click.option(
    "--exit-rates", metavar="A,B,...", help="share of samples that leaves at each exit, instead of the table's"
)
@click.option(
    "--dial",
    type=click.FloatRange(0, 2),
    default=1.0,
    show_default=True,
    help="0: late answers are worthless; 1: fewest late at no worse average and p99 than fluid; 2: p99 is the contract",
)
@click.option(
    "--generations",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="of the evolution strategy, some ten seconds each; 0 chooses among the weights that ship",
)
@spread_over("candidates of a generation")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="seed of the search")
@click.option("--resume", is_flag=True, help="go on with a search that was stopped")
@click.option(
    "--out",
    type=FILE_OUT,
    metavar="WEIGHTS.json",
    help="where to write the weights, for guarded:weights=WEIGHTS.json; the search is kept beside it",
)
@JSON
@takes(TuneOptions)
def command(options: TuneOptions) -> None:
    """Make the policy `guarded` ready for a design, a load and an objective, in simulation.

    Solves its decision process and chooses among the weights that ship, with fluid as referee; with
    --generations it tunes weights for this table. In a bundle it leaves policy.json and counts.npz, with
    which fluidnpu serve starts at once.

    Exit code: 0 done; 1 nothing was found that beats fluid (it then serves as fluid); 2 bad input.
    """
    tune_policy(options)


def tune_policy(options: TuneOptions) -> None:
    """Choose or tune, write, and print what was reached. Raises UsageError for options that do not fit."""
    out = show.console(options.as_json)
    folder, table = _places(options.design)
    if folder is None and options.out is None:
        raise UsageError("tune of a design or a table needs --out, since only a bundle holds the result itself")
    if options.resume and not (options.generations and options.out):
        raise UsageError("--resume continues a search, so it needs its --generations and its --out")
    engine = engine_of(options)
    if not options.generations and engine != comparison.HERE:
        raise UsageError("--processes and --engine serve the candidates of a search, so they need its --generations")
    if not dse.has_numba():
        out.print(
            "[dim]without Numba fewer streams are tried, and they take longer: pip install 'fluidnpu\\[design]'[/]"
        )
    serving = read_serving(table, numbers("--exit-rates", options.exit_rates))
    slo_ns = scheduler.parse_duration_ns(options.slo, "--slo")
    setting = serving.setting(options.rate, slo_ns, options.traffic)
    plan = tuning.TuningPlan.make(setting, dials=sorted({0.0, 1.0, 2.0, options.dial}))
    choice = plan.choices[f"guarded:dial={options.dial:g}"]
    trials: dict[str, Trial] = {}
    if options.generations:
        choice, trials = _tuned(options, setting, engine)
        plan = plan.with_choice(options.dial, choice)
    written = []
    if folder is not None:
        plan.write(folder)
        written += [folder / tuning.PLAN_FILE, folder / tuning.COUNTS_FILE]
    if options.out is not None and choice.weights is not None:
        files.write_file(options.out, tuning.weight_file(setting, options.dial, choice.weights))
        written.append(options.out)
    _tell(options, setting, choice, trials, written)


def _places(path: Path) -> tuple[Path | None, Path]:
    """Return the folder of a bundle, if it is one, and the file of the design or table."""
    file = design_file(path)
    if file != path:
        return file.parent, file
    if path.is_dir():
        raise UsageError(f"'{path}' must be a design, a table, or a bundle with its {DESIGN_FILE}")
    return None, path


def _tuned(options: TuneOptions, setting: Setting, engine: comparison.Engine) -> tuple[Choice, dict[str, Trial]]:
    state = None if options.out is None else options.out.with_suffix(".search.npz")
    if state is not None and not options.resume:
        state.unlink(missing_ok=True)
    search = tuning.Tuning(setting, dial=options.dial, seed=options.seed, state=state, engine=engine)
    with show.progress(show.console(options.as_json), "tuning weights") as step:
        search.run(options.generations, step)
    return search.judged()


def _tell(
    options: TuneOptions,
    setting: Setting,
    choice: Choice,
    trials: dict[str, Trial],
    written: list[Path],
) -> None:
    violations, average, p99 = choice.ratios
    report = {
        "solved_for_per_s": setting.count_table().rate_per_s,
        "origin": choice.origin,
        "beats_fluid": choice.weights is not None,
        "over_fluid": {"violations": violations, "average": average, "p99": p99},
        "written": [str(path) for path in written],
        "simulated": True,
    }
    if options.as_json:
        show.emit(report)
        if choice.weights is None:
            raise SystemExit(1)
        return
    out = show.console()
    if trials:
        rows = [(name, *(f"{value:.3g}" for value in trial.results.mean(0))) for name, trial in trials.items()]
        title = "on streams that nothing was tuned on (simulated)"
        out.print(show.table(title, ("policy", "violations %", "average ms", "p99 ms"), rows))
    out.print(f"guarded at dial {options.dial:g}: {choice.origin}")
    for path in written:
        out.print(f"written: [bold]{path}[/]")
    if choice.weights is None:
        raise NegativeAnswerError("no weights beat fluid on this table and load, so guarded serves as fluid", report)
