"""The circumstances that a model is served in, and what follows from them for a design.

They give a network its profile of exits, criteria and modes of tenants, its default objective and the
setting that a policy is made for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fluidnpu.dse import Design, DesignError
from fluidnpu.scheduler import SchedulerError, Serving
from fluidnpu.scheduler.exits import (
    AdaptationMode,
    Bound,
    Criteria,
    ExitProfile,
    PowerModel,
    Promise,
    Recorded,
    make_mode,
    parse_criterion,
)
from fluidnpu.scheduler.policies import SERVING_POLICY
from fluidnpu.scheduler.tenants import Tenancy, Tenant
from fluidnpu.scheduler.tuning import AdaptationPlan, Watching, deployed

from ..bundle import Bundle
from ..devices.device import Clock, Device, WallClock
from ..driver import Driver
from ..errors import BundleError
from .runtime import usual_criteria

_log = logging.getLogger(__name__)
LOADED_HALF = 0.5  # of capacity: the load that a policy is made for when none is named
SLO_OVER_LATENCY = 5  # default objective over the latency of one sample alone through the whole network
BOARDS = ("pynq", "devmem")  # devices of which this machine has one


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The circumstances that a model is served in.

    `device`: a kind of `open_device`. `opened`: makes a device instead, for tests and campaigns.
    `rate_per_s` and `slo_ns`: the expected load and the default objective (None: half of what the NPU can
    serve, and five times the latency of a lone sample). `guarded`: see `Driver`. `recall_bytes`: of results
    that a simulated NPU keeps, so that it works in real time on images that it has seen. `decisions`: a
    folder for the decision logs, one a model. `criteria`: when requests leave that do not say so themselves
    (None: the program's thresholds). `tenancy`: the tenants that share each model's NPU; `policy` is then
    that of each. `power`: watts of the board, by default those of its file. `recorded`: by model the
    confidences of labelled samples, for tenants whose mode is "pareto"; that of the only model under "".
    `adapt`: what adaptation of the active exits goes by, and `watching` its settings (None: exits change by
    hand alone). `certify`: the promise that thresholds keep instead, by a running certificate; `seed`: of its
    coins (None: nobody knows it). `warm`: a load computes a batch of each size before the model is ready.
    """

    device: str = "simulated"
    policy: str = SERVING_POLICY
    rate_per_s: float | None = None
    slo_ns: int | None = None
    queue: int = 1024
    slots: int | None = None
    attempts: int = 3
    guarded: bool = False
    recall_bytes: int = 256 << 20
    registers: int | None = None
    reserved: tuple[int, int] | None = None
    clock: Callable[[], Clock] = WallClock
    opened: Callable[[Bundle], Device] | None = None
    decisions: Path | None = None
    criteria: str | None = None
    tenancy: Tenancy | None = None
    power: PowerModel | None = None
    recorded: Mapping[str, Recorded] = field(default_factory=dict)
    adapt: AdaptationPlan | None = None
    watching: Watching = field(default_factory=Watching)
    certify: Promise | None = None
    seed: int | None = None
    warm: bool = True


def profile_of(design: Design, power: PowerModel | None = None) -> ExitProfile:
    """Return the profile of a design's exits, with energies where watts are given or its board has any."""
    return ExitProfile.of(design, PowerModel.of(design) if power is None else power)


def modes_of(
    tenants: Sequence[Tenant], profile: ExitProfile, recorded: Recorded | None = None
) -> dict[str, AdaptationMode]:
    """Return the modes of tenants whose criterion follows their share. Raises SchedulerError.

    Fronts need the recorded confidences of labelled samples.
    """
    modes = {}
    profile = with_measurements(profile, recorded)
    for tenant in tenants:
        usual = parse_criterion("false") if tenant.criterion is None else tenant.criterion
        Bound(usual, profile)
        if tenant.mode != "fixed":
            modes[tenant.name] = make_mode(tenant.mode, profile, usual, recorded, accuracy=tenant.accuracy)
    return modes


def with_measurements(profile: ExitProfile, recorded: Recorded | None) -> ExitProfile:
    """Return the profile with the accuracies that recorded samples have, if there are any.

    Raises SchedulerError for samples of another network.
    """
    if recorded is None:
        return profile
    if len(recorded.accuracy) != profile.exits:
        raise SchedulerError(f"recorded confidences must be of {profile.exits} exits, not {len(recorded.accuracy)}")
    return replace(profile, accuracy=recorded.accuracy, samples=recorded.samples)


def joined_design(bundles: Sequence[Bundle]) -> Design:
    """Return the design of all bundles on one NPU. Raises BundleError where they are for different ones."""
    try:
        return Design.joined([bundle.design for bundle in bundles])
    except DesignError as error:
        raise BundleError(str(error)) from None


def criteria_of(
    driver: Driver,
    text: str | None,
    power: PowerModel | None = None,
    network: int = 0,
    recorded: Recorded | None = None,
) -> Criteria:
    """Return the criteria of a loaded program: those of a text, or its thresholds.

    `recorded`: labelled samples, for criteria over accuracy. Raises CriterionError, SchedulerError.
    """
    profile = with_measurements(profile_of(driver.parts[network], power), recorded)
    return usual_criteria(driver, profile, network) if text is None else Criteria(profile, text)


def default_slo_ns(design: Design) -> int:
    """Return five times the latency of one sample alone through the whole network, in ns."""
    return SLO_OVER_LATENCY * int(design.latency.between(0, design.stages - 1, 1))


def setting_of(design: Design, options: ModelOptions, folder: Path) -> Any:
    """Return the setting that a policy is made for: load and objective of the options, or the defaults.

    A plan in the bundle's folder brings its table and weights; a board has no other (`tuning.deployed`).
    """
    rates = design.exit_rates or (1 / design.stages,) * design.stages
    serving = Serving.of(design, rates)
    rate = options.rate_per_s or LOADED_HALF / serving.least_load(1.0)
    setting, remark = deployed(
        folder,
        options.policy,
        serving.setting(rate, options.slo_ns or default_slo_ns(design)),
        rate_named=options.rate_per_s is not None,
        slo_named=options.slo_ns is not None,
        may_solve=options.device not in BOARDS,
    )
    if remark:
        _log.info("%s", remark)
    return setting
