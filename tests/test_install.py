"""Extras, messages and the page on installing say the same: which packages, which commands, what size."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from click.testing import CliRunner
from docs_pages import DOCS, PAGES, commands, read_page
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
FOR_THE_PROJECT = {"dev", "docs", "notebooks", "route"}  # no user asks for them
OPTIONAL = {"uvloop"}  # used where it is installed, and never asked for
PAGE = DOCS / "how-to" / "install.md"
JOBS = sorted(path for part in ("tutorial", "how-to") for path in (DOCS / part).glob("*.md") if path.stem != "index")
NAMED = re.compile(r"fluidnpu\\*\[([a-z,]+)\]")
IMPORT = re.compile(r"^\s*(?:import (\w+)|from (\w+)[\w.]* import )", re.M)
# Modules whose distribution has another name, and is not installed for the tests.
ELSEWHERE = {"opentelemetry": "opentelemetry-sdk"}
PACKAGES = {"Numba": "numba", "SciPy": "scipy", "PyTorch": "torch", "Pillow": "pillow", "Ray": "ray"}  # in sentences


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


def imported(code: str) -> set[str]:
    """Top-level modules that Python code imports and that are neither its own nor Python's."""
    modules = {plain or whence for plain, whence in IMPORT.findall(code)}
    return modules - {"fluidnpu"} - sys.stdlib_module_names


@cache
def sources() -> dict[str, str]:
    """Python files of the rooms by path."""
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


# -- messages --


def test_every_module_that_a_room_imports_has_its_extra() -> None:
    modules = {module for code in sources().values() for module in imported(code)} - OPTIONAL
    beyond = {module for module in modules if not distributions(module) & brought()}
    assert len(beyond) > 15
    assert beyond - set(EXTRAS) == set()


def test_the_extra_of_a_module_is_the_first_that_brings_it() -> None:
    for module in EXTRAS.keys() - {"pynq"}:  # which is installed behind its extra, without the pins that it has
        assert distributions(module) & brought(EXTRAS[module]), module
        naming = [extra for extra in DECLARED if distributions(module) & asked(DECLARED[extra])]
        assert naming[:1] in ([], [EXTRAS[module]]), module


def test_every_extra_that_a_text_names_exists_and_brings_what_the_text_says() -> None:
    texts = sources() | {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    wrong, seen = [], 0
    for where, text in texts.items():
        for match in NAMED.finditer(text):
            extras = set(match[1].split(","))
            seen += 1
            wrong += [f"{where}: no extra '{extra}'" for extra in extras - set(DECLARED)]
            before = text[max(0, match.start() - 150) : match.start()]
            absent = re.search(r"(\w+), which is not installed[^.]*$", before)
            if absent and extras <= set(DECLARED) and PACKAGES.get(absent[1], absent[1]) not in brought(*extras):
                wrong.append(f"{where}: {match[0]} does not bring {absent[1]}")
    assert seen > 30
    assert not wrong


def test_no_extra_is_taken_for_markup() -> None:
    """Rich reads `[design]` as a style that it does not know, and prints nothing of it."""
    styled = re.compile(r"fluidnpu\[[^\n]*\[/|\[dim\][^\n]*fluidnpu\[")
    assert styled.search("[dim]pip install 'fluidnpu[x]'")
    assert [where for where, code in sources().items() if styled.search(code)] == []


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


# -- the page --


@cache
def table() -> dict[str, list[str]]:
    """Rows of the page's table by extra: packages, size, needed by."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return {extra: cells for extra, *cells in rows}


def test_the_page_has_every_extra_with_its_packages() -> None:
    rows = table()
    assert list(rows) == [extra for extra in DECLARED if extra not in FOR_THE_PROJECT]
    for extra, (packages, _, needed_by) in rows.items():
        names = set()
        for requirement in map(Requirement, DECLARED[extra]):
            inner = {f"`{name}`" for name in requirement.extras}
            names |= inner or {canonicalize_name(requirement.name)}
        assert set(packages.split(", ")) == names
        assert needed_by
    (others,) = re.findall(r"^The extras (.+) are for work on fluidnpu", PAGE.read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"`(\w+)`", others)) == FOR_THE_PROJECT


def test_the_sizes_of_the_page_are_those_that_were_measured() -> None:
    """After a change of an extra: python benchmarks/extras.py WHEEL EXTRA."""
    results = json.loads((ROOT / "benchmarks" / "extras.json").read_text())
    assert {extra: round(sizes["mb"]) for extra, sizes in results["extras"].items()} == {
        extra: int(size) for extra, (_, size, _) in table().items()
    }
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"the base's own {results['base']['mb']:.0f} MB" in text
    assert f"on {results['where']}, by" in text


def needed(line: str) -> set[str]:
    """Extras that a command line needs, as the page says: `exits --fit` is `exits` with that option."""
    words = set(line.split())
    return {
        extra
        for extra, (_, _, needed_by) in table().items()
        for phrase in re.findall(r"`([a-z][^`]*)`", needed_by)
        if set(phrase.split()) <= words
    }


def test_what_a_command_needs_is_read_from_the_page() -> None:
    assert needed("fluidnpu verify model.onnx --board zc706") == {"design", "csim"}
    assert needed("fluidnpu exits model.onnx --fit data") == {"design", "fit"}
    assert needed("fluidnpu exits model.onnx") == {"design"}
    assert needed("fluidnpu stream project") == set()


def extras_of(page: Path) -> set[str]:
    """Extras that a page asks for, in all its lines."""
    return {extra for named in NAMED.findall(page.read_text(encoding="utf-8")) for extra in named.split(",")}


def within(extras: set[str]) -> set[str]:
    """The extras with those that are parts of them."""
    return extras.union(*(need.extras for extra in extras for need in map(Requirement, DECLARED[extra])))


@pytest.mark.parametrize("page", [page for page in JOBS if page != PAGE], ids=lambda page: page.stem)
def test_a_page_names_the_extras_that_it_needs(page: Path) -> None:
    extras = within(extras_of(page))
    blocks = [block for block in read_page(page).blocks if block.kind != "exempt"]
    modules = {module for block in blocks if block.language == "python" for module in imported(block.text)}
    foreign = modules - {Path(block.file).stem for block in blocks if block.file}
    assert {module for module in foreign & set(EXTRAS) if not distributions(module) & brought(*extras)} == set()
    lines = [line for block in blocks if block.language == "console" for line, _ in commands(block.text)]
    wanting = {line: needed(line) - extras for line in lines if line.startswith("fluidnpu ")}
    assert {line: missing for line, missing in wanting.items() if missing} == {}
