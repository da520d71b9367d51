"""The live page: one HTML file without external assets, and the numbers that it asks for twice a second."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from typing import Any

from ...serving.model import ServedNetwork
from ...serving.models import Models

SHOWN_RUNS = 240


@cache
def assemble(package: str, name: str) -> str:
    """Return a page of a package, with the style and the script that all live pages share in its place."""
    page = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    for part in ("live.css", "live.js"):
        page = page.replace(f"{{{part}}}\n", resources.files(__package__).joinpath(part).read_text(encoding="utf-8"))
    return page


def live_page() -> str:
    """Return the page."""
    return assemble(__package__, "live.html")


def login_page(wrong: str = "") -> str:
    """Return the page that asks for the token, with a sentence about the one that was given."""
    sentence = f'<p class="wrong" role="alert">{html.escape(wrong)}</p>' if wrong else ""
    return assemble(__package__, "login.html").replace("{wrong}", sentence)


def snapshot(version: str, models: Models) -> dict[str, Any]:
    """Return what the page draws: a record a model, times in microseconds."""
    return {"version": version, "models": [_of(model) for model in models]}


def _of(model: ServedNetwork) -> dict[str, Any]:
    server, counts = model.npu.serving, model.statistics
    record: dict[str, Any] = {
        "name": model.label,
        "state": model.npu.state,
        "reason": model.npu.reason,
        "ready": model.npu.ready,
    }
    if server is None or counts is None:
        return record
    design, runs, replies = model.bundle.design, list(counts.runs)[-SHOWN_RUNS:], list(counts.replies)
    latencies = sorted(reply.latency_ns for reply in replies)
    return record | {
        "network": design.network,
        "bits": design.word_bits,
        "board": design.board,
        "device": model.npu.options.device,
        "policy": model.npu.options.policy,
        "slo_us": model.slo_ns // 1_000,
        "b_max": design.b_max,
        "exits": list(design.exits),
        "queue": server.waiting,
        "held": server.held,
        "slots": server.slots,
        "answered": counts.answered,
        "violations": counts.violations,
        "shed": sum(counts.shed.values()),
        "lost": model.npu.lost,
        "failed_attempts": counts.failed_attempts,
        "recoveries": len(model.npu.recoveries),
        "uptime_s": round(model.npu.uptime_s, 1),
        "busy_ms": counts.busy_ns // 1_000_000,
        "by_exit": [counts.latency[exit].cumulative()[-1] for exit in range(design.stages)],
        "recent_us": {
            name: latencies[min(len(latencies) - 1, int(share * len(latencies)))] // 1_000 if latencies else None
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
        "recent": [[reply.end_ns // 1_000, reply.latency_ns // 1_000, reply.exit, reply.met] for reply in replies],
        **({} if model.npu.certifier is None else {"certificate": model.npu.certifier.report()}),
        "runs": [[run.start_ns // 1_000, run.end_ns // 1_000, run.stage, run.batch, run.waiting] for run in runs],
    }
