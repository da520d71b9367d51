"""Prometheus metrics of a fleet, read at the time of the scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...oip.observing.metric_table import BOARD, COUNTER, FLEET, Row
from ..boards.leaf import BoardState
from ..dispatcher import Dispatcher
from .counts import ModelCounts


def fleet_rows(dispatcher: Dispatcher, models: Mapping[str, ModelCounts]) -> Iterator[Row]:
    """Yield what there is of every board, of the front and of every model."""
    for leaf in dispatcher.leaves:
        for state in BoardState:
            yield "board_state", (leaf.name, state.name.lower()), float(leaf.state is state)
        yield "board_work_seconds", (leaf.name,), leaf.work_s
        yield "board_lag_seconds", (leaf.name,), leaf.lag_s
        for name, metric in BOARD.items():
            if metric.kind == COUNTER:
                yield name, (leaf.name,), leaf.counts[name.removeprefix("board_")]
    for name, metric in FLEET.items():
        if metric.kind == COUNTER and not metric.labels:
            yield name, (), dispatcher.counts[name.removeprefix("fleet_")]
    yield "fleet_waiting", (), dispatcher.waiting
    for model, counts in models.items():
        yield "fleet_latency_seconds", (model,), counts.latency
        yield "fleet_answered", (model,), counts.samples
        yield "fleet_violations", (model,), counts.violations
        for kind, errors in sorted(counts.errors.items()):
            yield "fleet_errors", (model, kind), errors
