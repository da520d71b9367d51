"""Prometheus metrics of the models, read from their `Statistics` at the time of the scrape."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fluidnpu.scheduler.tuning import Certifier

from ...errors import DeviceError
from ...serving.model import ServedNetwork
from ...serving.models import Models
from ...serving.sampled import SampledJob
from ...serving.statistics import EDGES_NS, Histogram, Statistics
from ..admission.access import AccessControl
from .logs import dropped_lines
from .metric_table import COUNTER, GAUGE, HISTOGRAM, TABLE, Row

_log = logging.getLogger(__name__)
CONTENT_TYPE = CONTENT_TYPE_LATEST
_EDGES = [f"{edge / 1e9:g}" for edge in EDGES_NS]
_KINDS: dict[str, Any] = {COUNTER: CounterMetricFamily, GAUGE: GaugeMetricFamily, HISTOGRAM: HistogramMetricFamily}


def render(rows: Iterable[Row]) -> bytes:
    """Return the text exposition of rows of the table, and of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(rows))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def server_rows(access: AccessControl) -> Iterator[Row]:
    """Yield what any server has, the front of a fleet too."""
    yield "log_lines_dropped", (), dropped_lines()
    yield "access_refused", (), access.refused
    if access.certificate_end_s is not None:
        yield "certificate_end_seconds", (), access.certificate_end_s


def model_rows(models: Models, errors: Mapping[str, Mapping[str, int]]) -> Iterator[Row]:
    """Yield what there is of every model and version. `errors`: counts by their class, by its label."""
    for model in models:
        for name, values, value in _of_model(model):
            yield name, (model.label, *values), value
        for kind, count in sorted(errors.get(model.label, {}).items()):
            yield "refused", (model.label, kind), count


class _Collector:
    """Makes metric families from the rows of the moment."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows

    def describe(self) -> list[Metric]:
        """Nothing is known before the scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every family, one after another."""
        families: dict[str, Any] = {}
        for name, values, value in self._rows:
            if name not in families:
                row = TABLE[name]
                families[name] = _KINDS[row.kind](f"fluidnpu_{name}", row.help, labels=row.labels)
            measured = _buckets(value) if isinstance(value, Histogram) else (value,)
            families[name].add_metric(tuple(map(str, values)), *measured)
        yield from families.values()


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    cumulative = histogram.cumulative()
    buckets = [*zip(_EDGES, map(float, cumulative), strict=False), ("+Inf", float(cumulative[-1]))]
    return buckets, histogram.sum_ns / 1e9


def _of_model(model: ServedNetwork) -> Iterator[Row]:
    yield "model_ready", (), float(model.npu.ready)
    yield "model_loads", (), model.npu.loads
    yield "model_recoveries", (), len(model.npu.recoveries)
    server, counts = model.npu.serving, model.statistics
    if server is not None:
        yield "queue_requests", (), server.waiting
        yield "slots_held", (), server.held
        yield "missed_interrupts", (), server.missed_interrupts
    yield "decision_lines_dropped", (), model.npu.lines_dropped
    yield "requests_lost", (), model.npu.lost
    if counts is not None:
        yield from _of_counts(counts, model.npu.uptime_s)
        if model.tenancy_tenants:
            yield from _of_tenants(model, counts)
    yield from _of_exits(model)
    if model.npu.sampler is not None and model.npu.sampler.latest is not None:
        yield from _of_sampled(model.npu.sampler.latest, model.npu.sampler.jobs)
    if model.npu.meter is not None:
        try:
            yield "measured_power_watts", (model.npu.meter.covers, model.npu.meter.source), model.npu.meter.watts()
        except DeviceError as error:
            _log.warning("power is not measured: %s", error)


def _of_exits(model: ServedNetwork) -> Iterator[Row]:
    """Yield the active exits, and what adaptation has done."""
    server, adaptation, counts = model.npu.serving, model.npu.adaptation, model.statistics
    if counts is not None:
        yield "exit_changes", (), counts.exit_changes
    if server is not None and server.active is not None:
        for exit, threshold in enumerate(server.active.now.exits.thresholds):
            yield "exit_threshold", (exit,), 2.0 if threshold is None else threshold
    if adaptation is not None:
        seen = adaptation.counts
        yield "adapt_alarmed", (), float(bool(adaptation.alarmed))
        for kind, count in sorted(seen.by_kind.items()):
            yield "adapt_events", (kind,), count
        yield "adapt_shadows", (), seen.shadows
        yield "adapt_shadow_seconds", (), seen.shadow_ns / 1e9
        yield "adapt_labels", (), seen.labels
        yield "adapt_late_batches", (), seen.late_batches
    if model.npu.certifier is not None:
        yield from _of_certificate(model.npu.certifier)


def _of_certificate(certifier: Certifier) -> Iterator[Row]:
    """Yield what is certified, and what it costs."""
    certificate = certifier.certificate
    yield "certified_promise", (), certificate.promise.eta
    yield "certified_kept", ("whole",), certificate.whole.kept
    yield "certified_kept", ("stretch",), certificate.stretch.kept
    for exit, tally in enumerate(certificate.exits):
        yield "certified_exit_kept", (exit,), tally.kept
    for name, tally in sorted(certificate.tenants.copy().items()):
        if name:
            yield "certified_tenant_kept", (name,), tally.kept
    yield "certified_answers", (), certificate.whole.answers
    yield "certified_differing", (), certificate.whole.differing
    yield "certified_shadows", (), certifier.shadows
    yield "certified_shadow_seconds", (), certifier.shadow_ns / 1e9
    yield "certified_resets", (), certificate.resets


def _of_sampled(job: SampledJob, jobs: int) -> Iterator[Row]:
    """Yield what the NPU counted in the job that was read last, summed over its layers."""
    cycles = max(1, job.cycles)
    yield "npu_sampled_jobs", (), jobs
    yield "npu_sampled_layers", (), job.layers
    yield "npu_sampled_cycles", (), job.cycles
    yield "npu_starved_ratio", (), job.starved / cycles
    yield "npu_blocked_ratio", (), job.blocked / cycles
    for way, words, bursts in (
        ("read", job.read_words, job.read_bursts),
        ("write", job.write_words, job.write_bursts),
    ):
        yield "npu_sampled_words", (way,), words
        yield "npu_sampled_bursts", (way,), bursts
    if job.off_model is not None:
        yield "npu_layers_off_model", (), job.off_model


def _of_tenants(model: ServedNetwork, counts: Statistics) -> Iterator[Row]:
    for name, tenant in sorted(counts.tenants.items()):
        for outcome, count in sorted(tenant.outcomes.items()):
            yield "tenant_requests", (name, outcome.name.lower()), count
        yield "tenant_violations", (name,), tenant.violations
        yield "tenant_npu_seconds", (name,), tenant.npu_ns / 1e9
    if model.npu.shared is not None:
        for name, share in sorted(model.npu.shared.shares.items()):
            yield "tenant_share", (name,), share
            tokens = model.npu.shared.accounts.balance_ns[name] / 1e9
            yield "tenant_tokens_seconds", (name,), tokens


def _of_counts(counts: Statistics, uptime_s: float) -> Iterator[Row]:
    for exit, histogram in sorted(counts.latency.items()):
        yield "latency_seconds", (exit,), histogram
    for outcome, count in sorted(counts.outcomes.items()):
        yield "requests", (outcome.name.lower(),), count
    yield "violations", (), counts.violations
    yield "queue_seconds", (), counts.queue_ns / 1e9
    yield "decisions", (), counts.decisions
    yield "failed_attempts", (), counts.failed_attempts
    yield "host_seconds", (), counts.host_ns / 1e9
    yield "busy_seconds", (), counts.busy_ns / 1e9
    yield "busy_share", (), counts.busy_ns / 1e9 / uptime_s
    for (stage, batch), drift in sorted(counts.batches.items()):
        yield "runs", (stage, batch), drift.runs
        ratio = drift.measured_ns / max(1, drift.runs * drift.predicted_ns)
        yield "latency_drift_ratio", (stage, batch), ratio
