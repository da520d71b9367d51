"""The table of the policies by name.

A new policy is its own file and one row here.

Importing it loads nothing else, so that the console command can list the names at once. The registry finds
the rest in the file: `ENTRIES[name]`.
"""

from __future__ import annotations

SERVING_POLICY = "fluid:drain=1"  # of a server that nobody names one for
POLICY_FILES: dict[str, str] = {  # the module relative to this folder, or the full name of one elsewhere
    "serial": ".baselines",
    "greedy": ".baselines",
    "adaptive": ".baselines",
    "adaptive-s": ".baselines",
    "adaptive-m": ".baselines",
    "adaptive-l": ".baselines",
    "fluid": ".fluid",
    "fluid-repaired": ".fluid",
    "lazy": ".peers",
    "staged": ".peers",
    "turns": ".turns",
    "optimal": ".optimal",
    "credit": ".credit",
    "guarded": ".guarded",
}
