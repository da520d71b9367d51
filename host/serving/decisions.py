"""The decision log of a live server as files: written by the owner thread, rotated by size, replayed later.

`fluidnpu simulate --replay FILE` reads them (`scheduler.comparison.replay_live`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fluidnpu.scheduler import Action, Answer, Request, Run, Shed, View
from fluidnpu.scheduler.comparison import LiveLog
from fluidnpu.scheduler.exits import PowerModel
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import EXPIRED, OVERDUE, InForce, Networks, Terms
from fluidnpu.scheduler.tenants import Shared, Tenancy

from ..driver import JobRecord
from ..errors import DeviceError, GaveUpError
from .log_file import LogFile
from .replies import Fate, Observer, Reply


class DecisionLog(Observer):
    """Writes a `LogFile` through at each decision and end of a run: a killed server loses what came since."""

    def __init__(self, file: Path, policy: str, *, most_bytes: int = 64 << 20, keep: int = 4) -> None:
        self._out, self._policy = LogFile(file, most_bytes=most_bytes, keep=keep), policy
        self._log: LiveLog | None = None
        self._settings: Sequence[Setting] = ()
        self._shared: Shared | None = None
        self._power: PowerModel | None = None
        self._networks: Networks | None = None
        self._tenancy: Tenancy | None = None  # as the log has it
        self._view: View | None = None
        self._run: Run | None = None
        self._end_ns = 0

    def expect(
        self,
        settings: Sequence[Setting],
        *,
        shared: Shared | None = None,
        power: PowerModel | None = None,
        networks: Networks | None = None,
    ) -> None:
        """Take the setting that the policy of the next schedule is made for, one for each network.

        `shared`: the policy, where tenants share the NPU, and `power` the watts that it reckons with.
        `networks`: those side by side, where there are several.
        """
        self._settings, self._shared, self._power, self._networks = settings, shared, power, networks

    def began(self, view: View) -> None:
        """Begin a new log: the policy was reset. Raises RuntimeError before `expect`."""
        if not self._settings:
            raise RuntimeError("a decision log must have its setting first")
        self._view, self._run = view, None
        self._tenancy = None if self._shared is None else self._shared.tenancy
        self._log = LiveLog(
            self._policy,
            self._settings,
            view.slots,
            tenancy=self._tenancy,
            power=self._power,
            networks=self._networks,
        )
        self._begin(fresh=True)

    def admitted(self, request: Request, terms: Terms) -> None:
        """Write the arrival."""
        assert self._log is not None
        self._out.write(self._log.arrival(request, terms.priority))

    def withdrawn(self, request: Request) -> None:
        """Write that the request has gone."""
        assert self._log is not None
        self._out.write(self._log.withdrawn(request))

    def decided(self, view: View, action: Action) -> None:
        """Write the decision; between decisions is where a part may end."""
        assert self._log is not None
        if self._out.due:
            self._begin(fresh=False)
        if self._shared is not None and self._shared.tenancy is not self._tenancy:  # taken for this decision
            self._tenancy = self._shared.tenancy
            self._out.write(self._log.shared_anew(view.now_ns, self._tenancy))
        terms = isinstance(action, Answer | Shed) and action.reason in (EXPIRED, OVERDUE)
        self._out.write(self._log.decision(view.now_ns, action, closed=view.closed, terms=terms))
        self._run = action if isinstance(action, Run) else None
        self._end_ns = view.now_ns
        self._out.flush()

    def ran(self, run: Run, start_ns: int, end_ns: int, job: JobRecord) -> None:
        """Take the end of the run; who stays is known a moment later."""
        self._end_ns = end_ns

    def failed(self, error: DeviceError) -> None:
        """Write that a run was given up: nobody stays."""
        if isinstance(error, GaveUpError):
            self._end_run([])

    def ended(self, fates: Sequence[Fate]) -> None:
        """Write the end of the run, with those who stay."""
        if self._run is not None and self._view is not None:
            ids, after = {request.id for request in self._run.requests}, self._run.stage + 1
            waiting = self._view.waiting[after] if after < len(self._view.waiting) else ()
            because = {fate.request_id: fate.because for fate in fates if isinstance(fate, Reply)}
            staying = [request.id for request in waiting if request.id in ids]
            self._end_run(staying, because, [id for id in staying if id in because])

    def adapted(self, now_ns: int, state: InForce) -> None:
        """Write the change, with its reason."""
        assert self._log is not None
        self._out.write(self._log.adapted(now_ns, state))

    def answered_early(self, reply: Reply) -> None:
        """Nothing is decided here; the runtime's own line follows."""

    @property
    def dropped(self) -> int:
        """Lines that could not be written."""
        return self._out.dropped

    def close(self) -> None:
        """Close the file."""
        self._out.close()

    def _end_run(
        self, staying: Sequence[int], because: Mapping[int, str] | None = None, shadows: Sequence[int] = ()
    ) -> None:
        assert self._log is not None
        self._out.write(self._log.run_end(max(self._end_ns, 0), staying, because, shadows))
        self._out.flush()
        self._run = None

    def _begin(self, *, fresh: bool) -> None:
        """Begin a part with its header."""
        assert self._log is not None
        assert self._view is not None
        header = self._log.header(self._view, fresh=fresh)
        if self._out.broken and not fresh:  # the number of the part that is missing makes a replay begin anew
            header = self._log.header(self._view)
        self._out.begin(header, fresh=fresh)
