"""The predicted capacity of a policy: what it answers in a second while the queue never runs dry.

A policy that works off a long queue by the rule of largest throughput answers what the rule does. Of any
other a long queue is simulated. `Serving.least_load` knows no slots and no leftovers, so nobody serves more
than its inverse, and many serve much less.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import make_policy
>>> serving = Serving(latency=LatencyTable(ns=((10**6, 10**6), (10**6, 2 * 10**6))), exit_rates=(0.5, 0.5))
>>> made = [make_policy(name, serving.setting(400, 10**7)) for name in ("fluid:drain=1", "serial")]
>>> [round(predicted_capacity(serving, policy, 10**7)) for policy in made]
[1000, 666]
"""

from __future__ import annotations

import numpy as np

from ..policies.drain import Drain
from ..policies.wrappers.anytime import Anytime
from ..policies.wrappers.shedding import Shedding
from ..policy import Policy, Request, wrapping
from .serving import Serving, tally_stream

COUNT = 4000  # requests of the queue that is simulated
FROM, TO = 0.1, 0.8  # of them: the answers that are counted, so that neither end of the queue is


def predicted_capacity(serving: Serving, policy: Policy, slo_ns: int) -> float:
    """Return the answers a second of an endless queue of requests with the objective.

    Answers given early and requests refused would be more; they are left out. Raises SchedulerError.
    """
    for each in wrapping(policy):
        drain = getattr(each, "drain", None)
        if isinstance(drain, Drain) and drain.rule is not None:
            return drain.rule.per_s
    while isinstance(policy, Anytime | Shedding):
        policy = policy.inner
    shares = np.array(serving.exit_rates)
    exits = np.searchsorted(np.cumsum(shares), (np.arange(COUNT) + 0.5) / COUNT * shares.sum())
    exits = np.random.default_rng(COUNT).permutation(exits)  # in exactly these shares
    tally = tally_stream(serving, policy, [Request(i, 0, slo_ns) for i in range(COUNT)], exits.tolist())
    ends = np.sort(tally.end_ns)
    first, last = int(FROM * COUNT), int(TO * COUNT)
    return float((last - first) / (ends[last] - ends[first]) * 1e9)
