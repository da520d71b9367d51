"""Logs that cannot be written: lines are dropped and counted, serving goes on, and the log resumes."""

import errno
import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_worlds import PATIENCE_S, eventually
from oip_worlds import served

import fluidnpu
from fluidnpu.host.serving import log_file
from fluidnpu.host.serving.log_file import LogFile
from fluidnpu.scheduler.comparison import replay_live


class Disk:
    """A disk with room for so many bytes, and files on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self._really = room, log_file.open_part
        monkeypatch.setattr(log_file, "open_part", self.opened)
        monkeypatch.setattr(log_file, "RETRY_S", 0.0)

    def opened(self, file: Path) -> Any:
        return _File(self, self._really(file))


class _File(io.RawIOBase):
    def __init__(self, disk: Disk, really: Any) -> None:
        self._disk, self._really = disk, really

    def write(self, data: Any) -> int:
        if not self._disk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._really.write(data[: self._disk.room])  # part of it, as a disk that runs full does
        self._disk.room -= written
        return int(written)

    def seek(self, *where: int) -> int:
        return int(self._really.seek(*where))

    def truncate(self, size: int | None = None) -> int:
        return int(self._really.truncate(size))

    def close(self) -> None:
        self._really.close()


def test_a_full_disk_drops_lines_and_leaves_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, log = Disk(monkeypatch, 13), LogFile(tmp_path / "log")
    log.begin("head", fresh=True)
    for line in ("first", "second", "third"):
        log.write(line)
        log.flush()
    assert (tmp_path / "log").read_text() == "head\nfirst\n"
    assert (log.dropped, log.broken, log.due) == (2, True, True)
    disk.room = 0
    log.begin("again")  # still full
    assert (log.dropped, log.broken) == (3, True)
    disk.room = 100
    log.begin("again")
    log.write("fourth")
    log.close()
    assert (tmp_path / "log").read_text() == "head\nfirst\nagain\nfourth\n"
    assert (log.dropped, log.broken) == (3, False)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2, "once at the failure, once after it"
    assert "No space left" in caplog.records[0].message
    assert not list(tmp_path.glob("log.*")), "attempts shift no parts"


def test_a_folder_that_cannot_be_made_drops_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(log_file, "RETRY_S", 0.0)
    log = LogFile(tmp_path / "file" / "log")
    log.begin("head", fresh=True)
    log.write("line")
    assert (log.dropped, log.due) == (2, True)
    (tmp_path / "file").unlink()
    log.begin("head")
    log.close()
    assert (tmp_path / "file" / "log").read_text() == "head\n"


def test_logs_are_their_owners_alone(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", most_bytes=4)
    for part in ("first", "second"):
        log.begin(part)
        log.close()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("log", "log.1")] == [0o600] * 2


def test_a_full_disk_under_the_decisions_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, 4000)
    file = tmp_path / "log" / "small.jsonl"
    with served(tmp_path, decisions=tmp_path / "log", surfaces={"grpc": None}) as s:
        images = s.w.images(24)
        _, classes = s.golden(images)

        def dropped() -> float:
            text = s.call("GET", "/metrics")[1].decode()
            name = 'fluidnpu_decision_lines_dropped_total{model="small"} '
            return float(text.split(name)[1].split()[0])

        with fluidnpu.connect(s.url, timeout_s=PATIENCE_S) as npu:
            assert dropped() == 0
            while not dropped():
                assert npu.infer(images).outputs["label"].tolist() == classes
            full = replay_live(file.read_text().splitlines())
            disk.room = 1 << 20
            eventually(lambda: bool(npu.infer(images[:1]).outputs) and file.stat().st_size > 4100)
            before = dropped()
            assert np.array_equal(npu.infer(images).outputs["label"], classes)
            assert s.model.ready
            assert dropped() == before
    again = replay_live(file.read_text().splitlines())
    assert again.decisions > full.decisions
    assert again.requests >= full.requests + 24


def test_a_killed_server_leaves_what_it_decided(tmp_path: Path) -> None:
    """Nothing that was answered waits in this process: its end writes nothing more."""
    file = tmp_path / "log" / "small.jsonl"
    with served(tmp_path, decisions=tmp_path / "log", surfaces={"grpc": None}) as s:
        for count in range(1, 4):
            with fluidnpu.connect(s.url, timeout_s=PATIENCE_S) as npu:
                npu.infer(s.w.images(8))
            eventually(lambda count=count: replay_live(file.read_text().splitlines()).requests == 8 * count)  # type: ignore[misc]
