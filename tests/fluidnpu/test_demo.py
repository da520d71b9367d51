"""The main job on fewer images: what it prints, what it leaves, and that it is true."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from narrow_pages import check_narrow

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.commands.helpers.designs import Search
from fluidnpu.commands.modes import demo_steps
from fluidnpu.dse import LatencyTable, explore
from fluidnpu.host import Bundle
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.reports import demo_findings
from fluidnpu.reports.demo_pictures import Life, StageBox, data_url, ribbons, timeline
from fluidnpu.scheduler import Serving, make_policy
from fluidnpu.scheduler.comparison import Carried, OfferedLoad, carried_load

IMAGES = 60
OPERATE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"
SMALL = {  # of what it searches and simulates, and tries for weights
    "fluidnpu.commands.modes.demo_steps.Search": partial(Search, b_max=2),
    "fluidnpu.commands.modes.demo_steps.EVALUATIONS": 1,
    "fluidnpu.commands.modes.demo_steps.SEEDS": 2,
    "fluidnpu.commands.modes.demo_steps.REQUESTS": 300,
    "fluidnpu.scheduler.policies.selection.FIRST": (3, 100),
    "fluidnpu.scheduler.policies.selection.SECOND": (3, 100),
    "fluidnpu.scheduler.policies.selection._tried": {},
}


def row(policy: str, *rates: float, exits: bool = True) -> Carried:
    return Carried(policy=policy, exits=exits, rates_per_s=rates)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module", params=["small", pytest.param("whole", marks=pytest.mark.long)])
def ran(request: pytest.FixtureRequest, out: Path) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items() if request.param == "small" else ():
            patch.setattr(name, value)
        result = CliRunner().invoke(main, ["demo", "--out", str(out), "--requests", str(IMAGES), "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.mark.cpu(10, "the demo runs once for all tests of it")
def test_it_says_what_was_promised(ran: Result) -> None:
    said = " ".join(ran.stderr.split())  # lines break where the screen ends
    for words in ("zc706", "zcu104", "0 mismatches", "serial", "greedy", "fluid", "credit", "report.html"):
        assert words in said
    assert f"{IMAGES}/{IMAGES} answers equal the golden model's" in said
    lines = [line for line in ran.stderr.splitlines() if "." * 20 in line]
    assert len(lines) == 6  # steps, each with its dots and its seconds
    assert all(re.search(r"\.{20} +\d+ s$", line) for line in lines)
    assert max(map(len, ran.stderr.splitlines()[:8])) <= 80


def test_its_numbers_are_consistent(ran: Result) -> None:
    found = json.loads(ran.stdout)
    assert found["csim"] == {"layers": 18, "mismatches": 0}
    assert 0.8 < found["accuracy"]["int16"] <= 1
    assert [one["board"] for one in found["designs"]] == ["zc706", "zcu104"]
    assert sorted((one["exits"], one["policy"]) for one in found["carried"]) == [
        (False, "fluid"),
        (False, "serial"),
        (True, "credit"),
        (True, "fluid"),
        (True, "greedy"),
        (True, "serial"),
    ]
    carried = {(one["exits"], one["policy"]): one["rate_per_s"] for one in found["carried"]}
    assert all(rate["low"] <= rate["mean"] <= rate["high"] for rate in carried.values())
    assert carried[True, "fluid"]["mean"] == found["rate_per_s"]  # at which the images were served
    assert [one["policy"] for one in found["serving"]] == ["serial", "greedy", "fluid", "credit"]
    for one in found["serving"]:
        assert one["requests"] == IMAGES
        assert 0 < one["average_ms"] <= one["p99_ms"]
        assert sum(one["exit_pct"]) == pytest.approx(100, abs=0.01)  # each is rounded


def test_it_leaves_a_report_a_trace_and_two_projects(ran: Result, out: Path) -> None:
    report = (out / "report.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 5  # the network, the timeline twice, two devices
    check_narrow(report)
    assert report.count("<figure") == report.count("data:image/png") - report.count("<image")
    assert "<script" not in report
    assert "http" not in report.replace("http 8000", "")
    events = json.loads((out / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {e["pid"] for e in events} == {1, 2, 3, 4}
    assert (out / "zc706" / "hls" / "src" / "fluidnpu_core.cpp").is_file()
    assert (out / "zcu104" / "rtl" / "core_pe.sv").is_file()  # its banks lie in UltraRAM, which the C++ does not use
    for board in ("zc706", "zcu104"):
        assert json.loads((out / board / "manifest.json").read_text())["missing"] == []
        assert Bundle.read(out / board / "bundle").design.board == board


@pytest.mark.cpu(10, "pip installs the wheel of the bundle twice")
def test_its_bundle_installs_as_the_page_on_operation_says(ran: Result, out: Path, tmp_path: Path) -> None:
    """The blocks of operate.md without root and systemd, into folders of a test."""
    first, second = re.findall(r"<!-- not run[^>]*-->\n```console\n(.*?)```", OPERATE.read_text(), re.DOTALL)[:2]
    lines = [line.removeprefix("$ ") for line in (first + second).splitlines()]
    script = "\n".join(["set -eu", *lines])
    for said, here in (
        ("sudo systemctl enable --now fluidnpu", "true"),
        ("sudo ", ""),
        ("/opt/fluidnpu/bin/pip", f"{sys.executable} -m pip"),
        ("/srv/", f"{tmp_path}/srv/"),
        ("/etc/", f"{tmp_path}/etc/"),
    ):
        assert said in script
        script = script.replace(said, here)
    (tmp_path / "etc" / "systemd" / "system").mkdir(parents=True)
    bundle = tmp_path / "bundle"
    (tmp_path / "copy").symlink_to(out / "zc706" / "bundle")
    subprocess.run(["cp", "-r", f"{tmp_path}/copy/.", bundle], check=True)
    installer = bundle / "install.sh"
    pynq = tmp_path / "pynq.sh"  # as on a board's image, whose environment the installer takes
    pynq.write_text(f'export PATH="{tmp_path}/bin:$PATH"\n')
    installer.write_text(installer.read_text().replace("/etc/profile.d/pynq_venv.sh", str(pynq)))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin" / "python3").chmod(0o755)
    serve = bundle / "kit" / "serve.toml"
    serve.write_text(serve.read_text().replace("/srv/", f"{tmp_path}/srv/"))
    site = tmp_path / "site"
    only_here = {"PIP_TARGET": str(site), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PYTHONPATH": str(site)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, **only_here, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site / "fluidnpu" / "host" / "driver.py").is_file()
    assert (tmp_path / "etc" / "systemd" / "system" / "fluidnpu.service").is_file()
    assert Bundle.read(tmp_path / "srv" / "fluidnpu" / "bundle").design.board == "zc706"


@pytest.mark.long
def test_its_short_search_finds_what_the_whole_one_finds() -> None:
    with shipped_file(demo_steps.MODEL) as path:
        work = read_onnx(path).workload
    for name, core in demo_steps.CORES.items():
        short, whole = (
            explore(work, load_board(name), model="exact", core=core, evaluations=count)
            for count in (demo_steps.EVALUATIONS, None)
        )
        assert short.design == whole.design


def test_what_a_policy_carries_is_in_time_and_a_little_more_is_not() -> None:
    serving = Serving(latency=LatencyTable(ns=((10**6, 10**6), (10**6, 2 * 10**6))), exit_rates=(0.5, 0.5))
    load = OfferedLoad.drawn(np.array([0, 1]), 10**7, 1, (2, 2_000))
    for name in ("serial", "fluid"):
        policy = make_policy(name, serving.setting(1.0, load.slo_ns))
        found = carried_load(serving, policy, load, steps=12)
        for seed, per_s in enumerate(found.rates_per_s):
            assert load.late(serving, policy, 0.9 * per_s, seed) <= 0.01
            assert load.late(serving, policy, 1.1 * per_s, seed) > 0.01
    assert found.interval.mean < 1 / serving.least_load(1.0)


def test_policies_tie_by_their_differences_on_the_same_arrivals() -> None:
    assert row("a", 100, 200).ties(row("b", 101, 199))
    assert not row("a", 100, 200, 300).ties(row("b", 90, 190, 290))  # apart for each seed, though intervals overlap


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (lambda: demo_findings.headline("B", row("f", 300), row("f", 100)), "300 images a second in time, 3.0 times"),
        (lambda: demo_findings.headline("B", row("f", 102), row("f", 100)), "100 images a second in time, as many as"),
        (lambda: demo_findings.headline("B", row("f", 50), row("f", 100)), "only 0.50 times as many as"),
        (lambda: demo_findings.exits_finding("e", 0.5, 0.25), "50 of 100 images leave at e, after 25 %"),
        (lambda: demo_findings.price_finding(0.94, 0.93), "costs 1.0 points of accuracy"),
        (lambda: demo_findings.price_finding(0.93, 0.93), "costs no accuracy"),
        (lambda: demo_findings.price_finding(0.92, 0.93), "gains 1.0 points of accuracy"),
        (lambda: demo_findings.merge_finding(True), "goes on together"),
        (lambda: demo_findings.merge_finding(False), "no batch was halted"),
    ],
)
def test_a_finding_is_what_the_numbers_say(finding: Callable[[], str], said: str) -> None:
    assert said in finding()


def test_the_finding_on_policies_tells_ties_as_ties() -> None:
    serial, fluid, credit = row("serial", 50, 51, 52), row("fluid", 100, 101, 102), row("credit", 110, 111, 112)
    both = row("greedy", 100, 101, 102)
    finding = demo_findings.loads_finding
    assert finding([serial, fluid], fluid) == "fluid carries most, 100 requests a second"
    assert finding([serial, fluid, both], fluid) == "fluid and greedy tie and carry most, 100 requests a second"
    assert finding([fluid, credit], fluid).endswith(
        "credit carries most, 110 requests a second; fluid, the default, 9.0 % fewer"
    )
    assert finding([fluid, both], fluid) == "All policies carry the same load within the intervals"


def test_pictures_have_what_they_are_given() -> None:
    stages = [
        StageBox(name="early", macs=[10, 20], ms=1.0, reach=1.0, leave=0.75),
        StageBox(name="last", macs=[5], ms=2.0, reach=0.25, leave=0.25),
    ]
    drawn = ribbons(stages, 80)
    assert 'aria-label="80 images enter; 60 leave at early, 20 leave at last"' in drawn
    assert "20 go on" in drawn
    assert drawn.count('class="s1"') == 3  # two layers and the way out
    life = Life(name="Bag 1", url="data:x", arrival_ns=0, runs=((10, 20, 0, 2), (30, 40, 1, 1)), other_ns=35)
    for width in (1080, 360):
        text = timeline([life], ("early", "last"), width)
        assert f'viewBox="0 0 {width} ' in text
        assert text.count('class="s1"') == text.count('class="s2"') == 1
        assert "Bag 1" in text
    assert data_url(np.zeros((2, 3, 1), np.uint8)).startswith("data:image/png;base64,iVBORw0KGgo")


@pytest.mark.parametrize("count", [0, 1001])
def test_it_refuses_more_images_than_there_are(count: int, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "x"), "--requests", str(count)])
    assert result.exit_code == 2
    assert "1..1000" in result.stderr
    assert not (tmp_path / "x").exists()
