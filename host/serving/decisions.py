"""The decision log of a live server as files: written by the owner thread, rotated by size, replayed later.

`fluidnpu simulate --replay FILE` reads them (`scheduler.comparison.replay_live`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from fluidnpu.scheduler import Action, Answer, Request, Run, Shed, View
from fluidnpu.scheduler.comparison import LiveLog
from fluidnpu.scheduler.exits import PowerModel
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import InForce, Networks
from fluidnpu.scheduler.tenants import Shared, Tenancy

from ..driver import Job
from ..errors import DeviceError, GaveUpError
from .replies import EXPIRED, OVERDUE, Fate, Observer, Reply

FLUSH_S = 1.0


class DecisionLog(Observer):
    """Writes `file`; at `most_bytes` it becomes `file.1`, that one `file.2`, up to `keep` old parts."""

    def __init__(self, file: Path, policy: str, *, most_bytes: int = 64 << 20, keep: int = 4) -> None:
        self._file, self._policy, self._most_bytes, self._keep = file, policy, most_bytes, keep
        self._out: IO[str] | None = None
        self._log: LiveLog | None = None
        self._settings: Sequence[Setting] = ()
        self._shared: Shared | None = None
        self._power: PowerModel | None = None
        self._networks: Networks | None = None
        self._tenancy: Tenancy | None = None  # as the log has it
        self._view: View | None = None
        self._run: Run | None = None
        self._end_ns = self._bytes = 0
        self._flushed_s = 0.0

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
        """Begin a new log: the policy was reset."""
        if not self._settings:
            raise RuntimeError("a decision log must be told the setting first")
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
        self._rotate(fresh=True)

    def admitted(self, request: Request) -> None:
        """Write the arrival."""
        assert self._log is not None
        self._write(self._log.arrival(request))

    def decided(self, view: View, action: Action) -> None:
        """Write the decision; between decisions is where a part may end."""
        assert self._log is not None
        if self._bytes > self._most_bytes:
            self._rotate(fresh=False)
        if self._shared is not None and self._shared.tenancy is not self._tenancy:  # taken for this decision
            self._tenancy = self._shared.tenancy
            self._write(self._log.shared_anew(view.now_ns, self._tenancy))
        terms = isinstance(action, Answer | Shed) and action.reason in (EXPIRED, OVERDUE)
        self._write(self._log.decision(view.now_ns, action, closed=view.closed, terms=terms))
        self._run = action if isinstance(action, Run) else None
        self._end_ns = view.now_ns
        if time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def ran(self, run: Run, start_ns: int, end_ns: int, job: Job) -> None:
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
        self._write(self._log.adapted(now_ns, state))

    def answered_early(self, reply: Reply) -> None:
        """Nothing is decided here; the runtime's own line follows."""

    def flush(self) -> None:
        """Give what was written to the file."""
        if self._out is not None:
            self._out.flush()
        self._flushed_s = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            self._out.close()
            self._out = None

    def _end_run(
        self, staying: Sequence[int], because: Mapping[int, str] | None = None, shadows: Sequence[int] = ()
    ) -> None:
        assert self._log is not None
        self._write(self._log.run_end(max(self._end_ns, 0), staying, because, shadows))
        self._run = None

    def _write(self, line: str) -> None:
        assert self._out is not None
        self._bytes += self._out.write(line + "\n")

    def _rotate(self, *, fresh: bool) -> None:
        """Close the part, shift the old ones and begin the next with its header."""
        assert self._log is not None
        assert self._view is not None
        self.close()
        if self._file.exists():
            for number in range(self._keep, 0, -1):
                older = self._file.with_name(f"{self._file.name}.{number}")
                newer = self._file if number == 1 else self._file.with_name(f"{self._file.name}.{number - 1}")
                if newer.exists():
                    newer.replace(older)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._out = self._file.open("w", encoding="utf-8")
        self._bytes = 0
        self._write(self._log.header(self._view.waiting, fresh=fresh))
