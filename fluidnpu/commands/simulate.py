"""`fluidnpu simulate`: policies side by side on one latency table, decision logs and their replays, studies
of papers.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import dse, models, scheduler, studies
from fluidnpu.models import files
from fluidnpu.scheduler import comparison, exits, simulation

from .. import show
from ..errors import NegativeAnswerError, UsageError, add_note
from ..options import DATA, EXPLAIN, FILE_OUT, FOLDER_OUT, JSON, PATH, POWER, takes
from ..outputs import check_output, is_same
from ..quantities import plain
from ..reports.remarks import remarks
from .helpers.circumstances import Circumstances, design_file, read_serving
from .helpers.data import CLASSES, refuse_classes_without
from .helpers.memory import refuse_above
from .helpers.spreading import Spread, engine_of, spread_over
from .modes.simulate_drift import drift_simulated
from .modes.tenants import simulate_tenants

if TYPE_CHECKING:
    from rich.console import Console

COMPILED_BYTES, LOGGED_BYTES, SEED_BYTES = 300, 1500, 2000  # of memory: a request, a request kept as objects, a seed
MANY_SEEDS = 1_000_000
USUAL = "serial,greedy,fluid"
USUAL_REQUESTS, DRIFTING = 20_000, 6_000  # a seed, and where a load drifts
USUAL_SEEDS, DRIFTS = 30, 5


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(Circumstances, Spread):
    """The command line of `fluidnpu simulate`, as text and numbers."""

    policies: str
    seeds: int
    log: Path | None
    replayed: Path | None
    report: Path | None
    study: str | None
    tenants: Path | None
    adapt: Path | None
    certify: str | None
    drift: str | None
    budgets: str | None
    out: Path
    explain: bool
    as_json: bool

    @property
    def names(self) -> list[str]:
        """The policies, one by one."""
        return [name.strip() for name in self.policies.split(",")]


@click.command("simulate")
@click.argument("table", required=False, type=PATH, metavar="DESIGN|TABLE.json|PROJECT")
@click.option(
    "--policy",
    "policies",
    default=USUAL,
    show_default=True,
    metavar="P[,P...]",
    help="policies to compare; docs/explanation/scheduling lists them",
)
@click.option("--rate", type=float, help="mean arrivals per second (with a trace: default its own)")
@click.option("--slo", metavar="200ms", help="latency objective of every request (with a trace: default its own)")
@click.option(
    "--requests", type=click.IntRange(min=1), default=USUAL_REQUESTS, show_default=True, help="requests per seed"
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=USUAL_SEEDS,
    show_default=True,
    help="independent runs; intervals are over them",
)
@spread_over("seeds, and pieces of a study")
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
@click.option(
    "--criteria",
    metavar="TEXT",
    help="who leaves where, such as 'confidence > 0.9 or next_response_time > 20ms'; docs/how-to/criteria-and-tenants",
)
@POWER
@DATA
@CLASSES
@click.option("--true-exit-rates", metavar="A,B,...", help="exit rates as they are, where the policies believe others")
@click.option(
    "--latency-factor",
    type=float,
    default=1.0,
    show_default=True,
    help="how much longer runs take than the policies believe",
)
@click.option(
    "--true-rate", type=float, help="mean arrivals per second as they are, where the policies are told --rate"
)
@click.option(
    "--objectives",
    metavar="50ms=20%,...",
    help="shares of the requests with objectives of their own; the others have --slo",
)
@click.option(
    "--tenants",
    type=PATH,
    metavar="FILE.toml",
    help="tenants that share the NPU, each with its own share, rate and criterion; one --policy is that of each",
)
@click.option(
    "--adapt",
    type=PATH,
    metavar="PLAN.npz",
    help="instead: a load that changes, with fixed exits and with exits that adapt by a plan of `fluidnpu exits --select`",
)
@click.option(
    "--drift",
    type=click.Choice(["hard", "easy", "none"]),
    help="with --adapt: the half of the classes that the middle third of the requests is of  [default: hard]",
)
@click.option(
    "--certify",
    metavar="eta=0.99[,risk=0.05][,share=1%]",
    help="with --adapt: also by a certificate, as `serve --certify`, and by the utility of exits (Apparate)",
)
@click.option(
    "--budgets",
    metavar="R,R,...",
    help="with --tenants: energy budgets over the board's idle power, one after another, such as 1.1,1.3,2",
)
@click.option(
    "--log",
    type=FILE_OUT,
    metavar="FILE.jsonl",
    help="where to write the first seed's decisions and reasons; of several policies, FILE.POLICY.jsonl each",
)
@click.option(
    "--replay",
    "replayed",
    type=PATH,
    metavar="FILE.jsonl",
    help="check that such a log repeats to the same schedule (on DESIGN|TABLE.json, if given)",
)
@click.option("--report", type=FILE_OUT, metavar="FILE.html", help="where to write an HTML report")
@click.option(
    "--study",
    type=click.Choice(list(studies.STUDIES)),
    help="instead: all tables and figures about serving of that paper, beside its numbers (minutes; fewer --seeds or "
    "--requests: less)",
)
@click.option(
    "--out",
    type=FOLDER_OUT,
    default="out/study",
    show_default=True,
    help="folder for the study's page and numbers",
)
@EXPLAIN
@JSON
@takes(SimulateOptions)
def command(options: SimulateOptions) -> None:
    """Compare serving policies on a design's (or any) latency table, with intervals over seeds.

    A policy that does not keep up with the load is called unstable and has no latencies; the others have
    theirs.

    Exit code: 0 compared (in --json an unstable policy has "unstable": true); 1 --replay found a difference;
    2 bad input.
    """
    refuse_classes_without(options.data)
    if options.table is not None:
        options = dataclasses.replace(options, table=design_file(options.table))
    if options.budgets is not None and options.tenants is None:
        raise UsageError("--budgets are those of tenants that share an NPU, so it needs --tenants")
    if options.certify is not None and options.adapt is None:
        raise UsageError("--certify compares the classes of samples, so it needs those of a plan: --adapt PLAN.npz")
    if options.study is not None:
        _check_memory(options)
        write_study(options.study, options)
    elif options.replayed is not None:
        replay_log(options.replayed, options)
    elif options.adapt is not None:
        _check_memory(options)
        policies = options.names if options.policies != USUAL else ["fluid"]
        if len(policies) != 1:
            raise UsageError(f"--policy must be one policy with --adapt, not {len(policies)}")
        requests = options if options.requests != USUAL_REQUESTS else dataclasses.replace(options, requests=DRIFTING)
        seeds = DRIFTS if options.seeds == USUAL_SEEDS else options.seeds
        drift_simulated(
            requests,
            options.adapt,
            options.drift or "hard",
            policies[0],
            certify=options.certify,
            seeds=seeds,
            as_json=options.as_json,
        )
    elif options.drift is not None:
        raise UsageError("--drift is a change of the load that exits adapt to, so it needs --adapt PLAN.npz")
    elif options.tenants is not None:
        _check_memory(options)
        for option, given in (("--log", options.log), ("--report", options.report)):
            if given is not None:
                raise UsageError(f"{option} is of policies side by side, so it does not fit --tenants")
        policies = options.names if options.policies != USUAL else ["fluid"]
        simulate_tenants(
            options,
            options.tenants,
            policies,
            budgets=options.budgets,
            seeds=options.seeds,
            explain=options.explain,
            as_json=options.as_json,
        )
    else:
        compare_policies(options)


def compare_policies(options: SimulateOptions) -> None:
    """Compare policies over seeds, with intervals; write log and report where asked."""
    from rich.markup import escape

    out = show.console(options.as_json)
    logs = _log_files(options)
    _check_memory(options)
    serving, source = options.read()
    with show.progress(out, "simulating") as step:
        streams = comparison.compare_streams(
            serving, options.names, source, seeds=options.seeds, engine=engine_of(options), progress=step
        )
    for name, path in logs.items():
        files.write_file(path, _first_log(serving, source, name))
    if options.report is not None:
        from ..reports.simulation import render_simulation

        files.write_file(options.report, render_simulation(serving, source, streams, options.names))
    if options.as_json:
        warnings = list(list_warnings(source))
        show.emit(streams.to_dict() | ({"warnings": warnings} if warnings else {}), sort=False)
        return
    for warning in list_warnings(source):
        out.print(f"[yellow]warning[/]: {escape(warning)}")
    columns = _print(out, streams)
    if options.explain:
        show.explain(out, [column for column in columns if column])
    for name, path in logs.items():
        out.print(f"decisions of {name} in the first seed written to [bold]{path}[/]")
    if options.report is not None:
        out.print(f"report written to [bold]{options.report}[/]")


def _log_files(options: SimulateOptions) -> dict[str, Path]:
    """Give each policy its log: the file of `--log`, or one beside it a policy. Raises UsageError.

    Two policies may be written alike but for signs that no file name should have.
    """
    log, names = options.log, list(dict.fromkeys(options.names))
    if log is None:
        return {}
    if len(names) == 1:
        return {names[0]: log}
    files: dict[str, Path] = {}
    for name in names:
        path = log.with_name(f"{log.stem}.{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')}{log.suffix}")
        check_output("--log", path)
        for other in filter(None, (options.report, options.table)):
            if is_same(path, other):
                raise UsageError(f"--log must have files of its own, and that of {name} would be '{other}'")
        if path in files.values():
            raise UsageError(f"--log must have a file a policy, and '{path}' would be that of two: ask one at a time")
        files[name] = path
    return files


def _check_memory(options: SimulateOptions) -> None:
    """Refuse more requests than memory holds. Raises UsageError.

    The bytes a request were measured on a ResNet-8: 285 in the compiled loop, 1400 with a log or a report.
    """
    objects = options.log is not None or options.report is not None or not dse.has_numba()
    record_bytes = LOGGED_BYTES if objects else COMPILED_BYTES
    needed = options.requests * record_bytes * min(options.processes, options.seeds) + options.seeds * SEED_BYTES
    asked = f"--requests {options.requests}" + (f" --seeds {options.seeds}" if options.seeds > MANY_SEEDS else "")
    refuse_above(needed, asked, "ask for fewer")


def _print(out: Console, streams: comparison.StreamComparison) -> list[str]:
    """Print a row a policy, then the circumstances; return the heads of the columns."""
    from rich.markup import escape

    compared = streams.comparison
    runs = {name: simulation.merge_metrics(metrics) for name, metrics in compared.metrics.items()}
    extra: dict[str, str] = {"mean batch": "mean_batch", "NPU busy %": "busy_pct"}
    if any("busy_mac_efficiency_pct" in m for m in runs.values()):
        extra["busy MAC eff. %"] = "busy_mac_efficiency_pct"
    for title, key in (("anytime %", "anytime_pct"), ("shed %", "shed_pct")):
        if any(m[key].mean for m in runs.values()):
            extra[title] = key
    if streams.criteria:
        out.print(f"[dim]leave where: {escape(streams.criteria)}[/]")
    rows = []
    for name, m in runs.items():
        steady = not compared.unstable(name)
        cells = [
            show.plus_minus(m["violations_pct"], 1),
            show.plus_minus(m["average_ms"]),
            show.plus_minus(m["p99_ms"]),
        ]
        cells = cells if steady else ["-"] * 3
        cells += [show.number(m[key].mean, ".1f") if key in m else "-" for key in extra.values()]
        if streams.accuracy_pct:
            lost = show.number(streams.accuracy_lost_points[name].mean, ".2f")
            cells += [show.plus_minus(streams.accuracy_pct[name], 2), lost]
        rows.append((name, *cells, "" if steady else "unstable: the backlog grows"))
    columns = ["policy", "violations %", "average ms", "p99 ms", *extra]
    columns += ["accuracy %", "points lost"] if streams.accuracy_pct else []
    if all(not row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    else:
        columns.append("")
    name, rate, slo_ms = compared.serving.name, compared.rate_per_s, compared.slo_ns / 1e6
    out.print(show.table(f"{name}: {plain(rate, 6)}/s, objective {slo_ms:g} ms (simulated)", columns, rows))
    for line in remarks(compared):
        out.print(f"[dim]{line}[/]")
    return columns


def list_warnings(source: comparison.Source) -> tuple[str, ...]:
    """Give the warnings about the criterion that decides the exits, if one does."""
    return () if source.criteria is None else exits.warnings_of(source.criteria.criterion, source.criteria.profile)


def _first_log(serving: scheduler.Serving, source: comparison.Source, policy: str) -> str:
    drawn = source.draw(serving, 0)
    return comparison.record(
        serving,
        policy,
        drawn.requests,
        drawn.leave,
        rate_per_s=source.rate_per_s,
        slo_ns=source.slo_ns,
        truth=source.truth,
        criteria="" if source.criteria is None else source.criteria.criterion.text,
    )[0]


def replay_log(log: Path, options: SimulateOptions) -> None:
    """Check that a decision log repeats to the same schedule. Raises NegativeAnswerError for a difference,
    which is exit code 1.
    """
    latency = None if options.table is None else read_serving(options.table, None).latency
    lines = models.read_text(log, "a decision log").splitlines()
    try:
        if lines and comparison.LIVE_KIND in lines[0]:
            _replay_live(lines, options)
            return
        replayed = comparison.replay(lines, latency)
    except scheduler.PolicyError as error:
        raise NegativeAnswerError(f"the log does not repeat: {error}") from None
    if options.as_json:
        show.emit({"replays": True, **dataclasses.asdict(replayed)})
        return
    show.console().print(
        f"{replayed.decisions} decisions of {replayed.policy} on {replayed.requests} requests repeat to the same "
        "schedule, and the policy, asked again, decides the same"
    )


def _replay_live(lines: list[str], options: SimulateOptions) -> None:
    """Check the log of a live server."""
    relived = comparison.replay_live(lines)
    if options.as_json:
        show.emit({"replays": True, **dataclasses.asdict(relived)})
        return
    asked = (
        f"{relived.asked} of them, asked again, are decided the same" if relived.asked else "the policy was not asked"
    )
    show.console().print(
        f"{relived.decisions} decisions of {relived.policy} on {relived.requests} requests of a live server obey the "
        f"rules, and {asked}"
    )


def _ran(study: studies.Study, size: studies.Size, options: SimulateOptions, out: Console) -> dict[str, Any]:
    """Run the tasks of a study that no earlier run of it has answered; what is answered outlives a stop."""
    answers = studies.AnswerFile.open(options.out, study.name, repr(size))
    done, total = 0, 0

    def step(now: int, of: int) -> None:
        nonlocal done, total
        done, total = now, of
        bar(now, of)

    if answers.answers:
        out.print(
            f"resuming with the {len(answers.answers)} answers that a run which was stopped left in {answers.path}"
        )
    with show.progress(out, "serving the study") as bar:
        try:
            return studies.run_study(study, size, engine_of(options), step, answers)
        except BaseException as error:
            if done:
                add_note(
                    error, f"{done} of {total} answers lie in '{answers.path}', and the same command resumes there"
                )
            raise


def write_study(name: str, options: SimulateOptions) -> None:
    """Run the study of a paper; write its page, its tables and figures, and its numbers as JSON."""
    out, folder = show.console(options.as_json), options.out
    study, size = studies.find_study(name), studies.Size(seeds=options.seeds, requests=options.requests)
    command = f"fluidnpu simulate --study {name} --seeds {size.seeds} --requests {size.requests}"
    if not dse.has_numba():
        out.print("[dim]without Numba this takes many times longer: pip install 'fluidnpu\\[design]'[/]")
    with files.one_writer(folder):
        body = _ran(study, size, options, out)
        files.write_files({folder / path: text for path, text in studies.study_files(study, body, command)})
        studies.AnswerFile.open(folder, study.name, repr(size)).forget()
    summary = study.summary(body, command)
    if options.as_json:
        show.emit(summary)
        return
    rows = [(v.verdict, v.where, v.statement, v.paper, v.ours) for v in study.verdicts(body)]
    title = "What the paper says, and what came out here (simulated)"
    out.print(show.table(title, ("", "where", "statement", "paper", "here"), rows, left=5, prose=(1, 2, 3, 4)))
    tally = studies.tally_text(summary["tally"])
    out.print(f"\n{tally}; reasons and everything else: [bold]{folder / 'report.html'}[/]")
    out.print(f"numbers: [bold]{folder / 'study.json'}[/], in brief [bold]{folder / 'summary.json'}[/]")
