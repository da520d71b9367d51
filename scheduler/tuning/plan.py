"""A plan: the solved table and the chosen weights of one setting, as two files in a bundle.

A board reads them and starts at once; it neither solves nor chooses. `policy.json` holds the circumstances
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
from ..policies.guarded import with_weights
from ..policies.registry import REGISTRY
from ..policies.selection import Choice, choice_name, choose
from ..policies.setting import Setting
from ..policies.solving.decision_process import CountTable

PLAN_FILE, COUNTS_FILE = "policy.json", "counts.npz"
KIND, SCHEMA = "fluidnpu plan", 1
DIALS = (0.0, 1.0, 2.0)
NEAR = 0.1  # of the rate: a plan for so much more or less is used


@dataclass(frozen=True, kw_only=True)
class TuningPlan:
    """A setting with its solved table and its choices, by name (`choice_name`)."""

    setting: Setting
    counts: CountTable
    choices: Mapping[str, Choice]

    @classmethod
    def make(
        cls, setting: Setting, *, dials: Sequence[float] = DIALS, anytime: Sequence[bool] = (False, True)
    ) -> TuningPlan:
        """Solve the setting and choose the weights of `guarded` for places of the dial.

        `anytime`: without and with anytime answers. Raises SchedulerError.
        """
        choices = {
            choice_name("guarded", dial, early): choose(setting, with_weights, "guarded", dial=dial, anytime=early)
            for early in anytime
            for dial in dials
        }
        return cls(setting=setting, counts=setting.count_table(), choices=choices)

    def with_choice(self, dial: float, choice: Choice) -> TuningPlan:
        """Return the plan with another choice for a place of the dial, without anytime answers."""
        return dataclasses.replace(self, choices={**self.choices, choice_name("guarded", dial, False): choice})

    def ready(self) -> Setting:
        """Return the setting that brings table and weights."""
        return dataclasses.replace(self.setting, solved=self.counts, chosen=self.choices)

    def check(self, latency: LatencyTable) -> None:
        """Raise SchedulerError unless the plan is for this table."""
        if latency != self.setting.latency:
            raise SchedulerError("the plan of a bundle must be for its design's latency table: run fluidnpu tune again")

    def fits(self, rate_per_s: float | None, slo_ns: int | None) -> bool:
        """Return whether the plan is for this load, within NEAR, and objective; None fits any."""
        s = self.setting
        return (rate_per_s is None or abs(rate_per_s / s.rate_per_s - 1) <= NEAR) and slo_ns in (None, s.slo_ns)

    @property
    def about(self) -> str:
        """The load, the objective and the traffic that the plan is for, in words."""
        s = self.setting
        return f"solved for {s.rate_per_s:g}/s, {s.slo_ns / 1e6:g} ms and {s.traffic} traffic"

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
    def read(cls, folder: Path) -> TuningPlan | None:
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


def deployed(
    folder: Path, policy: str, stated: Setting, *, rate_named: bool = True, slo_named: bool = True, may_solve: bool
) -> tuple[Setting, str]:
    """Return the setting that a bundle's folder brings for a policy, and a remark where it needs one.

    `stated`: the circumstances as named; a rate or an objective that nobody named is the plan's. Without a
    plan for about this load and objective the setting is to be solved anew; on a board, where it may not be,
    the plan there serves, and its policy's estimates find out by how much it errs. Raises SchedulerError
    where a board has none.
    """
    name = policy.partition(":")[0]
    if name not in REGISTRY or not REGISTRY[name].solved:
        return stated, ""
    plan = TuningPlan.read(folder)
    if plan is None:
        if may_solve:
            return stated, ""
        raise SchedulerError(
            f"policy '{name}' is solved beforehand and a board does not solve: run fluidnpu tune on the bundle on a "
            f"workstation, and copy {PLAN_FILE} and {COUNTS_FILE} beside its design"
        )
    plan.check(stated.latency)
    if plan.fits(stated.rate_per_s if rate_named else None, stated.slo_ns if slo_named else None):
        return plan.ready(), f"policy {plan.about}"
    if may_solve:
        return stated, f"the bundle's policy is {plan.about}, so this load is solved anew"
    return plan.ready(), f"policy {plan.about}, and told otherwise: it estimates the load as it goes"
