"""Exits that are decided when samples reach them, by criteria or by a rule of one's own.

>>> from .rule import Threshold
>>> recorded = {0: (0.95, 0.99), 1: (0.5, 0.9)}
>>> exits = RuledExits(rule=Threshold([0.9]), confidences=recorded)
>>> exits.leaving([Request(0, 0, 100), Request(1, 0, 100)], (0, 0), exit=0, now_ns=10)
['Threshold', '']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..policy import Request
from .criteria import Criteria
from .rule import ExitRule, Seen, StageCosts


@dataclass(frozen=True, kw_only=True)
class RuledExits:
    """Exits that a rule decides when samples reach them, for `World.exits` and for the runtime.

    `confidences` maps the id of a request to its confidence at each exit, for rules that need one in the
    simulator. `costs` are told to a rule of one's own; criteria know those of their profile.
    """

    rule: ExitRule | Criteria
    confidences: Mapping[int, Sequence[float]] = field(default_factory=dict)
    costs: StageCosts = field(default_factory=StageCosts)

    def leaving(
        self,
        requests: Sequence[Request],
        started_ns: Sequence[int],
        exit: int,
        now_ns: int,
        confidences: Sequence[float] | None = None,
    ) -> list[str]:
        """Return for each sample of a batch the reason why it leaves, or an empty text.

        `exit` from 0, reached at `now_ns` by samples whose first runs began at `started_ns`. Without
        `confidences` those that were recorded of the requests are told, where there are any.
        """
        if confidences is None and self.confidences:
            confidences = [float(self.confidences[request.id][exit]) for request in requests]
        rule = self.rule
        if isinstance(rule, Criteria):
            return rule.leaving(requests, started_ns, exit, now_ns, confidences)
        macs, energy_nj = self.costs.up_to(exit)
        reason, fields_text = type(rule).__name__, []
        for index, request in enumerate(requests):
            seen = Seen(
                exit=exit,
                elapsed_ns=now_ns - request.arrival_ns,
                slack_ns=request.deadline_ns - now_ns,
                confidence=None if confidences is None else float(confidences[index]),
                macs=macs,
                energy_nj=energy_nj,
            )
            fields_text.append(reason if rule.leaves(seen) else "")
        return fields_text
