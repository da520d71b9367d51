"""Jobs in a Ray cluster give what they give here; where the extra is installed."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from campaigns.cluster import LocalCluster

from fluidnpu.host import DriverUsageError
from fluidnpu.host.fleet import RayEngine
from fluidnpu.scheduler import EngineError, SchedulerError
from fluidnpu.scheduler.comparison import in_order


def test_an_engine_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DriverUsageError, match="the engine 'ray' needs Ray, which is not installed"):
        RayEngine(address="127.0.0.1:6379")


# -- Ray, in a cluster of two nodes ------------------------------------------------------------------------

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'fluidnpu[ray]'"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayEngine]:
    with LocalCluster(nodes=2, boards=1) as nodes:
        yield RayEngine(address=nodes.address)


@pytest.mark.long
@needs_ray
def test_a_cluster_gives_what_this_process_gives(cluster: RayEngine, tmp_path: Path) -> None:
    offset = 7

    def job(seed: int) -> tuple[int, int]:
        if seed == 9:
            raise SchedulerError("seed 9 must not be served")
        return seed * 10 + offset, os.getpid()

    done = in_order(cluster, [partial(job, seed) for seed in range(8)])
    assert [value for value, _ in done] == [10 * seed + offset for seed in range(8)]
    assert os.getpid() not in {pid for _, pid in done}
    with pytest.raises(SchedulerError, match="seed 9 must not be served"):
        in_order(cluster, [partial(job, seed) for seed in (1, 9)])
    with closing(cluster.results([partial(job, seed) for seed in range(8)])) as some:
        next(some)  # and the others are given up
    once = tmp_path / "died"

    def dies_once() -> int:
        if not once.exists():
            once.touch()
            os._exit(3)
        return 5

    assert in_order(cluster, [dies_once]) == [5], "what a dead worker had is done again"


@needs_ray
def test_a_cluster_that_is_none_is_said() -> None:
    with pytest.raises(DriverUsageError, match="must be HOST:PORT, not 'nowhere'"):
        RayEngine(address="nowhere")
    with pytest.raises(EngineError, match=r"a Ray cluster must be reached at 127\.0\.0\.1:1, and it is not"):
        in_order(RayEngine(address="127.0.0.1:1"), [int])
