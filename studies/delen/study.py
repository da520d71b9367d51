"""The study of Delen: its tasks and its figures, as the catalogue finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.charts import Panel, curves, line_panels, looks, value_of
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from .energy import battery_level, by_exit, compare_constrained, criteria, guarantee, lifetimes
from .heads import head_macs, head_times
from .host import host_bounds
from .modes import MODES, serve_mode
from .quantities import LIMITED
from .settings import IDLE_W, LEVELS, NETWORKS, RATES, SLO_MS
from .shares import FLOODS, LIMIT_RATES, burst, isolation, serve_limited

DRAWN = tuple(mode for mode in MODES if mode != "full")  # its latency is off every scale


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first."""
    tasks = [
        StudyTask("Figs. 14, 15", name, burst, (joins, size)) for name, joins in (("alone", False), ("together", True))
    ]
    tasks += [StudyTask("isolation", f"{flood:g}", isolation, (flood, size)) for flood in FLOODS]
    for mode in LIMITED:
        tasks += [StudyTask("Fig. 13", f"{mode}, {rate:g}", serve_limited, (mode, rate, size)) for rate in LIMIT_RATES]
    for mode in MODES:
        tasks += [StudyTask("modes", f"{mode}, {rate:g}", serve_mode, (mode, rate, size)) for rate in RATES]
    for network in NETWORKS:
        tasks.append(StudyTask("Fig. 8", network, compare_constrained, (network,)))
        tasks += [StudyTask("Fig. 9", f"{network}, {level}", battery_level, (network, level)) for level in LEVELS]
        tasks.append(StudyTask("guarantee", network, guarantee, (network,)))
        tasks.append(StudyTask("Fig. 3", network, by_exit, (network,)))
    tasks.append(StudyTask("Table 1", "criteria", criteria, ()))
    tasks.append(StudyTask("Fig. 10", "lifetimes", lifetimes, ()))
    tasks.append(StudyTask("Fig. 16", "heads", head_macs, ()))
    tasks.append(StudyTask("Fig. 16", "times", head_times, ()))
    tasks.append(StudyTask("Table 3", "bounds", host_bounds, ()))
    return tasks


def study_figures(study: Mapping[str, Any]) -> dict[str, str]:
    """Draw accuracy and response times over the request rate, and lifetimes over idle power."""
    modes, ratios = study["parts"]["modes"], study["parts"]["Fig. 10"]["lifetimes"]["ratios"]
    panels = (
        Panel(title="accuracy (%)", key="accuracy_pct"),
        Panel(title="mean response (ms)", key="average_ms", logarithmic=True),
        Panel(title="p99 response (ms)", key="p99_ms", logarithmic=True, line_at=SLO_MS, line_name=f"{SLO_MS} ms"),
    )
    lines = {
        mode: [(rate, {p.key: value_of(modes[f"{mode}, {rate:g}"][p.key]) for p in panels}) for rate in RATES]
        for mode in DRAWN
    }
    lifetimes = {
        f"lifetime over the whole network's, {rate} (modelled)": {
            policy: list(zip(IDLE_W, row, strict=True)) for policy, row in rows.items()
        }
        for rate, rows in ratios.items()
    }
    return {
        "Figs. 11, 12": curves(lines, panels, "requests a second", look=looks(DRAWN), columns=3),
        "Fig. 10": line_panels(lifetimes, "idle power (W), where work adds 5 W"),
    }


STUDY = Study(
    name="delen",
    exhibits=Exhibits.of(__package__),
    tasks=study_tasks,
    figures=study_figures,
    excerpt=("isolation", "guarantee"),
)
