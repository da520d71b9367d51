"""`fluidnpu build --first-run`, and `import-reports` of the archive that comes back of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fluidnpu.cli import main

TIMING = """| Device : xczu7ev-ffvc1156
    WNS(ns)      TNS(ns)
    -------      -------
      2.000        0.000

Clock      Waveform(ns)       Period(ns)      Frequency(MHz)
aclk       {0.000 5.000}      10.000          100.000
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def project(few_images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first run on a ZCU104, without a model of one's own."""
    folder = tmp_path_factory.mktemp("first") / "project"
    done = run("build", "--first-run", "--board", "zcu104", "--data", few_images, "--out", folder)
    assert done.exit_code == 0, done.output
    assert "`make first-run`" in " ".join(done.stdout.split())  # as wide as the folder's name lets it be
    return folder


def test_a_first_run_has_a_small_array_and_a_slow_clock(project: Path) -> None:
    design = json.loads((project / "bundle/design.json").read_text())
    assert (design["t_p"], design["t_c"], design["clock_hz"]) == (4, 8, 100_000_000)
    assert "create_clock -period 10.000" in (project / "vivado/first_run.xdc").read_text()
    assert "first-run:" in (project / "Makefile").read_text()
    assert "make first-run" in (project / "README.md").read_text()


def test_its_archive_is_read(project: Path) -> None:
    reports = project / "build" / "first-run"
    for name, text in {
        "bundle/design.json": (project / "bundle/design.json").read_text(),
        "build/timing.rpt": TIMING,
        "build/dsp_columns.txt": "".join(f"DSP48E2_X{x} 144\n" for x in range(12)),
    }.items():
        (reports / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / name).write_text(text)
    archive = project / "build" / "first-run.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(reports, "first-run")
    done = run("import-reports", archive)
    assert done.exit_code == 0, done.output
    record = project / "build" / "first-run-calibration.json"
    rows = {row["quantity"]: row for row in json.loads(record.read_text())["measures"]}
    assert rows["clock_mhz"]["reported"] == pytest.approx(125.0)
    assert "columns of DSP slices: 12 of 144, and the file of zcu104 says" in " ".join(done.stdout.split())
    assert run("import-reports", reports).exit_code == 0
    assert json.loads((reports / "calibration.json").read_text()) == json.loads(record.read_text())
    archive.write_bytes(archive.read_bytes()[:300])
    done = run("import-reports", archive)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "must be a project's folder, or the archive" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--board", "zc706"), "MODEL must be named: only --first-run does without"),
        (("--first-run", "--board", "zc706", "--cycles", "exact"), "--first-run must be without --cycles"),
        (("--first-run", "--board", "zc706", "--design", "design.json"), "--first-run must be without --design"),
        (("--first-run", "--board", "zc706", "--evaluations", "2"), "--first-run must be without --evaluations"),
        (("--first-run", "--board", "zc706", "--memory", "none"), "memory of board 'zc706' must be one of"),
        (("--first-run", "--board", "nothing"), "board"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = run("build", *words, "--out", tmp_path / "project")
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "project").exists()
