"""A plan: the solved table and the chosen weights of one setting, as two files in a bundle.

A board reads them and starts at once; it never solves, and never chooses. `policy.json` holds the circumstances
and the choices, `counts.npz` the solved table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fluidnpu.dse import DesignError, LatencyTable

from ..errors import SchedulerError
from ..policies.decision_process import CountTable
from ..policies.guarded import with_weights
from ..policies.selection import Choice, choice_name, choose
from ..policies.setting import Setting

PLAN_FILE, COUNTS_FILE = "policy.json", "counts.npz"
KIND, SCHEMA = "fluidnpu plan", 1
DIALS = (0.0, 1.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A setting with its solved table and its choices, by name (`choice_name`)."""

    setting: Setting
    counts: CountTable
    choices: Mapping[str, Choice]

    @classmethod
    def make(cls, setting: Setting, *, dials: Sequence[float] = DIALS, anytime: Sequence[bool] = (False, True)) -> Plan:
        """Solve the setting and choose the weights of `guarded` for places of the dial.

        `anytime`: without and with anytime answers. Raises SchedulerError.
        """
        choices = {
            choice_name("guarded", dial, early): choose(setting, with_weights, "guarded", dial=dial, anytime=early)
            for early in anytime
            for dial in dials
        }
        return cls(setting=setting, counts=setting.count_table(), choices=choices)

    def ready(self) -> Setting:
        """Return the setting that brings table and weights."""
        return dataclasses.replace(self.setting, solved=self.counts, chosen=self.choices)

    def check(self, latency: LatencyTable, exit_rates: Sequence[float]) -> None:
        """Raise SchedulerError unless the plan is for this table and these exit rates."""
        if latency != self.setting.latency or tuple(exit_rates) != self.setting.exit_rates:
            raise SchedulerError(
                "the plan of a bundle must be for its design's latency table and exit rates: run fluidnpu tune again"
            )

    def write(self, folder: Path) -> None:
        """Write both files, each whole at any time."""
        part = folder / f"{COUNTS_FILE}.part.npz"
        self.counts.save(part)
        part.replace(folder / COUNTS_FILE)
        s = self.setting
        body = {
            "plan": KIND,
            "schema": SCHEMA,
            "latency_ns": [list(row) for row in s.latency.ns],
            "exit_rates": list(s.exit_rates),
            "rate_per_s": s.rate_per_s,
            "slo_ns": s.slo_ns,
            "traffic": s.traffic,
            "choices": {name: choice.to_dict() for name, choice in sorted(self.choices.items())},
        }
        text = folder / f"{PLAN_FILE}.part"
        text.write_text(json.dumps(body, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        text.replace(folder / PLAN_FILE)

    @classmethod
    def read(cls, folder: Path) -> Plan | None:
        """Read the plan of a folder; None where it has none. Raises SchedulerError naming the file."""
        path = folder / PLAN_FILE
        if not path.exists():
            return None
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["plan"] != KIND or raw["schema"] != SCHEMA:
                raise ValueError(f"it must say {KIND!r} and schema {SCHEMA}")
            setting = Setting(
                latency=LatencyTable(ns=tuple(map(tuple, raw["latency_ns"]))),
                exit_rates=tuple(map(float, raw["exit_rates"])),
                rate_per_s=float(raw["rate_per_s"]),
                slo_ns=int(raw["slo_ns"]),
                traffic=str(raw["traffic"]),
            )
            choices = {str(name): Choice.from_dict(body, str(path)) for name, body in raw["choices"].items()}
        except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError, DesignError) as error:
            if isinstance(error, SchedulerError):
                raise
            raise SchedulerError(f"'{path}' must be a plan that fluidnpu tune wrote: {error}") from None
        plan = cls(setting=setting, counts=CountTable.load(folder / COUNTS_FILE), choices=choices)
        plan.ready().count_table()  # refuses a table of other circumstances
        return plan
