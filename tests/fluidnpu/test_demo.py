"""The main job on fewer images: what it prints, what it leaves, and that it is true."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from narrow_pages import check_narrow

from fluidnpu.cli import main
from fluidnpu.commands.helpers.designs import Search
from fluidnpu.host import Bundle
from fluidnpu.models.images import SHIPPED_CLASSES

IMAGES = 60
SMALL = {  # of what it searches, simulates for its report, and tries for weights
    "fluidnpu.commands.modes.demo_steps.Search": partial(Search, b_max=2, evaluations=1),
    "fluidnpu.commands.modes.demo_steps.LOADS": (0.4, 0.95),
    "fluidnpu.commands.modes.demo_steps.LOAD_REQUESTS": 300,
    "fluidnpu.commands.modes.demo_steps.PAPER_RATES": (5.0, 20.0),
    "fluidnpu.commands.modes.demo_steps.PAPER_REQUESTS": 400,
    "fluidnpu.scheduler.policies.selection.FIRST": (3, 100),
    "fluidnpu.scheduler.policies.selection.SECOND": (3, 100),
    "fluidnpu.scheduler.policies.selection._tried": {},
}


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
    for words in (
        "zc706",
        "zcu104",
        "0 mismatches",
        "serial",
        "greedy",
        "fluid",
        "credit",
        "exactly one answer",
        "report.html",
    ):
        assert words in said
    assert said.count(f"{IMAGES}/{IMAGES}") == 4  # every policy's answers equal the golden run's


def test_its_numbers_are_consistent(ran: Result) -> None:
    found = json.loads(ran.stdout)
    assert found["csim"] == {"layers": 18, "mismatches": 0}
    assert [(one["board"], one["word_bits"]) for one in found["designs_int8"]] == [
        ("zc706", 8),
        ("zcu104", 8),
    ]
    assert 0.8 < found["accuracy"]["int8"] <= 1
    assert [one["board"] for one in found["designs"]] == ["zc706", "zcu104"]
    for one in found["serving"]:
        assert one["requests"] == IMAGES
        assert 0 < one["average_ms"] <= one["p99_ms"]
        assert sum(one["exit_pct"]) == pytest.approx(100, abs=0.01)  # each is rounded
    p99_ms = {one["policy"]: one["p99_ms"] for one in found["serving"]}
    reason = f"its p99 is {p99_ms['credit'] / p99_ms['fluid']:.1f} times fluid's"
    assert reason in " ".join(ran.stderr.split())


def test_it_leaves_a_report_a_trace_and_two_projects(ran: Result, out: Path) -> None:
    report = (out / "report.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 9  # two of speed, plan, two load curves, four timelines
    check_narrow(report)
    by_class = re.findall(r"<tr><td>([^<]*)</td><td><span class=.track.*?</td><td>(\d+)</td><td>(\d+) %</td>", report)
    assert [name for name, *_ in by_class] == list(SHIPPED_CLASSES)
    assert sum(int(images) for _, images, _ in by_class) == IMAGES
    assert re.search(r">sample \d+, (?:Sandal|Shirt|Sneaker|Dress|Coat)<", report), "answers have names"
    assert "http" not in report.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    events = json.loads((out / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {e["pid"] for e in events} == {1, 2, 3, 4}
    assert (out / "zc706" / "hls" / "src" / "fluidnpu_core.cpp").is_file()
    assert (out / "zcu104" / "rtl" / "core_pe.sv").is_file()  # its banks lie in UltraRAM, which the C++ does not use
    for board in ("zc706", "zcu104"):
        assert json.loads((out / board / "manifest.json").read_text())["missing"] == []
        assert Bundle.read(out / board / "bundle").design.board == board


@pytest.mark.parametrize("count", [0, 1001])
def test_it_refuses_more_images_than_there_are(count: int, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "x"), "--requests", str(count)])
    assert result.exit_code == 2
    assert "1..1000" in result.stderr
    assert not (tmp_path / "x").exists()
