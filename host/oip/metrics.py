"""Prometheus metrics of the models, read from their `Statistics` at the time of the scrape."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from ..errors import DeviceError
from ..serving.model import Model
from ..serving.models import Models
from ..serving.sampled import SampledJob
from ..serving.statistics import EDGES_NS, Statistics
from .logs import dropped_lines

_log = logging.getLogger(__name__)
CONTENT_TYPE = CONTENT_TYPE_LATEST
_EDGES = [f"{edge / 1e9:g}" for edge in EDGES_NS]


def render_metrics(models: Models) -> bytes:
    """Return the text exposition of all metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(models))
    return generate_latest(registry)


class _Collector:
    """Makes metric families from the counts of the moment."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def describe(self) -> list[Metric]:
        """Nothing is known before the scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every family, one after another."""
        families: dict[str, Any] = {}
        for model in self._models:
            for name, help, kind, labels, values, value in _of_model(model):
                if name not in families:
                    families[name] = kind(f"fluidnpu_{name}", help, labels=("model", *labels))
                label_values = (model.name, *map(str, values))
                if kind is HistogramMetricFamily:
                    families[name].add_metric(label_values, *value)
                else:
                    families[name].add_metric(label_values, value)
        yield from families.values()
        about = "lines of the server's own log that could not be written"
        yield CounterMetricFamily("fluidnpu_log_lines_dropped", about, value=dropped_lines())


Row = tuple[str, str, Any, tuple[str, ...], tuple[object, ...], Any]


def _of_model(model: Model) -> Iterator[Row]:
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    yield "model_ready", "1 while the model takes requests", gauge, (), (), float(model.ready)
    yield "model_loads", "times that the model was loaded", counter, (), (), model.loads
    yield "model_recoveries", "devices that failed and were opened again", counter, (), (), len(model.recoveries)
    server, counts = model.serving, model.statistics
    if server is not None:
        yield "queue_requests", "requests without an answer", gauge, (), (), server.waiting
        yield "slots_held", "slots that hold a sample", gauge, (), (), server.held
        yield "missed_interrupts", "jobs that ended without an interrupt", counter, (), (), server.missed_interrupts
    about = "lines of the decision log that could not be written"
    yield "decision_lines_dropped", about, counter, (), (), model.lines_dropped
    yield "requests_lost", "requests that ended with an error of the device", counter, (), (), model.lost
    if counts is not None:
        yield from _of_counts(counts, model.uptime_s)
        if model.tenancy_tenants:
            yield from _of_tenants(model, counts)
    yield from _of_exits(model)
    if model.sampler is not None and model.sampler.latest is not None:
        yield from _of_sampled(model.sampler.latest, model.sampler.jobs)
    if model.meter is not None:
        about = "power that the board's sensor measures now; covers: the whole board, or some of its rails"
        labels, values = ("covers", "sensor"), (model.meter.covers, model.meter.source)
        try:
            yield "measured_power_watts", about, gauge, labels, values, model.meter.watts()
        except DeviceError as error:
            _log.warning("power is not measured: %s", error)


def _of_exits(model: Model) -> Iterator[Row]:
    """Yield the active exits, and what adaptation has done."""
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    server, adaptation, counts = model.serving, model.adaptation, model.statistics
    if counts is not None:
        yield "exit_changes", "changes of the active exits", counter, (), (), counts.exit_changes
    if server is not None and server.active is not None:
        for exit, threshold in enumerate(server.active.now.exits.thresholds):
            about = "threshold of an exit, above 1 where it is inactive"
            yield "exit_threshold", about, gauge, ("exit",), (exit,), 2.0 if threshold is None else threshold
    if adaptation is not None:
        seen = adaptation.counts
        yield "adapt_alarmed", "1 while evidence is gathered", gauge, (), (), float(bool(adaptation.alarmed))
        for kind, count in sorted(seen.by_kind.items()):
            yield "adapt_events", "alarms, changes, and judgements that hold", counter, ("kind",), (kind,), count
        yield "adapt_shadows", "samples that ran on after their answer", counter, (), (), seen.shadows
        about = "modelled NPU time of those, each alone"
        yield "adapt_shadow_seconds", about, counter, (), (), seen.shadow_ns / 1e9
        yield "adapt_labels", "true classes that were fed back", counter, (), (), seen.labels
        about = "batches that worked for longer than a whole one without exits"
        yield "adapt_late_batches", about, counter, (), (), seen.late_batches


def _of_sampled(job: SampledJob, jobs: int) -> Iterator[Row]:
    """Yield what the NPU counted in the job that was read last, summed over its layers."""
    gauge, cycles = GaugeMetricFamily, max(1, job.cycles)
    yield "npu_sampled_jobs", "jobs whose counters were read", CounterMetricFamily, (), (), jobs
    yield "npu_sampled_layers", "layers of the job that was read last", gauge, (), (), job.layers
    yield "npu_sampled_cycles", "cycles of that job's layers", gauge, (), (), job.cycles
    about = "share of its cycles in which the core waited for input"
    yield "npu_starved_ratio", about, gauge, (), (), job.starved / cycles
    about = "share of its cycles in which input waited for the core"
    yield "npu_blocked_ratio", about, gauge, (), (), job.blocked / cycles
    for way, words, bursts in (
        ("read", job.read_words, job.read_bursts),
        ("write", job.write_words, job.write_bursts),
    ):
        yield "npu_sampled_words", "words of memory that the job moved", gauge, ("direction",), (way,), words
        yield "npu_sampled_bursts", "bursts in which it did", gauge, ("direction",), (way,), bursts
    if job.off_model is not None:
        about = "layers whose cycles are not those of the exact model"
        yield "npu_layers_off_model", about, gauge, (), (), job.off_model


def _of_tenants(model: Model, counts: Statistics) -> Iterator[Row]:
    gauge, counter, label = GaugeMetricFamily, CounterMetricFamily, ("tenant",)
    for name, mine in sorted(counts.tenants.items()):
        for outcome, count in sorted(mine.outcomes.items()):
            labels, values = ("tenant", "outcome"), (name, outcome.name.lower())
            yield "tenant_requests", "requests of a tenant that ended", counter, labels, values, count
        about = "requests of a tenant that ended after their deadline, or unanswered"
        yield "tenant_violations", about, counter, label, (name,), mine.violations
        yield "tenant_npu_seconds", "time that the NPU worked for a tenant", counter, label, (name,), mine.npu_ns / 1e9
    if model.shared is not None:
        for name, share in sorted(model.shared.shares.items()):
            yield "tenant_share", "share of the NPU that a tenant has now", gauge, label, (name,), share
            tokens = model.shared.accounts.balance_ns[name] / 1e9
            yield "tenant_tokens_seconds", "NPU time that a tenant may use at once", gauge, label, (name,), tokens


def _of_counts(counts: Statistics, uptime_s: float) -> Iterator[Row]:
    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    for exit, histogram in sorted(counts.latency.items()):
        cumulative = histogram.cumulative()
        buckets = [*zip(_EDGES, map(float, cumulative), strict=False), ("+Inf", float(cumulative[-1]))]
        value = (buckets, histogram.sum_ns / 1e9)
        yield "latency_seconds", "from arrival to answer", HistogramMetricFamily, ("exit",), (exit,), value
    for outcome, count in sorted(counts.outcomes.items()):
        yield "requests", "requests that ended", counter, ("outcome",), (outcome.name.lower(),), count
    yield "violations", "requests that ended after their deadline, or unanswered", counter, (), (), counts.violations
    yield "queue_seconds", "time of the answered before their first run", counter, (), (), counts.queue_ns / 1e9
    yield "decisions", "decisions of the policy", counter, (), (), counts.decisions
    yield "failed_attempts", "attempts at jobs that failed", counter, (), (), counts.failed_attempts
    about = "from the start of runs until this host had seen their ends"
    yield "host_seconds", about, counter, (), (), counts.host_ns / 1e9
    yield "busy_seconds", "time that the NPU worked", counter, (), (), counts.busy_ns / 1e9
    yield "busy_share", "share of the time that the NPU worked", gauge, (), (), counts.busy_ns / 1e9 / uptime_s
    for (stage, batch), drift in sorted(counts.batches.items()):
        where, labels = (stage, batch), ("stage", "batch")
        yield "runs", "runs of the NPU", counter, labels, where, drift.runs
        ratio = drift.measured_ns / max(1, drift.runs * drift.predicted_ns)
        yield "latency_drift_ratio", "measured over predicted time of a run", gauge, labels, where, ratio
