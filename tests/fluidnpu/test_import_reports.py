"""`fluidnpu import-reports` and `dse --calibration`, on hand-made reports beside a project of ours."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main
from fluidnpu.models import shipped_file

UTILISATION = """| Device : xczu7ev-ffvc1156-2-e
| Instance | Module | Total LUTs | Logic LUTs | LUTRAMs | SRLs | FFs | RAMB36 | RAMB18 | URAM | DSP Blocks |
| system_wrapper | (top) | 100000 | 90000 | 9000 | 1000 | 150000 | 100 | 10 | 40 | 1700 |
"""
TIMING = """| Device : xczu7ev-ffvc1156
    WNS(ns)      TNS(ns)
    -------      -------
     -0.500       -9.000

Clock      Waveform(ns)       Period(ns)      Frequency(MHz)
clk_pl_0   {0.000 2.500}      5.000           200.000
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def project(few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "project"
    words = ("--board", "zcu104", "--b-max", 2, "--model", "paper", "--data", few_images, "--out", folder)
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        assert run("build", model, *words).exit_code == 0
    return folder


def test_reports_become_a_record_that_dse_applies(project: Path) -> None:
    result = run("import-reports", project)
    assert (result.exit_code, "holds none" in result.stderr) == (2, True)
    (project / "build").mkdir()
    (project / "build" / "utilization.rpt").write_text(UTILISATION)
    (project / "build" / "timing.rpt").write_text(TIMING)
    result = run("import-reports", project)
    assert result.exit_code == 2
    assert "met 181.8, with a worst setup slack of -0.500 ns: --missed-timing imports it" in result.stderr
    assert not (project / "calibration.json").exists()
    result = run("import-reports", project, "--missed-timing")
    assert result.exit_code == 0, result.output
    assert "100000" in result.stdout
    assert "met 181.8" in result.stdout
    record = json.loads(run("import-reports", project, "--missed-timing", "--json").stdout)
    assert record == json.loads((project / "calibration.json").read_text())
    rows = {row["quantity"]: row for row in record["measures"]}
    built = json.loads((project / "bundle" / "design.json").read_text())
    assert rows["clock_mhz"]["ratio"] == pytest.approx(1e9 / 5.5 / built["clock_hz"])

    plain = ("--board", "zcu104", "--b-max", 2, "--cycles", "paper")
    words = (*plain, "--calibration", project / "calibration.json")
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        before = json.loads(run("dse", model, *plain, "--json").stdout)
        found = json.loads(run("dse", model, *words, "--json", "--out", project / "slower.json").stdout)
        shown = run("dse", model, *words).stdout
        other = run("dse", model, "--board", "zc706", "--calibration", project / "calibration.json")
    assert found["calibrated"]["resources"]["lut"]["used"] == pytest.approx(100000)  # the design that was built
    for mine, faster in zip(found["gops_by_batch"], before["gops_by_batch"], strict=True):
        assert mine == pytest.approx(faster * rows["clock_mhz"]["ratio"])
    assert "calibrated by one built design: 100000 LUT" in shown
    assert "181.818 MHz (met by a built design; the board file's clock is 200 MHz)" in " ".join(shown.split())
    assert "the search counts at 181.8 MHz, not at the board file's 200: the built design asked" in found["notes"][0]
    slower = json.loads((project / "slower.json").read_text())
    assert slower["clock_hz"] == 181_818_181
    assert [slower[name] for name in ("t_r", "t_p", "t_c")] == [built[name] for name in ("t_r", "t_p", "t_c")]
    assert other.exit_code == 2
    assert "zc706" in other.stderr


def test_a_record_takes_room_from_the_search(project: Path, tmp_path: Path) -> None:
    """A build that took three times the RAM predicted: the next design fits with its predictions tripled, or
    none does.
    """
    (project / "build").mkdir(exist_ok=True)
    (project / "build" / "utilization.rpt").write_text(UTILISATION)
    record = json.loads(run("import-reports", project, "--missed-timing", "--json").stdout)
    calibration = tmp_path / "calibration.json"
    words = ("--board", "zcu104", "--b-max", 2, "--cycles", "paper", "--calibration", calibration)

    def search(ratio: float, *more: object) -> Result:
        rows = [
            row | {"predicted": row["reported"] / ratio} for row in record["measures"] if row["quantity"] == "ramb18"
        ]
        calibration.write_text(json.dumps(record | {"measures": rows}))
        with shipped_file("resnet8_fashion_mnist.onnx") as model:
            return run("dse", model, *words, *more)

    free, tight = (json.loads(search(ratio, "--json").stdout) for ratio in (0.5, 3))
    assert free["digest"] == record["design"]
    used, before = (one["resources"]["ramb18"] for one in (tight, free))
    assert (before["available"], used["available"]) == (624, 208)
    assert used["used"] <= 208 < before["used"]
    assert "the search has 104 of 312 RAMB36, since the built design took 3.000 times" in tight["notes"][0]
    assert "104 of 312 RAMB36" in search(3).stdout
    none = search(1000)
    assert none.exit_code == 1
    assert "1 of 312 RAMB36" in none.stderr
