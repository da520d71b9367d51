"""C simulation of the generated C++: compiled with g++ and run as a process. Needs no vendor's tool.

The arbitrary-precision headers come from the hls4ml package (Apache-2.0), which is located but never
imported. `hls_stream.h` is our own (`hls/csim/`). A compiled core is cached under the digest of its sources
and tools.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from fluidnpu.dse import Design
from fluidnpu.models.numeric import WORDS, Stored

from ..errors import CsimError
from .dialect import Dialect
from .render import render_core
from .streams import LayerStreams

_log = logging.getLogger(__name__)

MAGIC = 0x0F1D0B00
# Little optimisation, since most cores take longer to compile than to run.
FLAGS = ("-std=c++11", "-O1", "-fno-strict-aliasing", "-w", "-DFLUIDNPU_CSIM")
PIP = "pip install 'fluidnpu[csim]'"


def ap_headers() -> Path:
    """The folder of `ap_int.h` in the installed hls4ml. Raises CsimError, which names the command that
    installs it.
    """
    spec = importlib.util.find_spec("hls4ml")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "templates" / "vivado" / "ap_types"
        if (folder / "ap_int.h").is_file():
            return folder
    raise CsimError(f"C simulation needs the ap_int headers of hls4ml, and they are not installed: {PIP}")


def cache_folder() -> Path:
    """The folder of compiled cores: `csim` in `$FLUIDNPU_BUILD`, or in `build/` of the current folder."""
    return Path(os.environ.get("FLUIDNPU_BUILD", "build")).resolve() / "csim"


def core_binary(
    design: Design,
    cache: Path | None = None,
    compiler: str = "g++",
    *,
    ultra_banks: int = 0,
    dialect: Dialect = Dialect.VIVADO_HLS,
) -> Path:
    """Name the file that `compile_core` with the same arguments makes, whether made or not."""
    return _binary(render_core(design, ultra_banks, dialect), cache, compiler)


def compile_core(
    design: Design,
    cache: Path | None = None,
    compiler: str = "g++",
    *,
    ultra_banks: int = 0,
    dialect: Dialect = Dialect.VIVADO_HLS,
) -> Path:
    """Compile the test bench of a design's core unless the cache has it; CsimError when that fails.

    `ultra_banks` and `dialect`: as for `render_core`. Of two processes with the same core the second waits
    for the first.
    """
    texts = render_core(design, ultra_banks, dialect)
    binary = _binary(texts, cache, compiler)
    if not binary.exists():
        with _locked(binary):
            if not binary.exists():
                with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
                    _compile(texts | _headers(), Path(scratch), compiler, "tb_core.cpp", "tb_core")
                    os.replace(Path(scratch) / "tb_core", binary)  # whole or not at all
    return binary


def _binary(texts: Mapping[str, str], cache: Path | None, compiler: str) -> Path:
    sha = hashlib.sha256(repr((FLAGS, _tools(compiler), list(_headers().values()))).encode())
    for name, text in sorted(texts.items()):
        sha.update(f"{name}\0{text}\0".encode())
    return (cache if cache is not None else cache_folder()) / sha.hexdigest()[:32]


@contextlib.contextmanager
def _locked(binary: Path) -> Iterator[None]:
    binary.parent.mkdir(parents=True, exist_ok=True)
    with binary.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@cache
def _tools(compiler: str) -> tuple[str, str]:
    """What the compiler says of itself, and the version of the package with the ap_int headers."""
    try:
        answer = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        answer = ""  # told in one sentence where it is called
    try:
        return compiler + answer.partition("\n")[0], version("hls4ml")
    except PackageNotFoundError:
        return compiler + answer.partition("\n")[0], ""


def _headers() -> dict[str, str]:
    """Our headers of C simulation: file name -> text."""
    folder = files("fluidnpu.hls").joinpath("csim")
    return {item.name: item.read_text("utf-8") for item in sorted(folder.iterdir(), key=lambda item: item.name)}


def core_texts(design: Design, ultra_banks: int = 0) -> dict[str, str]:
    """The core of a design and the headers of C simulation, without the test bench: file name -> text."""
    texts = render_core(design, ultra_banks)
    del texts["tb_core.cpp"]
    return texts | _headers()


def compile_shared_core(texts: Mapping[str, str], target: Path, compiler: str = "g++") -> None:
    """Compile `core_texts` with a harness `harness.cpp` into a shared library; CsimError when that fails.

    The library can be loaded more than once. Where the test bench would exit, it throws std::runtime_error.
    """
    # It runs for as many cycles as the RTL around it, so it is optimised as far as that.
    more = ("-O2", "-shared", "-fPIC", "-fno-gnu-unique", "-DFLUIDNPU_CSIM_THROWS")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        _compile(texts, Path(scratch), compiler, "harness.cpp", "core.so", *more)
        os.replace(Path(scratch) / "core.so", target)


def _compile(texts: Mapping[str, str], folder: Path, compiler: str, harness: str, target: str, *flags: str) -> None:
    """Compile the core and a harness in one piece, since reading the ap_int headers takes a while."""
    if shutil.which(compiler) is None:
        raise CsimError(f"C simulation needs the C++ compiler '{compiler}', and it is not on the path")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    includes = ["-I", str(folder), "-isystem", str(ap_headers())]  # ours first: both have an hls_stream.h
    (folder / "whole.cpp").write_text(f'#include "fluidnpu_core.cpp"\n#include "{harness}"\n', encoding="utf-8")
    command = [compiler, *FLAGS, *flags, *includes, "whole.cpp", "-o", target]
    _log.info("compiling the core with %s", compiler)
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    _log.info("compiled in %.1f s, exit status %d", time.monotonic() - started, done.returncode)
    if done.returncode:
        raise CsimError(f"the generated C++ must compile, and {compiler} says: {_first_error(done.stderr)}")


def _first_error(text: str) -> str:
    lines = text.splitlines() or ["nothing"]
    return next((line for line in lines if "error" in line), lines[0])


class CoreSimulator:
    """The compiled core of one design as a running process: streams in, output stream out. A context manager.

    `stalls`: percentage of the core's checks of a stream that find it empty or full although it is not, as
    when memory answers late. `calls`: of the core in the last layer; a call is a cycle unless a process
    stalls.
    """

    calls: int = 0

    def __init__(
        self,
        design: Design,
        cache: Path | None = None,
        stalls: int = 0,
        *,
        ultra_banks: int = 0,
        dialect: Dialect = Dialect.VIVADO_HLS,
    ) -> None:
        self.design = design
        self._process = subprocess.Popen(
            [str(compile_core(design, cache, ultra_banks=ultra_banks, dialect=dialect)), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "FLUIDNPU_CSIM_STALLS": str(stalls)},
        )

    def run(self, streams: LayerStreams) -> tuple[Stored, int]:
        """Run one layer: (output beats (beats, out_words), saturations). Raises CsimError when the core reads
        too much or too little, or stops.
        """
        source, sink = self._pipes()
        try:
            source.write(job(streams))
            source.flush()
        except BrokenPipeError:
            raise self._died() from None
        head = sink.read(16)
        if len(head) < 16:
            raise self._died()
        magic, beats, left, saturations = struct.unpack("<4i", head)
        words = sink.read(self.design.word_bytes * self.design.out_words * beats)
        calls = sink.read(8)
        if magic != MAGIC or len(calls) != 8:
            raise self._died()
        self.calls = struct.unpack("<q", calls)[0]
        if left or beats != streams.outputs:
            raise CsimError(
                f"the core left {left} input beats unread and wrote {beats} output beats of {streams.outputs}"
            )
        dtype = WORDS[self.design.word_bits].dtype
        return np.frombuffer(words, dtype).reshape(beats, self.design.out_words), saturations

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _died(self) -> CsimError:
        self._process.kill()
        message = self._process.stderr.read().decode(errors="replace").strip() if self._process.stderr else ""
        return CsimError(f"the simulated core stopped in the middle of a layer: {message or 'no reason given'}")

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> CoreSimulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def job(streams: LayerStreams) -> bytes:
    """Encode one layer as the test bench reads it."""
    parts = (streams.command_words(), streams.input, streams.weight, streams.residual)
    head = struct.pack("<6i", MAGIC, *(len(part) for part in parts), streams.outputs)
    return head + b"".join(part.tobytes() for part in parts)


def expectation(output: Stored, saturations: int) -> bytes:
    """Encode the answer that the test bench must give to one job; `output` is (beats, out_words)."""
    return struct.pack("<4i", MAGIC, len(output), 0, saturations) + output.tobytes()
