"""The active batch against a set: random exits, merges, starts and resets keep it valid (ADR 6)."""

from host_worlds import CTRL, field, read, world, write
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fluidnpu.hls import Cause
from fluidnpu.host import SimulatedNpu

MASKS = st.integers(0, 0xFFFF_FFFF) | st.sets(st.integers(0, 5), max_size=4).map(lambda s: sum(1 << i for i in s))


class Batch(RuleBasedStateMachine):
    """The NPU beside a Python set."""

    def __init__(self) -> None:
        super().__init__()
        w = world(slots=8)
        self.npu: SimulatedNpu = w.npu
        self.b_max = w.design.b_max
        self.active: set[int] = set()
        write(self.npu, "FIRST_LAYER", 0)
        write(self.npu, "LAST_LAYER", 0)

    def do(self, verb: str, mask: int) -> int:
        write(self.npu, "CTRL", CTRL["SOFT_RESET"])  # clears ERROR, and the batch: build it again
        write(self.npu, "SLOT_MASK", sum(1 << i for i in self.active))
        write(self.npu, "CTRL", CTRL["MERGE"])
        assert field(self.npu, "ERROR", "CAUSE") == Cause.NONE
        write(self.npu, "SLOT_MASK", mask)
        write(self.npu, "CTRL", CTRL[verb])
        return field(self.npu, "ERROR", "CAUSE")

    @rule(mask=MASKS)
    def exit(self, mask: int) -> None:
        chosen = {i for i in range(32) if mask >> i & 1}
        legal = chosen <= self.active
        assert (self.do("EXIT", mask) == Cause.NONE) == legal
        if legal:
            self.active -= chosen

    @rule(mask=MASKS)
    def merge(self, mask: int) -> None:
        chosen = {i for i in range(32) if mask >> i & 1}
        legal = not chosen & self.active and len(chosen | self.active) <= self.b_max
        assert (self.do("MERGE", mask) == Cause.NONE) == legal
        if legal:
            self.active |= chosen

    @rule(wait=st.booleans())
    def start(self, wait: bool) -> None:
        cause = self.do("START", 0)
        beyond = any(slot >= 8 for slot in self.active)  # no memory there
        assert cause == (Cause.EMPTY_BATCH if not self.active else Cause.BUS_READ if beyond else Cause.NONE)
        if wait:
            self.npu.clock.sleep_until(self.npu.clock.now_ns() + 10**9)

    @rule()
    def reset(self) -> None:
        write(self.npu, "CTRL", CTRL["SOFT_RESET"])
        self.active = set()

    @invariant()
    def same_set(self) -> None:
        assert read(self.npu, "ACTIVE") == sum(1 << i for i in self.active)
        assert field(self.npu, "STATUS", "B_ACT") == len(self.active) <= self.b_max


TestBatch = Batch.TestCase
TestBatch.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
