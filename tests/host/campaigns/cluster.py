"""A Ray cluster of several nodes on this machine, whose nodes are lost, silent and added on order.

    PYTHONPATH=tests/host python -m campaigns.cluster --nodes 3 --boards 1

It is for campaigns and tests: a node is a raylet with its actors and their boards, and all of them get the
same signal at once, as when power or the link of a real node goes. The process prints its address as JSON,
takes an order a line on standard input, answers each with a line, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.fleet.fronts.shards import RESOURCE, STORE_BYTES, TRIES


class LocalCluster:
    """A cluster in a process of its own, since Ray takes signals: a context manager.

    `nodes` have room for shards of `boards` boards together, each; a head without room is added. Raises
    BoardError where Ray does not start.
    """

    def __init__(self, nodes: int, boards: int) -> None:
        self._words = [f"--nodes={nodes}", f"--boards={boards}"]
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> LocalCluster:
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            for left in reversed(range(TRIES)):
                try:
                    self.address = self._start(output)
                    break
                except BoardError as error:
                    if not left:
                        raise BoardError(
                            f"a Ray cluster must start on this machine, and it does not: {error}"
                        ) from None
            self._stack = stack.pop_all()
        return self

    def _start(self, output: IO[str]) -> str:
        """Start the process; what Ray has to say goes to a file. Raises BoardError."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.cluster", *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for whoever asked for it
        )
        try:
            return str(self._answer()["address"])
        except ValueError:
            self._end()
            output.seek(0)
            lines = [line.strip() for line in output if line.strip()]
            raise BoardError(lines[-1] if lines else f"it ended with {self._process.returncode}") from None

    def __exit__(self, *_: object) -> None:
        self._end()
        self._stack.close()

    def _end(self) -> None:
        assert self._process is not None
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        """Read the next line. Raises ValueError at the end."""
        assert self._process is not None
        assert self._process.stdout is not None
        report: dict[str, Any] = json.loads(self._process.stdout.readline())
        return report

    def order(self, what: str, node: str = "") -> dict[str, Any]:
        """Do one of: lose, stop, go_on (a node by its id, which its shards know), add. Raises BoardError."""
        with self._lock:
            assert self._process is not None
            try:
                print(json.dumps([what, node]), file=self._process.stdin, flush=True)
                answer = self._answer()
            except (OSError, ValueError):
                raise BoardError("the Ray cluster of this machine must live, and it has ended") from None
        if "error" in answer:
            raise BoardError(f"a node must be known to the cluster: {answer['error']}")
        return answer


def tree(pid: int) -> list[int]:
    """Return a process and all that descend from it, parents first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(facts[1]), []).append(int(entry.name))
    pids = [pid]
    for ancestor in pids:
        pids += parents.get(ancestor, ())
    return pids


class _Nodes:
    """The cluster's own side: Ray's nodes, as Ray's own tests start them."""

    def __init__(self, nodes: int, boards: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES}
        self._cluster, self._boards = Cluster(initialize_head=True, head_node_args=head), boards
        for _ in range(nodes):
            self.add()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self) -> str:
        """Add a node and return its id."""
        node = self._cluster.add_node(num_cpus=1, resources={RESOURCE: self._boards}, object_store_memory=STORE_BYTES)
        return str(node.node_id)

    def send(self, node: str, number: int) -> None:
        """Send a signal to all processes of a node. Raises LookupError."""
        worker = next((worker_node for worker_node in self._cluster.worker_nodes if worker_node.node_id == node), None)
        if worker is None:
            raise LookupError(f"'{node}' is none")
        for info in worker.all_processes.get("raylet", ()):
            for pid in tree(info.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def lose(self, node: str) -> None:
        """Kill all processes of a node at once. Raises LookupError."""
        self.send(node, signal.SIGKILL)
        self._cluster.remove_node(
            next(worker_node for worker_node in self._cluster.worker_nodes if worker_node.node_id == node), False
        )

    def close(self) -> None:
        self._cluster.shutdown()


def main(words: Sequence[str] | None = None) -> None:
    """Start the cluster and take orders until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--boards", type=int, default=1, help="of a node")
    given = parser.parse_args(words)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # where Ray and its processes write, too
    nodes = _Nodes(given.nodes, given.boards)
    print(json.dumps({"address": nodes.address}), file=answers, flush=True)
    for line in sys.stdin:
        what, node = json.loads(line)
        facts: dict[str, Any] = {}
        try:
            if what == "add":
                facts["node"] = nodes.add()
            elif what == "lose":
                nodes.lose(node)
            else:
                nodes.send(node, {"stop": signal.SIGSTOP, "go_on": signal.SIGCONT}[what])
        except Exception as error:  # Ray has many; whoever ordered it hears of it
            facts = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(facts), file=answers, flush=True)
    nodes.close()


if __name__ == "__main__":
    main()
