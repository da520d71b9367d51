"""Folders that pages begin with: `<!-- setup: NAME -->`. Each is made once, and copied."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.hls.project import first_run_design, slow_down
from fluidnpu.models import read_onnx, shipped_file

YOLOV8N = (
    Path(__file__).resolve().parents[2] / "build" / "coverage" / "public" / "320n.onnx"
)  # of benchmarks/coverage.py
UTILISATION = """| Device : xc7z045ffg900-2
| Instance | Module | Total LUTs | Logic LUTs | LUTRAMs | SRLs | FFs | RAMB36 | RAMB18 | DSP48 Blocks |
| system_wrapper | (top) | 100000 | 90000 | 9000 | 1000 | 150000 | 400 | 10 | 700 |
"""
TIMING = """| Device : 7z045-ffg900
    WNS(ns)      TNS(ns)
    -------      -------
     0.100        0.000

Clock      Waveform(ns)       Period(ns)      Frequency(MHz)
clk_fpga_0 {0.000 3.333}      6.667           150.000
"""


class Setups:
    """Makes the folders by name, below a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, name: str, folder: Path) -> None:
        """Copy what stands in a setup into a folder."""
        made = self.folder / name
        if not made.is_dir():
            made.mkdir(parents=True)
            getattr(self, f"make_{name}")(made)
        shutil.copytree(made, folder, dirs_exist_ok=True)

    def make_model(self, out: Path) -> None:
        """The shipped network as `model.onnx`."""
        with shipped_file("resnet8_fashion_mnist.onnx") as path:
            shutil.copy(path, out / "model.onnx")

    def make_design(self, out: Path) -> None:
        """A design for it on a ZC706, too: `design.json`."""
        self.begin("model", out)
        run("dse", str(out / "model.onnx"), "--board", "zc706", "--cycles", "paper", "--out", str(out / "design.json"))

    def make_project(self, out: Path) -> None:
        """Its project, too: `project`."""
        self.begin("design", out)
        words = ("--board", "zc706", "--design", str(out / "design.json"), "--out", str(out / "project"))
        run("build", str(out / "model.onnx"), *words)

    def make_yolov8n(self, out: Path) -> None:
        """The public file of nudenet as `yolov8n.onnx`; skips where the scoreboard has not fetched it."""
        if not YOLOV8N.exists():
            pytest.skip(f"{YOLOV8N} must be there; benchmarks/coverage.py fetches it")
        shutil.copy(YOLOV8N, out / "yolov8n.onnx")

    def make_mine(self, out: Path) -> None:
        """The shipped network as `mine.onnx`."""
        self.begin("model", out)
        (out / "model.onnx").rename(out / "mine.onnx")

    def make_reports(self, out: Path) -> None:
        """A project beside its model, with reports of the form that Vivado's have, made by hand."""
        self.begin("project", out)
        (out / "project" / "build").mkdir()
        (out / "project" / "build" / "utilization.rpt").write_text(UTILISATION)
        (out / "project" / "build" / "timing.rpt").write_text(TIMING)

    def make_first_run(self, out: Path) -> None:
        """The archive of a first run, with reports made by hand."""
        board = slow_down(load_board("zc706"))
        with shipped_file("resnet8_fashion_mnist.onnx") as model:
            work = read_onnx(model).workload
        design = first_run_design(work, board, memory=None, core="hls", b_max=8)
        columns = "".join(f"DSP48_X{x} {140 if x < 5 else 100}\n" for x in range(7))
        texts = {
            "bundle/design.json": design.dumps(),
            "build/utilization.rpt": UTILISATION,
            "build/timing.rpt": TIMING.replace("6.667", "10.000"),
            "build/dsp_columns.txt": columns,
        }
        with tarfile.open(out / "first-run.tar.gz", "w:gz") as archive:
            for name, text in texts.items():
                member = tarfile.TarInfo(f"first-run/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))

    def make_demo(self, out: Path) -> None:
        """The project where the demo leaves it: `out/demo/zc706`."""
        self.begin("project", out)
        (out / "out" / "demo").mkdir(parents=True)
        (out / "project").rename(out / "out" / "demo" / "zc706")

    def make_simulations(self, out: Path) -> None:
        """A latency table and a recorded stream of requests beside model and design."""
        self.begin("design", out)
        table = {"latency_ns": [[30_000_000, 40_000_000], [20_000_000, 28_000_000]], "exit_rates": [0.4, 0.6]}
        (out / "table.json").write_text(json.dumps(table))
        rows = [f"{8 * n},200,{n % 2}" for n in range(300)]
        (out / "arrivals.csv").write_text("\n".join(["arrival_ms,slo_ms,exit", *rows]) + "\n")


def run(*words: str) -> None:
    """Run a command, which must succeed."""
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
