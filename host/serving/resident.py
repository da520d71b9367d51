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

from ..errors import ProtocolError
from .model import READY, Model, ServedNetwork
from .replies import Image, Reply


class Resident(ServedNetwork):
    """A network of an NPU that others have, too; `name` is one of the NPU's names.

    A network with one tenant has that one for requests that name none; where there are more, they must.
    """

    def __init__(self, name: str, npu: Model) -> None:
        super().__init__(name, index=npu.names.index(name))
        self._npu = npu
        self._was_loaded = False

    @property
    def npu(self) -> Model:
        """The NPU that serves this network and its others."""
        return self._npu

    @property
    def tenancy_tenants(self) -> tuple[Tenant, ...]:
        """The tenants of this network as they are now."""
        return tuple(tenant for tenant in self._npu.tenancy_tenants if tenant.network == self.name)

    def submit(self, image: Image, terms: Terms = PLAIN) -> Future[Reply]:
        """Submit one image (H, W, C) on behalf of one of the network's tenants; see `Model.submit`."""
        slo_ns = self.slo_ns if terms.slo_ns is None else terms.slo_ns
        return self._npu.submit(image, replace(terms, slo_ns=slo_ns, tenant=self.check_tenant(terms.tenant)))

    def change(self, criteria: str | None, tenants: Mapping[str, Mapping[str, Any]]) -> None:
        """Change the network's usual criterion and keys of its tenants.

        Raises ProtocolError for tenants of others, and as `Model.change`.
        """
        own = [tenant.name for tenant in self.tenancy_tenants]
        if foreign := [name for name in tenants if name not in own]:
            raise ProtocolError(f"a tenant must be one of {', '.join(own)}, not '{foreign[0]:.60}'")
        self._npu.change(criteria, tenants, self.index)

    def load(self, *, back: bool = False) -> None:
        """Load all networks of the NPU; at the start, when another has done so already, nothing."""
        first, self._was_loaded = not self._was_loaded, True
        if back or not (first and self._npu.state == READY):
            self._npu.load(back=back)

    def unload(self) -> None:
        """Unload all networks of the NPU."""
        self._npu.unload()
