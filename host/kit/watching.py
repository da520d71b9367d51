"""Alert rules for Prometheus and a dashboard for Grafana, made from the table of metrics.

A rule and a panel name metrics of the table alone, so none can outlive its metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ..oip.observing.metric_table import BOARD, COUNTER, FLEET, HISTOGRAM, MODEL, SERVER, TABLE, Metric

RUNBOOK = "docs/how-to/runbook.md"
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule: `expr` names metrics in braces, and `heading` is its section of the runbook."""

    name: str
    expr: str
    for_s: int
    severity: str
    summary: str
    heading: str

    @property
    def rule(self) -> str:
        """The expression with the names of a scrape."""
        return self.expr.format_map({name: metric.sample(name) for name, metric in TABLE.items()})


ALERTS = (
    Alert(
        "FluidnpuModelNotReady",
        "{model_ready} == 0",
        30,
        "page",
        "A model takes no requests.",
        "a-board-hangs",
    ),
    Alert(
        "FluidnpuDeviceFails",
        "increase({model_recoveries}[10m]) > 2",
        0,
        "ticket",
        "A device fails again and again, and is opened anew.",
        "a-board-hangs",
    ),
    Alert(
        "FluidnpuLogDropped",
        "increase({decision_lines_dropped}[5m]) > 0 or increase({log_lines_dropped}[5m]) > 0",
        0,
        "ticket",
        "A log cannot be written; requests are answered all the same.",
        "the-disk-is-full",
    ),
    Alert(
        "FluidnpuAccessRefused",
        "rate({access_refused}[5m]) > 0.1",
        60,
        "ticket",
        "Somebody asks without the token.",
        "the-token-is-wrong",
    ),
    Alert(
        "FluidnpuCertificateEnds",
        f"{{certificate_end_seconds}} - time() < {14 * DAY_S}",
        0,
        "ticket",
        "The certificate ends within two weeks.",
        "the-certificate-has-ended",
    ),
    Alert(
        "FluidnpuRefused",
        'rate({refused}{{error=~"QueueFullError|MemoryError"}}[5m]) > 0',
        60,
        "page",
        "Requests are turned away, since the queue or the memory is full.",
        "memory-or-the-queue-is-short",
    ),
    Alert(
        "FluidnpuLate",
        "sum by (instance, model) (rate({violations}[5m])) > 0.05 * sum by (instance, model) (rate({requests}[5m]))",
        300,
        "page",
        "More than 5 % of the requests end after their deadline.",
        "memory-or-the-queue-is-short",
    ),
    Alert(
        "FluidnpuDrift",
        "{latency_drift_ratio} > 1.2",
        600,
        "ticket",
        "Runs of the NPU take longer than they were predicted to.",
        "a-board-hangs",
    ),
    Alert(
        "FluidnpuBoardGone",
        '{board_state}{{state=~"hung|lost|away|foreign|sick"}} == 1',
        60,
        "ticket",
        "A board of the fleet takes no requests.",
        "a-board-hangs",
    ),
    Alert(
        "FluidnpuWrongBits",
        "increase({board_wrong}[10m]) > 0",
        0,
        "page",
        "A board gave wrong bits, and was taken out.",
        "a-board-hangs",
    ),
)


def alert_rules() -> str:
    """Return the rules as Prometheus reads them."""
    lines = [
        "# Made from the table of metrics: fluidnpu config kit FOLDER.",
        "groups:",
        "  - name: fluidnpu",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.rule)}",
            f"        for: {alert.for_s}s",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          runbook: {json.dumps(f'{RUNBOOK}#{alert.heading}')}",
        ]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    """Return a dashboard with a panel for every metric, as Grafana imports it: a row a table."""
    panels: list[dict[str, object]] = []
    top = 0
    for title, table in (("Models", MODEL), ("The server", SERVER), ("Boards", BOARD), ("The fleet", FLEET)):
        panels.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}})
        top += 1
        for index, (name, metric) in enumerate(table.items()):
            place = {"x": 8 * (index % 3), "y": top + 8 * (index // 3), "w": 8, "h": 8}
            targets = [
                {"refId": letter, "expr": expr, "legendFormat": legend}
                for letter, (expr, legend) in zip("AB", queries(name, metric), strict=False)
            ]
            panels.append(
                {
                    "type": "timeseries",
                    "title": name.replace("_", " "),
                    "description": metric.help,
                    "datasource": {"type": "prometheus", "uid": "${source}"},
                    "fieldConfig": {"defaults": {"unit": _unit(name, metric)}, "overrides": []},
                    "gridPos": place,
                    "targets": targets,
                }
            )
        top += 8 * -(-len(table) // 3)
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    board = {
        "uid": "fluidnpu",
        "title": "fluidnpu",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(board, indent=1, sort_keys=True) + "\n"


def queries(name: str, metric: Metric) -> Iterator[tuple[str, str]]:
    """Yield what a panel asks of a metric, each with its legend: of a counter its rate, of a histogram two
    quantiles.
    """
    sample, legend = metric.sample(name), " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    if metric.kind == HISTOGRAM:
        by = ", ".join(("le", *metric.labels))
        for quantile in (0.5, 0.99):
            expr = f"histogram_quantile({quantile}, sum by ({by}) (rate({sample}[$__rate_interval])))"
            yield expr, f"p{100 * quantile:g} {legend}"
    elif metric.kind == COUNTER:
        yield f"rate({sample}[$__rate_interval])", legend
    else:
        yield sample, legend


def _unit(name: str, metric: Metric) -> str:
    """Return Grafana's unit of a panel: a counter of seconds gives a share of the time."""
    if name.endswith("_end_seconds"):
        return "dateTimeAsIso"
    if name.endswith("_seconds"):
        return "percentunit" if metric.kind == COUNTER else "s"
    return {"watts": "watt", "share": "percentunit", "ratio": "percentunit"}.get(name.rpartition("_")[2], "short")
