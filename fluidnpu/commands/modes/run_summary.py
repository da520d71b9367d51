"""The closing screen of `fluidnpu run`: what the design serves, how accurate it is, what was not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidnpu import dse, models, scheduler
from fluidnpu.dse.hardware import told_clock
from fluidnpu.host import serving
from fluidnpu.models import exits as model_exits
from fluidnpu.scheduler import comparison
from fluidnpu.scheduler.policies import SERVING_POLICY

from ... import show
from ..helpers.networks import of_width, quantise_network, read_file, read_images
from ..helpers.steps import key_of

if TYPE_CHECKING:
    from rich.console import Console

    from ..helpers.steps import StepLog
    from .run_plan import RunPlan

WALLS = {
    "compute": "every multiplier works (DSP slices)",
    "tiles": "layers leave multipliers empty",
    "memory": "the array waits for DRAM",
}  # what the cycles of a wall are spent on
KINDS = {"dsp": "DSP", "ramb18": "BRAM", "uram288": "URAM", "lut": "LUT", "ff": "FF"}
ANY_POINTS = 100  # of accuracy: the network alone is measured, not refused


def measure_accuracy(out: Console, log: StepLog, plan: RunPlan) -> dict[str, Any]:
    """Measure float and words of the whole network and of its exits, as shares; keep them in the log.

    Empty where the images have no labels, or the network names no classes.
    """
    build, test = log.results["build"], plan.parts.test
    key = key_of(log.digest(plan.final), build.key)

    def work() -> dict[str, Any]:
        network = read_file(plan.final)
        assert isinstance(network, models.Network)
        if build.report["float_accuracy"] is None:
            return {}
        images = read_images(network, test)
        assert images is not None, "the build measured accuracy on them"
        floating, words = build.report["float_accuracy"], build.report[f"int{plan.bits}_accuracy"]
        if len(network.exits) == 1:
            return {"images": len(images), "float_accuracy": floating, "words_accuracy": words, "exits_accuracy": None}
        whole = of_width(model_exits.single_exit(network), plan.bits)
        qnet = quantise_network(whole, images, plan.bits)
        with show.progress(out, f"measuring the whole network in float and int{plan.bits}") as step:
            alone = models.accuracy_guard(whole, qnet, images.images, images.labels, ANY_POINTS, step)
        return {
            "images": len(images),
            "float_accuracy": alone.float_accuracy,
            "words_accuracy": alone.stored_accuracy,
            "exits_accuracy": words,
        }

    return log.measure("accuracy", key, work).report


def summary_of(log: StepLog, plan: RunPlan, accuracy: dict[str, Any]) -> dict[str, Any]:
    """Sum up a run in plain JSON types."""
    design = dse.Design.loads(
        models.read_text(plan.project / "bundle" / "design.json", "a design"), "the design of the project"
    )
    rates = design.exit_rates or (1 / design.stages,) * design.stages
    slo_ns = serving.default_slo_ns(design)
    capacity = comparison.predicted_capacity(scheduler.Serving.of(design, rates), SERVING_POLICY, slo_ns)
    reports = {name: result.report for name, result in log.results.items()}
    ends = [design.latency.between(0, stage, 1) / 1e6 for stage in range(design.stages)]
    frames = reports["dse"]["frames_per_second"]
    best = max(range(design.b_max), key=frames.__getitem__)
    return {
        "network": design.network,
        "board": design.board,
        "folder": str(plan.folder),
        "project": str(plan.project),
        "commands": [
            {"command": step.line, "seconds": log.results[step.name].seconds, "kept": log.results[step.name].kept}
            for step in plan.steps
        ],
        "model": design.model,
        "t_r": design.t_r,
        "t_p": design.t_p,
        "t_c": design.t_c,
        "word_bits": design.word_bits,
        "exits": list(design.exits),
        "exit_rates": None if design.exit_rates is None else list(design.exit_rates),
        "capacity_per_s": capacity,
        "policy": SERVING_POLICY,
        "frames_per_second": frames[best],
        "batch": best + 1,
        "mean_ms": sum(rate * end for rate, end in zip(rates, ends, strict=True)),
        "worst_ms": ends[-1],
        "accuracy": accuracy or None,
        "words": _words_error(reports["build"][f"int{plan.bits}"]),
        "precision": _precision(reports, plan),
        "limits": _limits(reports["dse"], best),
        "verified": reports.get("verify") if plan.verified else None,
        "not_checked": _unchecked(design, plan, reports, accuracy),
        "serve": plan.serving.line,
    }


def _words_error(comparison: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give the answer whose words are farthest from float; None where no images were compared."""
    if comparison is None:
        return None
    worst = max(comparison["answers"], key=lambda answer: answer["rms"])
    return {"images": comparison["images"]} | {key: worst[key] for key in ("name", "rms", "same_class")}


def _precision(reports: dict[str, dict[str, Any]], plan: RunPlan) -> dict[str, Any] | None:
    """Give the share of precision that was asked for and the one that was kept; None where none was."""
    if plan.eta is None:
        return None
    selection = reports["select"]["selection"]
    return {
        "eta": selection["eta"],
        "sure": selection["sure"],
        "kept": selection["kept_on_tested"],
        "images": selection["samples"]["tested"],
        "why_none": selection["why_none"],
    }


def _limits(report: dict[str, Any], index: int) -> dict[str, Any]:
    """Give the wall that takes most cycles at a batch size, and what the design takes of the device."""
    walls = report["walls"][index] if report["walls"] else None
    first = None if walls is None else max(WALLS, key=walls.__getitem__)
    return {
        "wall": first,
        "share": None if walls is None or first is None else walls[first],
        "takes_pct": {name: resource["percent"] for name, resource in report["resources"].items()},
    }


def _unchecked(
    design: dse.Design, plan: RunPlan, reports: dict[str, dict[str, Any]], accuracy: dict[str, Any]
) -> list[str]:
    """Say what the figures rest on, a sentence each."""
    counted = (
        "counted cycles of our RTL"
        if design.model == "exact"
        else "the publication's fit, which knows no waiting (--cycles paper)"
    )
    sentences = [
        f"times are simulated: {counted}; no board and no vendor's tool was met",
        f"the clock: {told_clock(plan.board, design.facts)}",
    ]
    if not plan.verified:
        sentences.append("bits: the C simulation was left out (--no-verify)")
    elif (verify := reports["verify"]) is not None:
        sizes = ", ".join(map(str, verify["batches"]))
        sentences.append(f"bits: batches of {sizes} were simulated, other images and batch sizes were not")
    if not accuracy:
        sentences.append("accuracy: that needs labelled images and a network that names classes")
    elif plan.parts.test == plan.parts.learn and any(step.name == "prepare" for step in plan.steps):
        sentences.append("accuracy on other images than those that gave the ranges: --unseen names them")
    if plan.eta is not None:
        sentences.append("that the network itself had not learned from the images that chose its exits")
        if plan.bits != 16:
            sentences.append(f"the guarantee of --eta with words of {plan.bits} bits: it is that of 16")
    elif len(design.exits) > 1:
        source = "assumed, since the file has none" if plan.assumed else "those of the file"
        sentences.append(f"thresholds: they are {source} (--eta chooses others)")
    return sentences


def print_summary(out: Console, summary: dict[str, Any]) -> None:
    """Print the closing screen."""
    from rich.markup import escape

    array = ", ".join(str(summary[size]) for size in ("t_r", "t_p", "t_c"))
    title = f"{summary['network']} on {summary['board']}: array <{array}>"
    width = f"int{summary['word_bits']}"
    out.print()
    out.print(
        show.table(
            f"{title}, {width} (simulated)",
            ("quantity", "", "meaning"),
            _rows(summary, width),
            left=1,
            prose=(2,),
        )
    )
    if summary["precision"] and summary["precision"]["why_none"] is not None:
        out.print(f"[yellow]No early exit was chosen: {summary['precision']['why_none']}[/]")
    out.print("Not checked:")
    for sentence in summary["not_checked"]:
        out.print(f"- {sentence}", markup=False)
    out.print(f"Project: [bold]{escape(summary['project'])}[/]; served by `{escape(summary['serve'])}`", soft_wrap=True)


def _exit_shares(summary: dict[str, Any]) -> str:
    """Say where samples leave."""
    exits, rates = summary["exits"], summary["exit_rates"]
    if len(exits) == 1:
        return "with one exit"
    if rates is None:
        return "at exit rates that are not known, taken as equal"
    from rich.markup import escape

    shares = (f"{100 * rate:.1f} % {escape(name)}" for name, rate in zip(exits, rates, strict=True))
    return f"at the exit rates {', '.join(shares)}"


def _rows(summary: dict[str, Any], width: str) -> list[tuple[str, str, str]]:
    from rich.markup import escape

    limits = summary["limits"]
    rows = [
        ("requests/s", f"{summary['capacity_per_s']:.0f}", f"{_exit_shares(summary)}; policy {summary['policy']}"),
        ("frames/s", f"{summary['frames_per_second']:.0f}", f"whole network, batches of {summary['batch']}"),
    ]
    if len(summary["exits"]) > 1:
        rows.append(("latency, mean", f"{summary['mean_ms']:.3f} ms", "one request alone, at the exit rates"))
    rows.append(("latency, worst", f"{summary['worst_ms']:.3f} ms", "one request alone, through the whole network"))
    accuracy, precision, verified = summary["accuracy"], summary["precision"], summary["verified"]
    if accuracy is not None:
        rows += [
            (
                "accuracy, float",
                f"{100 * accuracy['float_accuracy']:.2f} %",
                f"whole network, {accuracy['images']} images",
            ),
            (f"accuracy, {width}", f"{100 * accuracy['words_accuracy']:.2f} %", "whole network, the same images"),
        ]
        if accuracy["exits_accuracy"] is not None:
            rows.append(("accuracy, exits", f"{100 * accuracy['exits_accuracy']:.2f} %", f"{width}, with early exits"))
    if (words := summary["words"]) is not None:
        same = "" if words["same_class"] is None else f", same class on {100 * words['same_class']:.3g} %"
        meaning = f"of float's spread at '{escape(words['name'])}', {words['images']} images{same}"
        rows.append((f"{width} off float", f"{100 * words['rms']:.2g} %", meaning))
    if precision is not None:
        rows.append(
            (
                "precision kept",
                f"{100 * precision['kept']:.2f} %",
                f"of the given network's, {precision['images']} images; {100 * precision['eta']:g} % on unseen images with "
                f"probability {precision['sure']:g}",
            )
        )
    if limits["wall"] is not None:
        meaning = f"of the cycles of a batch of {summary['batch']}: {WALLS[limits['wall']]}"
        rows.append((f"limited by {limits['wall']}", f"{100 * limits['share']:.0f} %", meaning))
    name, percent = max(limits["takes_pct"].items(), key=lambda pair: pair[1])
    others = ", ".join(f"{share:.0f} % {KINDS[kind]}" for kind, share in limits["takes_pct"].items() if kind != name)
    rows.append((f"device, {KINDS[name]}", f"{percent:.0f} %", f"and {others}"))
    if verified is not None:
        rows.append(
            ("differing bits", f"{verified['mismatches']}", f"of {verified['outputs']} outputs in C simulation")
        )
    return rows
