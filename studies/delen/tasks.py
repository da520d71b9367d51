"""The list of tasks of the study."""

from __future__ import annotations

from ..running.study import Size, StudyTask
from .energy import battery_level, by_exit, compare_constrained, criteria, guarantee, lifetimes
from .heads import head_macs, head_times
from .host import host_bounds
from .modes import MODES, serve_mode
from .settings import LEVELS, NETWORKS, RATES, THRESHOLD
from .shares import FLOODS, LIMIT_RATES, burst, isolation, serve_limited

LIMITED = ("full", f"C > {THRESHOLD}", "per-workload", "Pareto")


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
