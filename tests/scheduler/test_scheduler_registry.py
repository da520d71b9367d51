"""Text makes policies, each describes itself, and errors are sentences."""

from __future__ import annotations

import pytest
from scheduling_worlds import ROWS, serve_row

from fluidnpu.scheduler import SchedulerError, make_policy
from fluidnpu.scheduler.policies import REGISTRY


@pytest.mark.parametrize("spec", sorted(REGISTRY))
def test_every_registered_policy_serves_a_real_stream_and_describes_itself(spec: str) -> None:
    text = "adaptive:timeout=18ms" if spec == "adaptive" else spec
    done = serve_row(ROWS[1], text, count=300)
    done.check()
    assert done.policy == text
    assert all(action.reason for _, action in done.log)
    assert REGISTRY[spec].about


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lifo", "policy must be one of adaptive, .*serial.*, not 'lifo'"),
        ("adaptive", "adaptive needs a timeout"),
        ("adaptive:timeout=18", "timeout must be a positive number with a unit"),
        ("adaptive:timeout=x%", "duration or a percentage"),
        ("adaptive:timeout=-5%", "0..1000 %"),
        ("greedy:b_max=0", "b_max must be a whole number of at least 1, not '0'"),
        ("greedy:size=3", "key among: anytime, b_max, drain, shed; not 'size=3'"),
        ("fluid:x", "not 'x'"),
        ("", "policy must be one of"),
    ],
)
def test_bad_policy_text_is_one_sentence(text: str, message: str) -> None:
    with pytest.raises(SchedulerError, match=message):
        make_policy(text)
