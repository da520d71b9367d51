"""The life of a fleet's processes and requests: whoever is left alone ends, by itself and in time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
from campaigns.strikes import free_port
from fleet_worlds import NAME, slow_world
from host_worlds import PATIENCE_S
from oip_worlds import bundle_of

from fluidnpu.host.fleet import BoardOptions
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.fleet.boards.processes import Process


def test_a_board_whose_front_dies_while_it_starts_ends_by_itself(tmp_path: Path) -> None:
    bundle_of(slow_world(), tmp_path / "bundle")
    words = [sys.executable, "-m", "fluidnpu.host.fleet.boards.board", f"{NAME}={tmp_path / 'bundle'}"]

    def begun(*more: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*words, *more], stdin=pipe, stdout=pipe, stderr=pipe, env=environment())

    with begun() as early:
        assert early.stdin is not None
        early.stdin.close()
        assert early.wait(PATIENCE_S) == 1, "it takes no requests yet, so it need not drain"
    port = free_port()
    with begun(f"--port={port}") as late:
        assert late.stdin is not None
        assert late.stdout is not None
        late.stdout.close()  # whom it would tell its address
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(PATIENCE_S)
        late.stdin.close()
        assert late.wait(PATIENCE_S) == 0, "it drains"


def test_a_board_that_is_stopped_ends_with_its_front(tmp_path: Path) -> None:
    board = Process("b", {NAME: bundle_of(slow_world(), tmp_path / "bundle")}, BoardOptions())
    board.start()
    os.kill(board.pid, signal.SIGSTOP)
    board.close()
    assert board._process is not None
    assert board._process.returncode == 0, "it drained, and was not killed"
