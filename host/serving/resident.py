"""One of several networks that share an NPU, under its own name in the protocol.

The NPU belongs to one `Model` with all bundles; a resident is that network's face of it. Loading, unloading
and recovery are of all residents at once, since their programs lie in one image.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from fluidnpu.scheduler.simulation import PLAIN, Terms
from fluidnpu.scheduler.tenants import Tenant

from ..bundle import Bundle
from ..errors import ProtocolError
from .model import READY, Model
from .replies import Image, Reply
from .statistics import Statistics


class Resident(Model):
    """A network of an NPU that others have, too; `npu` serves them all, `name` is one of its names.

    All that it does not know itself (state, server, device) is the NPU's. A network with one tenant has that
    one for requests that name none; where there are more, they must.
    """

    def __init__(self, name: str, npu: Model) -> None:
        # Not Model.__init__: what it would set is the NPU's, and `__getattr__` finds it there.
        self.name, self._npu, self._network = name, npu, npu.names.index(name)
        self.label = name
        self._asked = False

    def __getattr__(self, name: str) -> Any:
        """Return what the NPU has."""
        if name == "_npu":  # while this object is made
            raise AttributeError(name)
        return getattr(self._npu, name)

    @property
    def bundle(self) -> Bundle:
        """The network's bundle as last loaded. Raises ModelUnavailableError before the first load."""
        return self._npu.bundles[self._network]

    @property
    def statistics(self) -> Statistics | None:
        """The counts of the network; None before the first load."""
        counts = self._npu.counts
        return counts[self._network] if counts else None

    @property
    def tenancy_tenants(self) -> tuple[Tenant, ...]:
        """The tenants of this network as they are now."""
        return tuple(
            tenancy_tenant for tenancy_tenant in self._npu.tenancy_tenants if tenancy_tenant.network == self.name
        )

    def submit(self, image: Image, terms: Terms = PLAIN) -> Future[Reply]:
        """Submit one image on behalf of one of the network's tenants; see `Model.submit`."""
        slo_ns = self.slo_ns if terms.slo_ns is None else terms.slo_ns
        return self._npu.submit(image, replace(terms, slo_ns=slo_ns, tenant=self.check_tenant(terms.tenant)))

    def change(self, criteria: str | None, tenants: Mapping[str, Mapping[str, Any]], network: int = 0) -> None:
        """Change the network's usual criterion and keys of its tenants; see `Model.change`."""
        mine = [tenancy_tenant.name for tenancy_tenant in self.tenancy_tenants]
        if foreign := [name for name in tenants if name not in mine]:
            raise ProtocolError(f"a tenant must be one of {', '.join(mine)}, not '{foreign[0]:.60}'")
        self._npu.change(criteria, tenants, self._network)

    def load(self, *, back: bool = False) -> None:
        """Load all networks of the NPU; at the start, when another has done so already, nothing."""
        first, self._asked = not self._asked, True
        if back or not (first and self._npu.state == READY):
            self._npu.load(back=back)

    def unload(self) -> None:
        """Unload all networks of the NPU."""
        self._npu.unload()

    close = unload
