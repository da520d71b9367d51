"""What tests share is made before them: each part once, failures told with the tool's last lines."""

from __future__ import annotations

import pytest

from workshop import builds
from workshop.builds import BuildPart, build, parts


def fail() -> None:
    raise RuntimeError("\n".join(f"line {number}" for number in range(100)))


def test_what_is_there_is_not_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    listed = [
        BuildPart(name="new", make=lambda: made.append("new")),
        BuildPart(name="old", make=lambda: made.append("old"), there=lambda: True),
    ]
    assert build(listed, jobs=1) == 0
    assert made == ["new"]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("  1 of 2  new  ")
    assert first.endswith(" s")
    assert second == "  2 of 2  old  cached"


def test_a_failure_is_told_and_the_others_are_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    listed = [BuildPart(name="broken", make=fail), BuildPart(name="sound", make=lambda: made.append("sound"))]
    monkeypatch.setattr(builds, "parts", lambda: iter(listed))
    assert builds.main(["--jobs", "1"]) == 1
    assert made == ["sound"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  1 of 2  broken  FAILED"
    assert lines[1] == f"line {100 - builds.TOLD_LINES}"
    assert lines[builds.TOLD_LINES] == "line 99"


def test_every_room_that_builds_lists_what_it_shares() -> None:
    names = [part.name for part in parts()]
    assert len(set(names)) == len(names)
    for words in ("npu: of tests/rtl_tb", "npu: core hls", "C++ core: small", "Yosys"):
        assert any(name.startswith(words) for name in names), words
