"""A network under its name in the protocol: what it is, who may ask it, and what is known of it.

It is served by an NPU (`npu`), of its own or beside others; what the NPU does as a whole is asked there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from fluidnpu.scheduler import Outcome, SchedulerError
from fluidnpu.scheduler.exits import Bound, Criterion, CriterionError, parse_criterion
from fluidnpu.scheduler.simulation import PLAIN, ActiveExits, Terms
from fluidnpu.scheduler.tenants import Tenant, described

from ..bundle import Bundle
from ..errors import ConflictError, ModelUnavailableError, ProtocolError
from .adapting import describe_exits, with_thresholds
from .options import default_slo_ns
from .replies import Image, Reply
from .server import Server
from .statistics import Statistics
from .tails import Run

if TYPE_CHECKING:
    from .model import Model


VERSION = "1"  # of a model that has no others: a reload replaces it


class ServedNetwork(ABC):
    """A network as the protocol's calls name it. `index`: its place among the networks of its NPU.

    `version`: of a model that has several (`versions.Versions`).
    """

    def __init__(self, name: str, version: str = "", index: int = 0) -> None:
        self.name, self.version, self.index = name, version or VERSION, index
        self.label = f"{name}/{version}" if version else name

    @property
    @abstractmethod
    def npu(self) -> Model:
        """The NPU that serves it, with its state, its device and its server."""

    @abstractmethod
    def submit(self, image: Image, terms: Terms = PLAIN) -> Future[Reply]:
        """Submit one image (H, W, C). Raises as `Model.submit`."""

    @abstractmethod
    def change(self, criteria: str | None, tenants: Mapping[str, Mapping[str, Any]]) -> None:
        """Change the usual criterion and keys of tenants. Raises as `Model.change`."""

    @abstractmethod
    def load(self, *, back: bool = False) -> None:
        """Load the network. Raises as `Model.load`."""

    @abstractmethod
    def unload(self) -> None:
        """Answer what was accepted, then stop serving it."""

    @property
    def bundle(self) -> Bundle:
        """The bundle as last loaded. Raises ModelUnavailableError before the first load."""
        return self.npu.bundles[self.index]

    @property
    def engine(self) -> Run | None:
        """Runs the tail of the network on the host; None of a network without one."""
        return self.npu.engines[self.index]

    @property
    def statistics(self) -> Statistics | None:
        """The counts of the network; None before the first load."""
        counts = self.npu.counts
        return counts[self.index] if counts else None

    @property
    def server(self) -> Server:
        """The server of the moment. Raises ModelUnavailableError without one."""
        if self.npu.serving is None:
            raise ModelUnavailableError(f"model '{self.name}' must be loaded, and it is not: {self.npu.reason}")
        return self.npu.serving

    @property
    def active(self) -> ActiveExits:
        """The table of active exits. Raises ProtocolError where there is none, and ModelUnavailableError."""
        active = self.server.active
        if active is None:
            raise ProtocolError(
                f"model '{self.name}' must have early exits, and no criterion of its server's, for its exits to change"
            )
        return active

    @property
    def slo_ns(self) -> int:
        """The objective of a request that names none."""
        return self.npu.options.slo_ns or default_slo_ns(self.bundle.design)

    def criterion(self, text: str) -> Criterion:
        """Return the criterion that a text says of this model.

        Raises ProtocolError where it breaks the grammar or asks what is not known of the model, and
        ModelUnavailableError.
        """
        try:
            return Bound(parse_criterion(text), self.npu.profile(self.bundle.design, self.index)).criterion
        except CriterionError as error:
            raise ProtocolError(str(error)) from None

    @property
    def energy_nj(self) -> tuple[float, ...] | None:
        """The modelled energy of a sample up to each exit, where the board's power is known."""
        server = self.npu.serving
        return None if server is None else server.criteria_of(self.index).profile.energy_nj

    @property
    def tenancy_tenants(self) -> tuple[Tenant, ...]:
        """The tenants as they are now; empty where the NPU is not shared."""
        tenancy = self.npu.tenancy
        return () if tenancy is None else tenancy.tenants

    def check_tenant(self, name: str) -> str:
        """Return the name of a tenant that there is, of a network's only tenant also for none.

        Raises ProtocolError.
        """
        names = [tenancy_tenant.name for tenancy_tenant in self.tenancy_tenants]
        if self.npu.tenancy is None and name:
            raise ProtocolError(f"model '{self.name}' has no tenants, so a request must name none, not '{name:.60}'")
        if not name and self.npu.tenancy is not None and self.npu.tenancy.networks:
            if len(names) == 1:
                return names[0]
            raise ProtocolError(f"a request to '{self.name}' must name its tenant, one of {', '.join(names)}")
        if name and name not in names:
            raise ProtocolError(f"a tenant must be one of {', '.join(names)}, not '{name:.60}'")
        return name

    def tenants(self) -> dict[str, Any]:
        """Return the criterion in force and the tenants, as their file has them, with what each has now.

        Raises ModelUnavailableError.
        """
        rows, shared, counts = {}, self.npu.shared, self.statistics
        criteria = self.server.criteria_of(self.index)
        for tenant in () if self.npu.tenancy is None else self.npu.tenancy.all:
            if self.npu.tenancy is not None and self.npu.tenancy.networks and tenant not in self.tenancy_tenants:
                continue  # of another network
            row = described(tenant)
            if shared is not None and tenant.name in shared.infeasible:
                row["target"] = "infeasible"
            if shared is not None:
                row["share_now"] = shared.shares.get(tenant.name, 0.0)
                row["tokens_ms"] = shared.accounts.balance_ns.get(tenant.name, 0.0) / 1e6
            if counts is not None and tenant.name in counts.tenants:
                counted = counts.tenants[tenant.name]
                row["answered"] = sum(counted.outcomes.values()) - counted.outcomes[Outcome.SHED]
                row["npu_ms"] = counted.npu_ns / 1e6
            if (criterion := criteria.tenants.get(tenant.name)) is not None:
                row["criteria"] = criterion.text
            rows[tenant.name] = row
        return {"criteria": criteria.usual.text, "tenants": rows}

    def exits(self) -> dict[str, Any]:
        """Return the active exits, why they are so, and what adaptation sees.

        Raises ProtocolError, ModelUnavailableError.
        """
        report = describe_exits(self.bundle.program, self.active, self.npu.adaptation, self.server.adoption_ns)
        return report if self.npu.certifier is None else report | {"certificate": self.npu.certifier.report()}

    def change_exits(self, thresholds: Mapping[str, float | None], why: str) -> None:
        """Set thresholds of early exits by name, None for an inactive one; the others stay as they are.

        It takes effect with the next batch, and a reload undoes it. Raises ConflictError where a certificate
        sets them, ProtocolError, ModelUnavailableError.
        """
        active = self.active
        if self.npu.certifier is not None:
            raise ConflictError(
                f"the thresholds of model '{self.name}' must be those of its certificate, not set by hand"
            )
        try:
            active.change(with_thresholds(self.bundle.program, active, thresholds), why)
        except SchedulerError as error:
            raise ProtocolError(str(error)) from None

    def feedback(self, truths: Mapping[int, int]) -> int:
        """Tell the true classes of answered requests by their numbers; return how many were of use.

        Raises ConflictError where nothing adapts, and ModelUnavailableError.
        """
        self.server  # is served  # noqa: B018
        if self.npu.adaptation is None:
            raise ConflictError(f"model '{self.name}' must adapt to take labels (serve --adapt), and it does not")
        return sum(self.npu.adaptation.feedback(request, truth) for request, truth in truths.items())
