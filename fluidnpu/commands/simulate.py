"""What `fluidnpu simulate` does: policies side by side on one latency table, decision logs, replays. Reads files, asks the scheduler, prints."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from fluidnpu.dse import Design
from fluidnpu.models import (
    Network,
    confidence,
    golden,
    quantise,
    read_image_file,
    read_model,
    read_text,
    regular_file,
    shipped_images,
)
from fluidnpu.scheduler import (
    Comparison,
    PolicyError,
    Recorded,
    Serving,
    Source,
    StreamComparison,
    Truth,
    available,
    compare_streams,
    merge_metrics,
    parse_duration_ns,
    read_confidence_file,
    record,
    replay,
)

from .. import show
from ..errors import NegativeAnswerError, UsageError
from ..options import numbers

SHORT = 2000  # requests a seed below which a slowly growing backlog may go unseen


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command line of `fluidnpu simulate`, as text and numbers."""

    table: Path | None
    policies: str
    rate: float | None
    slo: str | None
    requests: int
    seeds: int
    processes: int
    traffic: str = "poisson"
    exit_rates: str | None = None
    confidences: Path | None = None
    thresholds: str | None = None
    data: Path | None = None
    true_exit_rates: str | None = None
    latency_factor: float = 1.0
    log: Path | None = None
    report: Path | None = None
    as_json: bool = False

    @property
    def names(self) -> list[str]:
        """The policies, one by one."""
        return [name.strip() for name in self.policies.split(",")]


def simulate(asked: Asked) -> None:
    """Compare policies over seeds, with intervals; write log and report where asked."""
    out = show.console(asked.as_json)
    serving, source = circumstances(asked)
    if asked.log is not None and len(asked.names) != 1:
        raise UsageError(f"--log is for one policy at a time, not for {len(asked.names)}")
    with show.progress(out, "simulating") as step:
        found = compare_streams(
            serving, asked.names, source, seeds=asked.seeds, processes=asked.processes, progress=step
        )
    if asked.log is not None:
        _write(asked.log, _first_log(serving, source, asked.names[0]))
    if asked.report is not None:
        from ..reports.simulation import render_simulation

        seeds = len(next(iter(found.comparison.metrics.values())))
        lines = remarks(found.comparison, seeds)
        _write(asked.report, render_simulation(serving, source, found, asked.names, lines))
    if asked.as_json:
        print(json.dumps(found.to_dict(), indent=1, allow_nan=False))
        return
    _print(out, found)
    for path, what in ((asked.log, "decisions of the first seed"), (asked.report, "report")):
        if path is not None:
            out.print(f"{what} written to [bold]{path}[/]")


def circumstances(asked: Asked) -> tuple[Serving, Source]:
    """What is served and where its requests come from. Raises UsageError and SchedulerError in one sentence."""
    if asked.table is None:
        raise UsageError("simulate needs a DESIGN or TABLE.json (or --study, or --replay)")
    recorded, thresholds = _recorded(asked)
    rates = numbers("--exit-rates", asked.exit_rates)
    if recorded is not None:
        if rates:
            raise UsageError("--exit-rates and --confidences both say how many leave at each exit; give one of them")
        rates = recorded.exit_rates(thresholds)
    serving = _serving(asked.table, rates)
    slo_ns = None if asked.slo is None else parse_duration_ns(asked.slo, "--slo")
    truth = Truth(exit_rates=numbers("--true-exit-rates", asked.true_exit_rates), latency_factor=asked.latency_factor)
    if asked.traffic.endswith(".csv"):
        text = read_text(Path(asked.traffic), "a trace in CSV")
        source = Source.of_trace(
            text,
            slo_ns=slo_ns,
            rate_per_s=asked.rate,
            source=asked.traffic,
            truth=truth,
            stages=serving.latency.stages,
        )
    else:
        if asked.rate is None or slo_ns is None:
            missing = "--rate" if asked.rate is None else "--slo"
            raise UsageError(f"{missing} must be given with {asked.traffic} traffic")
        truth = dataclasses.replace(truth, traffic=asked.traffic)
        source = Source(rate_per_s=asked.rate, slo_ns=slo_ns, count=asked.requests, truth=truth)
    told = {
        "--confidences": recorded is not None,
        "--true-exit-rates": truth.exit_rates is not None,
        f"the column exit of {asked.traffic}": bool(source.trace_exits),
    }
    if len(both := [what for what, given in told.items() if given]) > 1:
        raise UsageError(f"{' and '.join(both)} all say who really leaves where; give one of them")
    return serving, dataclasses.replace(source, recorded=recorded, thresholds=thresholds)


def _serving(path: Path, rates: tuple[float, ...] | None) -> Serving:
    text = read_text(path, "a design or a table in JSON")
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return Serving.loads(text, str(path))  # says what is wrong
    if rates is None or not isinstance(raw, dict):
        return Serving.loads(text, str(path))
    if "digest" in raw:
        return Serving.of(Design.loads(text, str(path)), rates)
    return Serving.loads(json.dumps(raw | {"exit_rates": list(rates)}), str(path))


def _recorded(asked: Asked) -> tuple[Recorded | None, tuple[float, ...]]:
    """Recorded confidences and one threshold an exit (of the last, 0)."""
    if asked.confidences is None:
        if asked.thresholds is not None:
            raise UsageError("--thresholds needs --confidences, which they are compared with")
        return None, ()
    thresholds = numbers("--thresholds", asked.thresholds)
    if asked.confidences.suffix == ".onnx":
        recorded, own = record_network(asked.confidences, asked.data)
        thresholds = thresholds or own
    else:
        recorded = read_confidence_file(regular_file(asked.confidences))
    exits = np.asarray(recorded.correct).shape[1]
    if thresholds is None or len(thresholds) not in (exits - 1, exits):
        came = "none" if thresholds is None else str(len(thresholds))
        raise UsageError(f"--thresholds must be {exits - 1}, one for every exit but the last, not {came}")
    return recorded, (*thresholds[: exits - 1], 0.0)


def record_network(path: Path, data: Path | None = None) -> tuple[Recorded, tuple[float, ...]]:
    """Confidence and correctness of an ONNX network's int16 form at every exit on labelled images, and its thresholds."""
    network = read_model(path)
    if not isinstance(network, Network):
        raise UsageError(f"confidences come from a network with weights (ONNX), and '{path}' is a layer table")
    images = shipped_images() if data is None else read_image_file(data)
    if images.images.shape[1:] != network.tensors[network.input]:
        raise UsageError(
            f"images must be of shape {network.tensors[network.input]} for '{network.name}', not {images.images.shape[1:]}; give others with --data"
        )
    qnet = quantise(network, None if network.calibration else images.images.astype(np.float64) / 255)
    logits = [qnet.logits(k, one) for k, one in enumerate(golden.run(qnet, images.images))]
    recorded = Recorded(
        confidences=np.stack([confidence(one) for one in logits], axis=1),
        correct=np.stack([np.argmax(one, axis=1) == images.labels for one in logits], axis=1),
    )
    return recorded, tuple(exit.threshold for exit in network.exits)


def _print(out: Console, found: StreamComparison) -> None:
    """A row a policy, then the circumstances."""
    c = found.comparison
    runs = {name: merge_metrics(c.metrics[name]) for name in c.metrics}
    extra: dict[str, str] = {"mean batch": "mean_batch", "NPU busy %": "busy_pct"}
    if any("busy_mac_efficiency_pct" in m for m in runs.values()):
        extra["busy MAC eff. %"] = "busy_mac_efficiency_pct"
    for title, key in (("early %", "anytime_pct"), ("shed %", "shed_pct")):
        if any(m[key].mean for m in runs.values()):
            extra[title] = key
    rows = []
    for name, m in runs.items():
        steady = not c.unstable(name)
        cells = [
            show.plus_minus(m["violations_pct"], 1),
            show.plus_minus(m["average_ms"]),
            show.plus_minus(m["p99_ms"]),
        ]
        cells = cells if steady else ["-"] * 3
        cells += [show.number(m[key].mean, ".1f") if key in m else "-" for key in extra.values()]
        if found.accuracy_pct:
            lost = show.number(found.accuracy_lost_points[name].mean, ".2f")
            cells += [show.plus_minus(found.accuracy_pct[name], 2), lost]
        rows.append((name, *cells, "" if steady else "unstable: the backlog grows"))
    columns = ["policy", "violations %", "average ms", "p99 ms", *extra]
    columns += ["accuracy %", "points lost"] if found.accuracy_pct else []
    if all(not row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    else:
        columns.append("")
    seeds = len(next(iter(c.metrics.values())))
    title = f"{c.serving.name}: {c.rate_per_s:g}/s, objective {c.slo_ns / 1e6:g} ms (simulated)"
    out.print(show.table(title, columns, rows))
    for line in remarks(c, seeds):
        out.print(f"[dim]{line}[/]")


def remarks(c: Comparison, seeds: int) -> list[str]:
    """What a reader must know about the numbers."""
    counted = next(iter(c.metrics.values()))[0].requests
    lines = [
        f"{c.truth.traffic} traffic, {seeds} seed{'s' * (seeds > 1)} of {c.requests} requests, the first {c.requests - counted} of them "
        "served but not counted"
        + ("; ± is the 95 % interval over seeds" if seeds > 1 else "; one seed gives no interval")
    ]
    load = c.true_load
    lines.append(
        f"with every run at its most efficient batch the NPU would be busy {100 * load:.3g} % of the time"
        + (": no policy that answers everyone in full keeps up" if load >= 1 else "")
    )
    lines += falling(c.serving)
    if counted < SHORT and not all(map(c.unstable, c.metrics)):
        lines.append(f"with fewer than {SHORT} requests a seed a slowly growing backlog may go unseen")
    lines += [f"{name}: {note}" for name in c.metrics if (note := c.note(name))]
    return lines


def falling(serving: Serving) -> list[str]:
    """A table may be measured, so a larger batch may be quicker in it; more likely something is wrong with it."""
    found = [
        f"stage {stage} at batch {b} and {b + 1}"
        for stage, row in enumerate(serving.latency.ns, 1)
        for b, (ns, more) in enumerate(itertools.pairwise(row), 1)
        if more < ns
    ]
    return [f"in the latency table a larger batch is quicker: {', '.join(found)}"] if found else []


def _first_log(serving: Serving, source: Source, policy: str) -> str:
    drawn = source.draw(serving, 0)
    return record(
        serving,
        policy,
        drawn.requests,
        drawn.exits,
        rate_per_s=source.rate_per_s,
        slo_ns=source.slo_ns,
        truth=source.truth,
    )[0]


def replay_log(log: Path, table: Path | None, as_json: bool) -> None:
    """Check that a decision log repeats to the same schedule; what differs is exit code 1."""
    latency = None if table is None else _serving(table, None).latency
    lines = read_text(log, "a decision log").splitlines()
    try:
        found = replay(lines, latency)
    except PolicyError as error:
        raise NegativeAnswerError(f"the log does not repeat: {error}") from None
    if as_json:
        show.emit({"replays": True, **dataclasses.asdict(found)})
        return
    show.console().print(
        f"{found.decisions} decisions of {found.policy} on {found.requests} requests repeat to the same schedule, "
        "and the policy, asked again, decides the same"
    )


def run_study_command(folder: Path, seeds: int, requests: int, processes: int, as_json: bool) -> None:
    """The study of a paper: all its tables and figures about serving, a page, and the numbers as JSON."""
    from fluidnpu.studies.fluid_batching.report import (
        print_verdicts,
        render_study,
        statements_markdown,
        study_figures,
        summary,
    )
    from fluidnpu.studies.fluid_batching.tables import tables_markdown
    from fluidnpu.studies.fluid_batching.tasks import Size, dumps, run_study

    out = show.console(as_json)
    command = f"fluidnpu simulate --study fluid-batching --seeds {seeds} --requests {requests}"
    if not available():
        out.print("[dim]without Numba this takes many times longer: pip install 'fluidnpu\\[fast]'[/]")
    with show.progress(out, "serving the study") as step:
        study = run_study(Size(seeds=seeds, requests=requests), processes, step)
    study = json.loads(dumps(study))  # so that all that is written is what the file, read again, gives
    brief = summary(study, command)
    _write(folder / "study.json", dumps(study))
    _write(folder / "summary.json", dumps(brief))
    _write(folder / "report.html", render_study(study, command))
    _write(folder / "statements.md", statements_markdown(study, command))
    _write(folder / "tables.md", tables_markdown(study, command))
    for name, svg in study_figures(study).items():
        _write(folder / "figures" / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.svg", svg)
    if as_json:
        show.emit(brief)
        return
    out.print(print_verdicts(study))
    tally = ", ".join(f"{count} {verdict}" for verdict, count in sorted(brief["tally"].items()))
    out.print(f"\n{tally}; reasons and everything else: [bold]{folder / 'report.html'}[/]")
    out.print(f"numbers: [bold]{folder / 'study.json'}[/], in brief [bold]{folder / 'summary.json'}[/]")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
