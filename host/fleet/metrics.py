"""Prometheus metrics of a fleet, read at the time of the scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ..serving.statistics import EDGES_NS
from .counts import ModelCounts
from .dispatcher import Dispatcher
from .leaf import State

_EDGES = [f"{edge / 1e9:g}" for edge in EDGES_NS]
_BOARD = {
    "sent": "requests sent to the board",
    "answers": "answers that came from it",
    "late": "answers that came when another had been given",
    "overdue": "requests that were asked elsewhere, since it was late or gone",
    "refused": "requests that it refused",
    "audited": "answers that were asked of another board, too, to compare the bits",
    "wrong": "answers with wrong bits, as audits found",
    "ignored": "answers that came after it was found sick",
}
_FLEET = {
    "resent": "messages beyond the first of a request",
    "held": "times that a request waited for any board",
    "audits": "requests that were asked twice to compare the bits",
    "audits_agreed": "audits whose answers had the same bits",
    "audits_differed": "audits whose answers differed",
}


def render_metrics(dispatcher: Dispatcher, models: Mapping[str, ModelCounts]) -> bytes:
    """Return the text exposition of all metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(dispatcher, models))
    return generate_latest(registry)


class _Collector:
    """Makes metric families from the counts of the moment."""

    def __init__(self, dispatcher: Dispatcher, models: Mapping[str, ModelCounts]) -> None:
        self._dispatcher, self._models = dispatcher, models

    def describe(self) -> list[Metric]:
        """Nothing is known before the scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every family, one after another."""
        yield from self._boards()
        for name, help in _FLEET.items():
            family = CounterMetricFamily(f"fluidnpu_fleet_{name}", help)
            family.add_metric((), self._dispatcher.counts[name])
            yield family
        waiting = GaugeMetricFamily("fluidnpu_fleet_waiting", "samples without an answer")
        waiting.add_metric((), self._dispatcher.waiting)
        yield waiting
        yield from self._answers()

    def _boards(self) -> Iterator[Metric]:
        leaves = self._dispatcher.leaves
        states = GaugeMetricFamily("fluidnpu_board_state", "1 for the state that it is in", labels=("board", "state"))
        work = GaugeMetricFamily("fluidnpu_board_work_seconds", "predicted time of its open work", labels=("board",))
        lag = GaugeMetricFamily("fluidnpu_board_lag_seconds", "measured less predicted time", labels=("board",))
        for leaf in leaves:
            for state in State:
                states.add_metric((leaf.name, state.name.lower()), float(leaf.state is state))
            work.add_metric((leaf.name,), leaf.work_s)
            lag.add_metric((leaf.name,), leaf.lag_s)
        yield from (states, work, lag)
        for name, help in _BOARD.items():
            family = CounterMetricFamily(f"fluidnpu_board_{name}", help, labels=("board",))
            for leaf in leaves:
                family.add_metric((leaf.name,), leaf.counts[name])
            yield family

    def _answers(self) -> Iterator[Metric]:
        latency = HistogramMetricFamily("fluidnpu_fleet_latency_seconds", "request to answer", labels=("model",))
        answered = CounterMetricFamily("fluidnpu_fleet_answered", "samples that were answered", labels=("model",))
        late = CounterMetricFamily("fluidnpu_fleet_violations", "answered after their objective", labels=("model",))
        errors = CounterMetricFamily("fluidnpu_fleet_errors", "requests that ended with one", labels=("model", "error"))
        for model, counts in self._models.items():
            sums = counts.latency.cumulative()
            buckets = [*zip(_EDGES, map(float, sums), strict=False), ("+Inf", float(sums[-1]))]
            latency.add_metric((model,), buckets, counts.latency.sum_ns / 1e9)
            answered.add_metric((model,), counts.samples)
            late.add_metric((model,), counts.violations)
            for kind, count in sorted(counts.errors.items()):
                errors.add_metric((model, kind), count)
        yield from (latency, answered, late, errors)
