"""The predicted capacity of a policy: what it answers in a second while the queue never runs dry.

A policy that works off a long queue by the rule of largest throughput answers what the rule does. Of any
other a long queue is simulated. `Serving.least_load` knows no slots and no leftovers, so nobody serves more
than its inverse, and many serve much less.

>>> from fluidnpu.dse import LatencyTable
>>> serving = Serving(latency=LatencyTable(ns=((10**6, 10**6), (10**6, 2 * 10**6))), exit_rates=(0.5, 0.5))
>>> [round(predicted_capacity(serving, policy, 10**7)) for policy in ("fluid:drain=1", "serial")]
[1000, 666]
"""

from __future__ import annotations

import numpy as np

from fluidnpu.dse import Design

from ..policies.drain import Drain
from ..policies.names import SERVING_POLICY
from ..policies.registry import make_policy, parse_policy
from ..policies.wrappers.anytime import Anytime
from ..policies.wrappers.shedding import Shedding
from ..policy import Request
from .serving import Serving, tally_stream

COUNT = 4000  # requests of the queue that is simulated
SLO_OVER_LATENCY = 5  # as of a server that is given no objective
FROM, TO = 0.1, 0.8  # of them: the answers that are counted, so that neither end of the queue is


def predicted_capacity(serving: Serving, policy: str, slo_ns: int) -> float:
    """Return the answers a second of an endless queue of requests with the objective.

    Answers given early and requests refused would be more; they are left out. Raises SchedulerError.
    """
    spec = parse_policy(policy)
    setting = serving.setting(1 / serving.least_load(1.0), slo_ns)
    if spec.drains and (rule := Drain(setting).rule) is not None:
        return rule.per_s
    made = make_policy(policy, setting)
    while isinstance(made, Anytime | Shedding):
        made = made.inner
    shares = np.array(serving.exit_rates)
    exits = np.searchsorted(np.cumsum(shares), (np.arange(COUNT) + 0.5) / COUNT * shares.sum())
    exits = np.random.default_rng(COUNT).permutation(exits)  # in exactly these shares
    tally = tally_stream(serving, made, [Request(i, 0, slo_ns) for i in range(COUNT)], exits.tolist())
    ends = np.sort(tally.end_ns)
    first, last = int(FROM * COUNT), int(TO * COUNT)
    return float((last - first) / (ends[last] - ends[first]) * 1e9)


def design_capacity(design: Design) -> float | None:
    """Return the predicted capacity of a design at its own exit rates, by the usual policy of a server.

    None where the rates are not known, and of a design for several networks, whose parts have their own.
    """
    if design.parts or (design.exit_rates is None and design.stages > 1):
        return None
    slo_ns = SLO_OVER_LATENCY * int(design.latency.between(0, design.stages - 1, 1))
    return predicted_capacity(Serving.of(design), SERVING_POLICY, slo_ns)
