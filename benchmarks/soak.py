"""A million requests without growth of memory: through the server, and a share of them over the network.

    python benchmarks/soak.py --requests 1000000 --network 20000

The NPU computes nothing, so that what is left is the host. Prints the resident memory as it goes; ends with 1
when the second half grew by more than 4 MiB.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from front_end import SHAPE, demo_bundle
from null_npu import NullNpu

import fluidnpu
from fluidnpu.host import Reply
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.host.serving import ModelOptions, Models
from fluidnpu.scheduler.simulation import Terms

SLACK = 4 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--network", type=int, default=20_000)
    given = parser.parse_args()
    image, sizes = np.zeros(SHAPE[1:], np.uint8), []
    with tempfile.TemporaryDirectory() as scratch:
        options = ModelOptions(opened=lambda bundle: NullNpu(bundle.design), decisions=Path(scratch) / "log")
        models = Models({"demo": demo_bundle(Path(scratch) / "bundle")}, options)
        with in_background(models, ServeOptions(http=0, grpc=None)) as server:
            model, began = models.find("demo").npu, time.monotonic()
            waiting: deque[Future[Reply]] = deque()
            step = max(1, given.requests // 20)
            for number in range(given.requests):
                waiting.append(model.submit(image, Terms(slo_ns=50_000_000, anytime=number % 3 == 0)))
                if len(waiting) >= 256:
                    waiting.popleft().result()
                if number % step == step - 1:
                    sizes.append(resident())
                    took = time.monotonic() - began
                    print(
                        f"{number + 1:>9} requests  {sizes[-1] / 2**20:7.1f} MiB  {(number + 1) / took:6.0f}/s",
                        flush=True,
                    )
            for future in waiting:
                future.result()
            with fluidnpu.connect(server.url()) as npu, ThreadPoolExecutor(8) as pool:
                for _ in range(given.network // 1000):
                    for _ in pool.map(lambda _: npu.infer(image), range(1000)):
                        pass
            sizes.append(resident())
            print(f"and {given.network} over HTTP  {sizes[-1] / 2**20:7.1f} MiB")
    growth = max(sizes[len(sizes) // 2 : -1]) - sizes[len(sizes) // 2 - 1]
    print(f"the second half grew by {growth / 2**20:.2f} MiB")
    return int(growth > SLACK)


if __name__ == "__main__":
    raise SystemExit(main())
