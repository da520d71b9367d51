"""`fluidnpu exits --select`: choose exits and thresholds for batched serving, with a guarantee on unseen
data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluidnpu import boards, models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import files, numeric
from fluidnpu.models.graph import MapCheck
from fluidnpu.scheduler import tuning

from ... import show
from ...errors import NegativeAnswerError, UsageError
from ...options import FILE_OUT, PATH
from ..helpers.data import read_data
from ..helpers.designs import Search, explore_designs
from ..helpers.networks import read_network

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

DEFAULT_BATCH = 8
DEFAULT_ETA = 0.99
DEFAULT_SURE = 0.95
DEFAULT_POLICY = "fluid"
SLO_OVER_SINGLE = 4  # of one sample without early exits: the objective that the policy is told


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """The options of a selection; None where they were not given."""

    select: Path | None
    board: str | None
    eta: float | None
    sure: float | None
    batch: int | None
    late: float | None
    single: Path | None
    cycle_model: str | None
    arrivals: float | None
    policy: str | None
    keep: bool
    plan: Path | None


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Selecting`."""
    options = (
        click.option(
            "--select",
            type=PATH,
            metavar="DATA",
            help="choose exits and thresholds on these labelled images, which nothing may have learned from",
        ),
        click.option("--board", metavar="NAME|FILE.toml", help="board whose times --select goes by"),
        click.option(
            "--eta",
            type=float,
            metavar="SHARE",
            help=f"share of the reference's precision to keep on unseen images  [default: {DEFAULT_ETA}]",
        ),
        click.option(
            "--sure", type=float, metavar="SHARE", help=f"probability that it is kept  [default: {DEFAULT_SURE}]"
        ),
        click.option(
            "--batch", type=click.IntRange(1, 16), metavar="N", help=f"samples a batch  [default: {DEFAULT_BATCH}]"
        ),
        click.option("--late", type=float, metavar="SHARE", help="of batches that may be late  [default: 0.02]"),
        click.option(
            "--reference",
            "single",
            type=PATH,
            metavar="REF.onnx",
            help="single-exit network that precision refers to, in int16, as `fluidnpu train --from` writes it  "
            "[default: the last exit]",
        ),
        click.option(
            "--cycles",
            "cycle_model",
            type=click.Choice(["paper", "exact"]),
            help="cycle model of the times  [default: exact]",
        ),
        click.option(
            "--arrivals",
            type=float,
            metavar="RATE",
            help="requests a second; of the selections that pass, that of least average from arrival is chosen, not the "
            "one in service (simulated)",
        ),
        click.option(
            "--policy", metavar="NAME", help=f"policy that serves the --arrivals  [default: {DEFAULT_POLICY}]"
        ),
        click.option(
            "--keep", is_flag=True, help="keep exits that are not chosen, with threshold 1, to be activated later"
        ),
        click.option(
            "--plan",
            type=FILE_OUT,
            metavar="PLAN.npz",
            help="write what serve --adapt goes by: the selection and the answers of all exits to DATA; needs --keep",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def refuse_without_select(options: Selecting) -> None:
    """Refuse options that need --select. Raises UsageError."""
    names = {"board": "board", "eta": "eta", "sure": "sure", "batch": "batch", "late": "late"}
    names |= {"single": "reference", "cycle_model": "cycles", "keep": "keep", "plan": "plan"}
    names |= {"arrivals": "arrivals", "policy": "policy"}
    given = [word for field, word in names.items() if getattr(options, field) not in (None, False)]
    if given and options.select is None:
        raise UsageError(f"--{given[0]} belongs to a selection, so it needs --select DATA")
    if options.policy is not None and options.arrivals is None:
        raise UsageError("--policy serves the arrivals that --arrivals states, so it needs them")
    if options.plan is not None and not options.keep:
        raise UsageError("--plan is for exits that may be activated later, so it needs --keep")
    if options.eta is not None and not 0 < options.eta <= 1:
        raise UsageError(
            f"--eta must be a share of the reference's precision, above 0 and at most 1, not {options.eta:g}"
        )
    if options.sure is not None and not 0 < options.sure < 1:
        raise UsageError(f"--sure must be a probability between 0 and 1, not {options.sure:g}")
    if options.late is not None and not 0 <= options.late <= 1:
        raise UsageError(f"--late must be a share of batches from 0 to 1, not {options.late:g}")


def select_exits(out: Console, network: models.Network, options: Selecting) -> tuple[models.Network, dict[str, Any]]:
    """Choose; return the network with its exits and thresholds, and the report.

    Raises NegativeAnswerError where no selection can be guaranteed, and UsageError.
    """
    assert options.select is not None
    if options.board is None:
        raise UsageError("--select goes by the times of a board, which --board names")
    if len(network.exits) < 2:
        raise UsageError(
            f"--select chooses among early exits, and '{network.name}' has none; --candidates attaches them"
        )
    if options.plan is not None and isinstance(network.check, MapCheck):
        raise UsageError(
            "--plan is for exits that name classes: adapting raises thresholds until precision is back, and the check of "
            "maps hardly shows which samples lose"
        )
    goal = tuning.Goal(
        eta=DEFAULT_ETA if options.eta is None else options.eta,
        batch=options.batch or DEFAULT_BATCH,
        late=tuning.Goal().late if options.late is None else options.late,
    )
    sure = DEFAULT_SURE if options.sure is None else options.sure
    answers, classes, truths, source = _answers(out, network, options)
    search = Search(b_max=goal.batch, cycle_model=options.cycle_model or "exact", core="hls")
    board = boards.load_board(options.board)
    design = explore_designs(out, model_exits.workload_in_parts(network), board, search).design
    table = tuning.CandidateTable.of(design, [exit.name for exit in network.exits[:-1]])
    traffic = None
    if options.arrivals is not None:
        slo_ns = SLO_OVER_SINGLE * table.single_ns(1)
        policy = options.policy or DEFAULT_POLICY
        traffic = tuning.Traffic(rate_per_s=options.arrivals, slo_ns=slo_ns, policy=policy)
    selected = tuning.guaranteed(table, answers, goal, delta=1 - sure, traffic=traffic)
    report = _report(table, answers, selected, source, board.name)
    report["arrival"] = None if traffic is None else _arrival_report(table, answers, selected, traffic)
    if selected.chain is None:
        raise NegativeAnswerError(_refusal(selected), report)
    report["why_none"] = None if selected.chain else _refusal(selected)
    if options.plan is not None:
        plan = tuning.AdaptationPlan(
            names=table.names,
            goal=goal,
            chain=selected.chain,
            confidence=answers.confidence,
            classes=classes,
            truths=truths,
            reference=answers.reference,
            times=table,
        )
        files.write_file(options.plan, plan.content())
    measured = model_exits.with_accuracies(network, answers.right.mean(axis=0).tolist())
    return _with_chain(measured, table, selected, options.keep), report


def _answers(
    out: Console, network: models.Network, options: Selecting
) -> tuple[tuning.Answers, NDArray[np.int64], NDArray[np.int64], str]:
    """Run the images to every exit in int16, and through the reference.

    Returns the answers, the classes that exits named, the labels, and the reference's name.
    """
    assert options.select is not None
    images = read_data(network, network.intake, options.select)
    truths = images.labels
    with show.progress(out, "running every exit in int16") as step:
        confidences, right, classes = numeric.record_scores(models.quantise(network), images, step)
    if not isinstance(network.check, MapCheck):
        right = classes == truths[:, None]
    if options.single is None:
        answers = tuning.Answers(confidence=confidences, right=right, reference=right[:, -1])
        return answers, classes, truths, "the last exit"
    single = read_network(options.single)
    model_exits.check_labels(single, images.labels)
    with show.progress(out, "running the reference in int16") as step:
        _, alone = numeric.record_exits(models.quantise(single), images, step)
    answers = tuning.Answers(confidence=confidences, right=right, reference=alone[:, -1])
    return answers, classes, truths, f"'{options.single}'"


def _with_chain(
    network: models.Network, table: tuning.CandidateTable, selected: tuning.Guaranteed, keep: bool
) -> models.Network:
    """Put the chosen thresholds into the network, and leave other exits out unless they are kept."""
    assert selected.chain is not None
    chosen = {table.names[exit]: threshold for exit, threshold in selected.chain}
    if not keep:
        network = model_exits.keep_exits(network, list(chosen))
    network = model_exits.with_thresholds(network, [chosen.get(exit.name, 1.0) for exit in network.exits[:-1]])
    assert selected.found is not None
    left = dict(zip([*chosen, network.exits[-1].name], selected.found.rates, strict=True))
    return model_exits.with_rates(network, [left.get(exit.name, 0.0) for exit in network.exits])


def _refusal(selected: tuning.Guaranteed) -> str:
    """Say which demand failed, and what would be granted."""
    goal, failed = selected.goal, next((test for test in selected.tested if test.failed), None)
    sure = f"with probability {1 - selected.delta:g}"
    if failed is None or failed.failed != "precision":
        tried = any(test.chain for test in selected.tested)
        what = {
            "": f"all that are have more than {100 * goal.late:g} % of late batches on these very images"
            if tried
            else "no exit keeps the precision and saves time on the images that propose",
            "late batches": f"the safest may have more than {100 * goal.late:g} % of its batches late",
            "average": "the safest may be slower than the network with one exit",
        }[failed.failed if failed else ""]
        return f"no early exit is sure to keep the demands {sure}: {what}"
    kept = f"the safest has {100 * failed.kept:.2f} % of it on the {selected.samples[1]} samples that tested it"
    enough = selected.needed is not None and selected.needed > sum(selected.samples)
    hints = [
        f"about {selected.needed} samples would be needed" if enough else "",
        f"these samples allow --eta {selected.allowed:g}" if selected.allowed else "",
        "" if failed.kept > goal.eta else "no number of samples will do: train longer, or ask for less",
    ]
    advice = " and ".join(filter(None, hints)) or "that many prove too little"
    return (
        f"no selection is sure to keep {100 * goal.eta:g} % of the reference's precision {sure}: {kept}, and {advice}"
    )


def _report(
    table: tuning.CandidateTable, answers: tuning.Answers, selected: tuning.Guaranteed, source: str, board: str
) -> dict[str, Any]:
    goal, batch = selected.goal, selected.goal.batch
    alone = table.single_ns(batch)
    first = tuning.first_exits(table, answers, goal)
    return {
        "board": board,
        "batch": batch,
        "eta": goal.eta,
        "late": goal.late,
        "sure": 1 - selected.delta,
        "reference": source,
        "samples": {"proposed": selected.samples[0], "tested": selected.samples[1]},
        "single_exit_ms": alone / 1e6,
        "candidates": [
            {
                "name": name,
                "head_ms": table.heads[index][batch - 1] / 1e6,
                "allowed_movers": table.allowed_movers(batch)[index],
                "threshold": row.threshold,
                "leaving": row.leaving,
                "average_ms": row.average_ns / 1e6,
                "late_batches": row.late_batches,
                "accuracy": float(answers.right[:, index].mean()),
            }
            for index, (name, row) in enumerate(zip(table.names, first, strict=True))
        ],
        "naive": _chain_report(table, selected.naive, selected.naive_outcome, batch),
        "guaranteed": None if selected.chain is None else _chain_report(table, selected.chain, selected.found, batch),
        "kept_on_tested": selected.kept_on_test,
        "price_pct": selected.price_pct,
        "tested": len(selected.tested),
        "needed": selected.needed,
        "allowed_eta": selected.allowed,
    }


def _chain_report(
    table: tuning.CandidateTable, chain: tuning.Chain, outcome: tuning.ChainOutcome | None, batch: int
) -> dict[str, Any]:
    assert outcome is not None
    alone = table.single_ns(batch)
    whole = sum(row[batch - 1] for row in table.latency([exit for exit, _ in chain]).ns)
    return {
        "exits": [{"name": table.names[exit], "threshold": threshold} for exit, threshold in chain],
        "rates": list(outcome.rates),
        "kept": outcome.kept,
        "average_ms": outcome.average_ns / 1e6,
        "average_change_pct": 100 * (outcome.average_ns / alone - 1),
        "tail_ms": outcome.tail_ns / 1e6,
        "p99_ms": outcome.p99_ns / 1e6,
        "late_batches": outcome.late_batches,
        "nobody_leaves_pct": 100 * (whole / alone - 1),
    }


def _arrival_report(
    table: tuning.CandidateTable, answers: tuning.Answers, selected: tuning.Guaranteed, traffic: tuning.Traffic
) -> dict[str, Any]:
    """Write the times from arrival of the network with one exit, the naive and the guaranteed selection."""
    batch, rows = selected.goal.batch, {}
    for name, chain in (("single exit", ()), ("naive", selected.naive), ("guaranteed", selected.chain)):
        if chain is not None:
            served = traffic.serve(table, answers, chain, batch)
            rows[name] = {"average_ms": served.average_ns / 1e6, "p99_ms": served.p99_ns / 1e6, "met": served.met}
    return {"rate_per_s": traffic.rate_per_s, "slo_ms": traffic.slo_ns / 1e6, "policy": traffic.policy, "rows": rows}


def print_selection(out: Console, report: dict[str, Any]) -> None:
    """Print the candidates, each as the only exit, and the selections with and without the guarantee."""
    rows = [
        (
            row["name"],
            f"{row['head_ms']:.3f}",
            str(row["allowed_movers"]),
            f"{100 * row['accuracy']:.2f} %",
            *(
                ("-", "-", "-", "-")
                if row["threshold"] is None
                else (
                    f"{row['threshold']:g}",
                    f"{100 * row['leaving']:.1f} %",
                    f"{row['average_ms']:.3f}",
                    f"{100 * row['late_batches']:.1f} %",
                )
            ),
        )
        for row in report["candidates"]
    ]
    columns = ("exit", "head ms", "may move on", "accuracy", "threshold", "leave", "average ms", "late batches")
    title = (
        f"Each exit alone on {report['board']}, batches of {report['batch']}, eta {report['eta']:g} of {report['reference']}; "
        f"single exit {report['single_exit_ms']:.3f} ms (modelled)"
    )
    out.print(show.table(title, columns, rows))
    chosen = [("naive, in-sample", report["naive"]), ("guaranteed", report["guaranteed"])]
    out.print(
        show.table(
            "Selection",
            ("selection", "exits", "precision kept", "average ms", "change", "p99 ms", "late batches"),
            [
                (
                    name,
                    ", ".join(f"{exit['name']} above {exit['threshold']:g}" for exit in row["exits"])
                    or "no early exit",
                    f"{100 * row['kept']:.2f} %",
                    f"{row['average_ms']:.3f}",
                    f"{row['average_change_pct']:+.1f} %",
                    f"{row['p99_ms']:.3f}",
                    f"{100 * row['late_batches']:.1f} %",
                )
                for name, row in chosen
            ],
            left=2,
        )
    )
    if report["arrival"] is not None:
        arrival = report["arrival"]
        title = (
            f"From arrival, {arrival['rate_per_s']:g} requests/s, policy {arrival['policy']}, SLO {arrival['slo_ms']:.3g} ms "
            "(simulated, in-sample)"
        )
        served = [
            (name, f"{row['average_ms']:.3f}", f"{row['p99_ms']:.3f}", f"{100 * row['met']:.1f} %")
            for name, row in arrival["rows"].items()
        ]
        out.print(show.table(title, ("selection", "average ms", "p99 ms", "in time"), served))
    samples = report["samples"]
    if report["why_none"]:
        out.print(f"  [yellow]{report['why_none']}[/]; the network is left without early exits")
    out.print(
        f"  with probability {report['sure']:g} at least {100 * report['eta']:g} % of the reference's precision is kept on "
        f"unseen images, at most {100 * report['late']:g} % of batches are late, and the average is below the single "
        f"exit's: {samples['proposed']} samples proposed, {samples['tested']} tested "
        f"({100 * report['kept_on_tested']:.2f} % there)"
    )
    out.print(
        f"  the guarantee costs {report['price_pct']:.1f} % of the naive selection's average; a batch that nobody leaves "
        f"early ends {report['guaranteed']['nobody_leaves_pct']:.1f} % later than with one exit"
    )
