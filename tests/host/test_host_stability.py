"""EdgeServing's rule on a device with two networks: the schedule of the simulator."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from network_worlds import pair
from test_host_networks import OF, rates_of

from fluidnpu.host import serve_requests
from fluidnpu.models.exits.rule import confidence
from fluidnpu.scheduler import Request, World, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, RuledExits
from fluidnpu.scheduler.policies.stability import Stability
from fluidnpu.scheduler.simulation.world import SideBySide


@settings(max_examples=8, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 3000), min_size=1, max_size=8),
    owners=st.lists(st.sampled_from(sorted(OF)), min_size=8, max_size=8),
    slo_ns=st.sampled_from([1500, 6000, 30_000]),
)
def test_a_device_and_the_simulator_make_the_same_schedule(gaps: list[int], owners: Sequence[str], slo_ns: int) -> None:
    w = pair(slots=(5, 6))
    side = w.driver.networks(OF)
    requests = [Request(i, int(t), int(t) + slo_ns, owners[i]) for i, t in enumerate(np.cumsum(gaps))]
    images = [w.images(OF[one.tenant], 1, seed=one.id)[0] for one in requests]
    rules = [Criteria(ExitProfile.of(part), "confidence > 0.35") for part in w.driver.parts]
    done = serve_requests(
        requests, images, Stability(networks=side), w.driver, exit_rates=rates_of(), rule=rules, networks=OF
    )
    done.schedule.check()
    sure = {}
    for one, image in zip(requests, images, strict=True):
        logits = enumerate(w.golden(OF[one.tenant], image[None]))
        sure[one.id] = [float(confidence(w.qnets[OF[one.tenant]].logits(i, stored))[0]) for i, stored in logits]
    exits = SideBySide(networks=side, exits=tuple(RuledExits(rule=rule, confidences=sure) for rule in rules))
    world = World(latency=w.design.latency, exits=exits, exit_rates=rates_of(), networks=side)
    assert done.schedule == simulate(requests, Stability(networks=side), world)
