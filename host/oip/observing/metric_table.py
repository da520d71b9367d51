"""The metrics of a server and of a fleet's front: kinds, labels and meanings. Plain data.

Scrapes, the reference, the alert rules and the dashboard are views of these tables. A counter's name ends in
`_total` when it is scraped, and every name begins with `fluidnpu_`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Row = tuple[str, tuple[object, ...], Any]  # a name of the table, the values of its labels, and its own
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family: its kind, what it counts, and its labels."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()

    def sample(self, name: str) -> str:
        """Return the name under which a scrape has it; of a histogram that of its buckets.

        >>> Metric(COUNTER, "times").sample("model_loads")
        'fluidnpu_model_loads_total'
        """
        return f"fluidnpu_{name}" + {COUNTER: "_total", HISTOGRAM: "_bucket"}.get(self.kind, "")


_MODEL = {  # each with the label model before its own
    "model_ready": Metric(GAUGE, "1 while the model takes requests"),
    "model_loads": Metric(COUNTER, "times that the model was loaded"),
    "model_recoveries": Metric(COUNTER, "devices that failed and were opened again"),
    "queue_requests": Metric(GAUGE, "requests without an answer"),
    "slots_held": Metric(GAUGE, "slots that hold a sample"),
    "missed_interrupts": Metric(COUNTER, "jobs that ended without an interrupt"),
    "decision_lines_dropped": Metric(COUNTER, "lines of the decision log that could not be written"),
    "requests_lost": Metric(COUNTER, "requests that ended with an error of the device"),
    "refused": Metric(COUNTER, "requests that ended with an error, by its class", ("error",)),
    "latency_seconds": Metric(HISTOGRAM, "from arrival to answer", ("exit",)),
    "requests": Metric(COUNTER, "requests that ended", ("outcome",)),
    "violations": Metric(COUNTER, "requests that ended after their deadline, or unanswered"),
    "queue_seconds": Metric(COUNTER, "time of the answered before their first run"),
    "decisions": Metric(COUNTER, "decisions of the policy"),
    "failed_attempts": Metric(COUNTER, "attempts at jobs that failed"),
    "host_seconds": Metric(COUNTER, "from the start of runs until this host had seen their ends"),
    "busy_seconds": Metric(COUNTER, "time that the NPU worked"),
    "busy_share": Metric(GAUGE, "share of the time that the NPU worked"),
    "runs": Metric(COUNTER, "runs of the NPU", ("stage", "batch")),
    "latency_drift_ratio": Metric(GAUGE, "measured over predicted time of a run", ("stage", "batch")),
    "tenant_requests": Metric(COUNTER, "requests of a tenant that ended", ("tenant", "outcome")),
    "tenant_violations": Metric(
        COUNTER, "requests of a tenant that ended after their deadline, or unanswered", ("tenant",)
    ),
    "tenant_npu_seconds": Metric(COUNTER, "time that the NPU worked for a tenant", ("tenant",)),
    "tenant_share": Metric(GAUGE, "share of the NPU that a tenant has now", ("tenant",)),
    "tenant_tokens_seconds": Metric(GAUGE, "NPU time that a tenant may use at once", ("tenant",)),
    "exit_changes": Metric(COUNTER, "changes of the active exits"),
    "exit_threshold": Metric(GAUGE, "threshold of an exit, above 1 where it is inactive", ("exit",)),
    "adapt_alarmed": Metric(GAUGE, "1 while evidence is gathered"),
    "adapt_events": Metric(COUNTER, "alarms, changes, and judgements that hold", ("kind",)),
    "adapt_shadows": Metric(COUNTER, "samples that ran on after their answer"),
    "adapt_shadow_seconds": Metric(COUNTER, "modelled NPU time of those, each alone"),
    "adapt_labels": Metric(COUNTER, "true classes that were fed back"),
    "adapt_late_batches": Metric(COUNTER, "batches that worked for longer than a whole one without exits"),
    "certified_kept": Metric(
        GAUGE,
        "share of answers that are the last exit's at least, in all (whole) and since a reset (stretch)",
        ("since",),
    ),
    "certified_exit_kept": Metric(GAUGE, "the same of what left at an exit", ("exit",)),
    "certified_tenant_kept": Metric(GAUGE, "the same of what a tenant asked", ("tenant",)),
    "certified_promise": Metric(GAUGE, "share of answers that is promised to be kept"),
    "certified_answers": Metric(COUNTER, "answers that the certificate speaks of"),
    "certified_differing": Metric(COUNTER, "samples that ran on whose answer was not the last exit's"),
    "certified_shadows": Metric(COUNTER, "samples that ran on after their answer"),
    "certified_shadow_seconds": Metric(COUNTER, "modelled NPU time of those, each alone"),
    "certified_resets": Metric(COUNTER, "times that a stretch ended since more was lost than may be"),
    "npu_sampled_jobs": Metric(COUNTER, "jobs whose counters were read"),
    "npu_sampled_layers": Metric(GAUGE, "layers of the job that was read last"),
    "npu_sampled_cycles": Metric(GAUGE, "cycles of that job's layers"),
    "npu_starved_ratio": Metric(GAUGE, "share of its cycles in which the core waited for input"),
    "npu_blocked_ratio": Metric(GAUGE, "share of its cycles in which input waited for the core"),
    "npu_sampled_words": Metric(GAUGE, "words of memory that the job moved", ("direction",)),
    "npu_sampled_bursts": Metric(GAUGE, "bursts in which it did", ("direction",)),
    "npu_layers_off_model": Metric(GAUGE, "layers whose cycles are not those of the exact model"),
    "measured_power_watts": Metric(
        GAUGE,
        "power that the board's sensor measures now; covers: the whole board, or some of its rails",
        ("covers", "sensor"),
    ),
}
SERVER = {  # of the process
    "log_lines_dropped": Metric(COUNTER, "lines of the server's own log that could not be written"),
    "access_refused": Metric(COUNTER, "requests without the token, or of a page of another origin"),
    "certificate_end_seconds": Metric(GAUGE, "when the certificate ends, in seconds since 1970"),
}
_BOARD = {  # of a fleet, each with the label board before its own
    "board_state": Metric(GAUGE, "1 for the state that it is in", ("state",)),
    "board_work_seconds": Metric(GAUGE, "predicted time of its open work"),
    "board_lag_seconds": Metric(GAUGE, "measured less predicted time"),
    "board_sent": Metric(COUNTER, "requests sent to the board"),
    "board_answers": Metric(COUNTER, "answers that came from it"),
    "board_late": Metric(COUNTER, "answers that came when another had been given"),
    "board_overdue": Metric(COUNTER, "requests that were asked elsewhere, since it was late or gone"),
    "board_refused": Metric(COUNTER, "requests that it refused"),
    "board_audited": Metric(COUNTER, "answers that were asked of another board, too, to compare the bits"),
    "board_wrong": Metric(COUNTER, "answers with wrong bits, as audits found"),
    "board_slow_ratio": Metric(GAUGE, "measured over predicted time, smoothed, where a plan follows the traffic"),
    "board_ignored": Metric(COUNTER, "answers that came after it was found sick"),
}
FLEET = {
    "fleet_resent": Metric(COUNTER, "messages beyond the first of a request"),
    "fleet_held": Metric(COUNTER, "times that a request waited for any board"),
    "fleet_audits": Metric(COUNTER, "requests that were asked twice to compare the bits"),
    "fleet_audits_agreed": Metric(COUNTER, "audits whose answers had the same bits"),
    "fleet_audits_differed": Metric(COUNTER, "audits whose answers differed"),
    "fleet_waiting": Metric(GAUGE, "samples without an answer"),
    "fleet_latency_seconds": Metric(HISTOGRAM, "request to answer", ("model",)),
    "fleet_answered": Metric(COUNTER, "samples that were answered", ("model",)),
    "fleet_violations": Metric(COUNTER, "answered after their objective", ("model",)),
    "fleet_errors": Metric(COUNTER, "requests that ended with one", ("model", "error")),
    "fleet_plan": Metric(
        GAUGE, "1 for the plan that is followed, and why it was last looked at", ("plan", "form", "reason")
    ),
    "fleet_plan_rate": Metric(GAUGE, "samples a second that the plan carries"),
    "fleet_plan_decisions": Metric(
        COUNTER, "times that the plan was changed or kept, by reason", ("reason", "outcome")
    ),
    "fleet_exit_rate": Metric(GAUGE, "share of samples that is believed to leave at an exit", ("model", "exit")),
}


def _with_labels(table: dict[str, Metric], label: str) -> dict[str, Metric]:
    return {name: replace(metric, labels=(label, *metric.labels)) for name, metric in table.items()}


MODEL, BOARD = _with_labels(_MODEL, "model"), _with_labels(_BOARD, "board")
TABLE = MODEL | SERVER | BOARD | FLEET
