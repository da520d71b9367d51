"""`--json`: each command's objects have the fields of docs/reference/json.md, all of them and no others."""

import json
import math
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import json_page
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_check_all import between
from test_import_reports import TIMING, UTILISATION
from test_place import FLEET
from test_simulate import ROW

from fluidnpu.cli import COMMANDS, main
from fluidnpu.models import golden, quantise, shipped_file, shipped_images
from fluidnpu.models.exits import attach_bridges, candidate_tensors, single_exit
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import Architecture, skeleton, with_random_weights
from fluidnpu.quantities import OTHERS, QUANTITIES, round_floats, significant
from fluidnpu.scheduler.placement.testing import toy_fleet

PAGE, ROWS = json_page.read_page(), json_page.read_rows()
SMALL = Architecture(name="small", blocks=2, widths=(4, 8), heads=((), ()), stem_stride=4)
BOARD = Path(str(files("fluidnpu.boards"))) / "zc706.toml"
FEW = ("--requests", 200, "--seeds", 2)
HERE = ("--rate", 15, "--slo", "200ms", *FEW)
PAPER = ("--board", "zcu104", "--b-max", 2, "--cycles", "paper")
FIT = ("--fit", "images.npz")
SELECT = ("--select", "unseen.npz", "--board", "zc706", "--cycles", "paper", "--eta", 0.9)
TENANTS = """
[tenant.a]
share = 0.5
rate = 6
slo = "300ms"
criteria = "slack < 50ms"
[tenant.b]
share = 0.25
rate = 9
slo = "300ms"
"""
BATTERY = 'interval = "200ms"\n[energy]\nover_idle = 1.2\nbattery = "100mJ"\n'


def run(*words: object) -> list[dict[str, Any]]:
    """Run a command; return the objects that it printed."""
    done = CliRunner().invoke(main, [*map(str, words), "--json"])
    assert done.exit_code in (0, 1), done.output
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert objects, done.output
    return objects


@pytest.fixture(scope="module")
def here(few_trials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the jobs read, in which they run."""
    folder, before = tmp_path_factory.mktemp("jobs"), Path.cwd()
    os.chdir(folder)
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        Path("model.onnx").write_bytes(path.read_bytes())
    images = shipped_images(120)
    np.savez("images.npz", images=images.images, labels=images.labels)
    network = with_random_weights(single_exit(skeleton(SMALL)), 3, 2)
    write_onnx(network, Path("single.onnx"))
    write_onnx(attach_bridges(network, candidate_tensors(network, 1)), Path("more.onnx"))
    unseen = shipped_images(900).images
    np.savez("unseen.npz", images=unseen, labels=golden.run(quantise(network), unseen)[-1].argmax(-1))
    between(Path("norm.onnx"), "LpNormalization")
    between(Path("silu.onnx"), "SiLU")
    Path("table.json").write_text(json.dumps({key: ROW[key] for key in ("latency_ns", "exit_rates")}))
    Path("tenants.toml").write_text(TENANTS)
    Path("battery.toml").write_text(BATTERY + TENANTS)
    Path("toy.json").write_text(toy_fleet(1).types["board"].profiles["toy"].dumps())
    Path("fleet.toml").write_text(FLEET)
    text = FLEET.replace('profile = "toy.json"', 'bundle = "p/bundle"').replace("[0.4, 0.6]", "[0.5, 0.3, 0.2]")
    text = text.replace("[networks.toy]", "[networks.other]\nexit_rates = [0.5, 0.3, 0.2]\n[networks.toy]")
    Path("two.toml").write_text(text.replace("[[dev", 'networks.other.bundle = "p/bundle"\n[[dev'))
    Path("node.toml").write_text('[stream]\nbundle = "p"\nrate = 3000\nslo = "2ms"\n')
    for words in (
        ("dse", "model.onnx", *PAPER, "--out", "design.json"),
        ("build", "model.onnx", *PAPER, "--data", "images.npz", "--out", "p"),
        ("simulate", "table.json", "--policy", "fluid", "--log", "log.jsonl", *HERE),
    ):
        assert CliRunner().invoke(main, list(map(str, words))).exit_code == 0
    Path("p/build").mkdir()
    Path("p/build/utilization.rpt").write_text(UTILISATION)
    Path("p/build/timing.rpt").write_text(TIMING)
    run("import-reports", "p", "--missed-timing")
    try:
        yield folder
    finally:
        os.chdir(before)


JOBS: dict[str, tuple[tuple[object, ...], ...]] = {
    "check": (("check", "model.onnx"), ("check", "silu.onnx", "--input", "8x8")),
    "check --all": (("check", "norm.onnx", "--input", "8x8", "--all"),),
    "check board.toml": (("check", BOARD),),
    "dse": (
        ("dse", "model.onnx", *PAPER),
        ("dse", "model.onnx", "--board", "zcu104", "--b-max", 1, "--evaluations", 1),
        ("dse", "model.onnx=0.5", "more.onnx=0.5", *PAPER),
        ("dse", "model.onnx", *PAPER, "--calibration", "p/calibration.json"),
    ),
    "dse --each": (("dse", "model.onnx", *PAPER, "--each", "each"),),
    "build": (("build", "model.onnx", *PAPER, "--data", "images.npz", "--out", "again"),),
    "stream": (("stream", "p", "--rate", 3000, "--slo", "2ms", "--requests", 20, "--data", "images.npz"),),
    "simulate": (("simulate", "table.json", *HERE), ("simulate", "design.json", "--rate", 3000, "--slo", "5ms", *FEW)),
    "simulate --replay": (("simulate", "--replay", "log.jsonl"),),
    "simulate --tenants": (("simulate", "table.json", "--tenants", "tenants.toml", *FEW),),
    "simulate --budgets": (
        ("simulate", "table.json", "--tenants", "battery.toml", "--budgets", "1.1,1.3", "--power", "5,10", *FEW),
    ),
    "place": (("place", "fleet.toml"), ("place", "two.toml", "--measure", 2, "--samples", 2)),
    "measure": (("measure", "p", "--seconds", 0.001),),
    "measure --layers": (("measure", "p", "--layers"),),
    "import-reports": (("import-reports", "p", "--missed-timing"),),
    "prepare": (("prepare", "model.onnx", "--calibrate", "images.npz", "--mean", 0.5),),
    "exits": (
        ("exits", "more.onnx", *SELECT),
        ("exits", "more.onnx", *SELECT, "--arrivals", 500),
        ("exits", "model.onnx", "--exits", "at=stem_out", *FIT),
    ),
    "train": (
        ("train", "--from", "more.onnx", "--data", "images.npz", "--epochs", 1, "--batch", 50, "--out", "new.onnx"),
    ),
    "tune": (("tune", "design.json", "--rate", 3000, "--slo", "5ms", "--out", "weights.json"),),
    "run": (("run", "model.onnx", *PAPER, "--no-verify", "--out", "ran"),),
    "verify": (("verify", "more.onnx", "--board", "zcu104", "--b-max", 1),),
    "doctor": (("doctor",),),
    "config": (("config", "check", "node.toml"), ("config", "kit", "kit")),
}
LONG = ("train", "tune", "run", "verify")  # their other tests hold that they print nothing that has no row
# Beginnings of rows for which a job would have to run for minutes, to break something, or to have a board.
ELSEWHERE = {
    "check": ("filters", "quantised", "inputs", "tail.", "unit.tables", "preprocessing"),
    "dse --each": ("designs[].why",),
    "build": ("missing", "int8"),
    "stream": ("power_", "energy_", "classes"),
    "simulate": ("true_rate_per_s", "criteria", "warnings", "policies.POLICY.note", "policies.POLICY.accuracy"),
    "simulate --replay": ("asked",),
    "run": ("precision", "verified", "step", "error", "answer"),
    "simulate --tenants": ("power_over", "warnings", "tenants.TENANT.accuracy", "tenants.TENANT.target"),
    "place": ("parts",),
    "prepare": ("int8",),
    "exits": ("int8", "selection.needed", "selection.allowed"),
    "train": ("int8", "exits[].int8", "given_up.WHAT"),
    "doctor": ("extensions",),
    "chain": ("exits[]",),
}


@pytest.fixture(scope="module")
def objects(here: Path) -> Callable[[str], list[dict[str, Any]]]:
    """The objects that the jobs of a section print; each job runs once."""
    return lru_cache(maxsize=None)(lambda section: [report for words in JOBS[section] for report in run(*words)])


@pytest.mark.parametrize(
    "section", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in JOBS]
)
def test_every_field_has_its_row_and_every_row_comes(section: str, objects: Callable[[str], list[Any]]) -> None:
    for report in objects(section):
        assert json_page.unknown(report, {**PAGE[section], **PAGE["refusals"]}) == []
    own = [field for field, unit in ROWS[section].items() if json_page.inside(unit) is None]
    lacks = [field for field in json_page.lacking(objects(section), own) if not is_elsewhere(section, field)]
    assert not lacks, f"no job gives {', '.join(lacks)}"


def test_every_row_of_an_object_inside_comes_somewhere(objects: Callable[[str], list[Any]]) -> None:
    lacks: dict[str, set[str]] = {}
    for section in [name for name in JOBS if name not in LONG]:
        for field, unit in ROWS[section].items():
            name = json_page.inside(unit)
            if name is None or name.split()[0] in COMMANDS:
                continue
            prefix = "" if field == "*" else f"{field}."
            missing = json_page.lacking(objects(section), [prefix + inner for inner in PAGE[name]])
            fields = {one.removeprefix(prefix) for one in missing}
            lacks[name] = lacks.get(name, fields) & fields
    lacks = {name: {one for one in fields if not is_elsewhere(name, one)} for name, fields in lacks.items()}
    assert not any(lacks.values()), lacks


def is_elsewhere(section: str, field: str) -> bool:
    return field.startswith(ELSEWHERE.get(section, ()))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_json_has_a_section(name: str) -> None:
    command = import_module(f"fluidnpu.commands.{COMMANDS[name]}").command
    every = getattr(command, "commands", {"": command}).values()
    with_json = any("--json" in option.opts for each in every for option in each.params)
    assert with_json == (name in PAGE), "docs/reference/json.md must have a section of each command with --json"


def test_a_unit_that_is_a_quantity_is_that_of_the_field() -> None:
    """A row's word and the table of quantities say the same of a field."""
    for section, rows in PAGE.items():
        for field, unit in rows.items():
            name = field.replace("[]", "").split(".")[-1]
            if unit in QUANTITIES | OTHERS:
                fits = any(fnmatchcase(name, one) for one in (QUANTITIES | OTHERS)[unit].fields)
                assert fits or name.isupper(), f"{section}: {field} is no {unit}"
    used = {unit for rows in PAGE.values() for unit in rows.values()}
    unused = set(QUANTITIES) - used - {"time share"}  # which stands in the file of a plan
    assert not unused, f"no field has {', '.join(sorted(unused))}"


def quantity_rows() -> Iterator[list[str]]:
    """The rows of docs/reference/quantities.md, as code and the page of fields give them."""
    for word, one in (QUANTITIES | OTHERS).items():
        having = {
            name.split()[0]
            for name, rows in PAGE.items()
            for unit in rows.values()
            if unit == word and name.split()[0] in COMMANDS
        }
        fields = ", ".join(f"`{field}`" for field in one.fields)
        yield [f"**{word}**", one.unit, str(one.digits), fields, one.meaning, one.formula, ", ".join(sorted(having))]


def test_the_page_of_quantities_is_the_table_of_the_code() -> None:
    lines = (json_page.PAGE.parent / "quantities.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| **")]
    assert rows == list(quantity_rows())


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
FIELD = st.sampled_from(["frames_per_second", "busy_pct", "threshold", "mean", "x"])
JSON = st.dictionaries(FIELD, LEAF | st.lists(LEAF, max_size=3) | st.dictionaries(FIELD, LEAF, max_size=3), max_size=4)


@given(JSON)
def test_rounding_keeps_all_but_the_last_digits(value: Any) -> None:
    once = round_floats(value)
    assert round_floats(once) == once
    for (path, _), (same, _) in zip(json_page.paths(value), json_page.paths(once), strict=True):
        assert path == same
    json.dumps(once, allow_nan=False)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 9))
def test_a_number_moves_by_half_a_digit_at_most(value: float, digits: int) -> None:
    near = significant(value, digits)
    assert near is not None
    if value and math.isfinite(near):
        assert (
            abs(near - value) <= 0.500001 * 10 ** (math.floor(math.log10(abs(value))) - digits + 1)
            or abs(value) < 1e-300
        )


def test_the_content_of_a_file_is_not_rounded() -> None:
    plan = {"schema": 1, "digest": "0", "rate_per_s": 1 / 3}
    assert round_floats({"plan": plan, "value": 1 / 3}) == {"plan": plan, "value": 0.333333}
