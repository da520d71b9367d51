"""What a message asks a user to install exists and brings what is missing; pins are free of known faults."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fluidnpu.cli import main
from fluidnpu.commands import doctor
from fluidnpu.errors import EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host", "studies", "fluidnpu")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]
OPTIONAL = {"uvloop"}  # used where it is installed, and never asked for
NAMED = re.compile(r"fluidnpu\\*\[([a-z,]+)\]")
IMPORT = re.compile(r"^\s*(?:import (\w+)|from (\w+)[\w.]* import )", re.M)
ELSEWHERE = {"opentelemetry": "opentelemetry-sdk"}  # modules that the tests' installation lacks, of another name
VULNERABLE = {
    "grpcio": ("1.64.0", "1.64.1", "1.65.1", "1.65.2"),  # CVE-2024-7246
    "protobuf": ("5.29.4", "6.30.2", "6.31.0"),  # CVE-2025-4565
    "starlette": ("0.47.1", "0.49.0"),  # CVE-2025-54121, CVE-2025-62727
}


def asked(requirements: list[str]) -> set[str]:
    """Packages that requirements name, with those of the extras of fluidnpu among them."""
    names: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["name"]:
            names |= asked([need for extra in requirement.extras for need in DECLARED[extra]])
        else:
            names.add(canonicalize_name(requirement.name))
    return names


@cache
def brought(*extras: str) -> frozenset[str]:
    """Packages of the base and of extras, with what those that are installed here depend on."""
    names = asked([*PROJECT["dependencies"], *(need for extra in extras for need in DECLARED[extra])])
    for name in tuple(names):
        with suppress(PackageNotFoundError):  # some are no part of the tests' installation
            names |= {canonicalize_name(Requirement(need).name) for need in requires(name) or () if "extra" not in need}
    return frozenset(names)


installed = cache(packages_distributions)


def distributions(module: str) -> set[str]:
    """Packages that a module may come from."""
    return {canonicalize_name(name) for name in installed().get(module, [ELSEWHERE.get(module, module)])}


@cache
def sources() -> list[str]:
    """The texts of the rooms' Python files."""
    return [path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py")]


def test_every_module_that_a_room_imports_has_its_extra() -> None:
    modules = {plain or whence for code in sources() for plain, whence in IMPORT.findall(code)}
    modules -= {"fluidnpu"} | OPTIONAL | set(sys.stdlib_module_names)
    beyond = {module for module in modules if not distributions(module) & brought()}
    assert len(beyond) > 15
    assert beyond - set(EXTRAS) == set()


def test_the_extra_of_a_module_is_the_first_that_brings_it() -> None:
    for module in EXTRAS.keys() - {"pynq"}:  # which is installed behind its extra, without the pins that it has
        assert distributions(module) & brought(EXTRAS[module]), module
        naming = [extra for extra in DECLARED if distributions(module) & asked(DECLARED[extra])]
        assert naming[:1] in ([], [EXTRAS[module]]), module


def test_every_extra_that_a_message_names_exists() -> None:
    named = {extra for code in sources() for extras in NAMED.findall(code) for extra in extras.split(",")}
    assert len(named) > 5
    assert named <= set(DECLARED)


def test_doctor_names_the_extras_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing, version = {"onnx", "numba", "torch", "pynq", "vivado"}, doctor._version
    monkeypatch.setattr(doctor, "_version", lambda kind, name: None if name in missing else version(kind, name))
    screen = " ".join(CliRunner(env={"COLUMNS": "80"}).invoke(main, ["doctor"]).output.split())
    assert "onnx missing design reading networks" in screen
    assert "vivado missing bitstreams only" in screen
    last = "missing modules come with pip install 'fluidnpu[design,train,board]', then pip install --no-deps pynq"
    assert last in screen
    monkeypatch.setattr(doctor, "_version", lambda kind, name: "1.0")
    assert "missing" not in CliRunner().invoke(main, ["doctor"]).output


# -- pins --


@cache
def pins() -> dict[str, str]:
    """Pinned versions by package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): pin for name, pin in (x.split("==") for x in lines if not x.startswith("#"))}


def test_every_pin_is_what_pyproject_asks_for() -> None:
    needs = [one for words in (PROJECT["dependencies"], *DECLARED.values()) for one in map(Requirement, words)]
    pinned = [(one, pins()[canonicalize_name(one.name)]) for one in needs if canonicalize_name(one.name) in pins()]
    assert len(pinned) > 20
    assert not [(str(one), found) for one, found in pinned if found not in one.specifier]


def test_a_server_is_not_installed_with_known_faults() -> None:
    specifiers = {one.name: one.specifier for one in map(Requirement, DECLARED["serve"])}
    for name, versions in VULNERABLE.items():
        assert not [found for found in versions if found in specifiers[name]]
        assert pins()[name] not in versions


def test_pynq_is_installed_without_its_pins() -> None:
    """Its tests are skipped where it is missing, so that it is here is asked for once."""
    assert find_spec("pynq") is not None, "pip install -c constraints.txt --no-deps pynq"
    needs = {canonicalize_name(Requirement(one).name) for one in requires("pynq") or ()}
    assert needs - {"grpcio", "grpcio-tools"} <= asked(DECLARED["board"])


def test_only_two_packages_miss_what_they_ask_for() -> None:
    """Those that are installed without dependencies: hls4ml for its headers, PYNQ for its pin of gRPC."""
    words = [sys.executable, "-m", "pip", "check", "--disable-pip-version-check"]
    said = subprocess.run(words, capture_output=True, text=True).stdout
    assert {canonicalize_name(line.split()[0]) for line in said.splitlines()} & set(pins()) <= {"pynq"}, said
