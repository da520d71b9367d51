"""A first run: its scripts in the Tcl interpreter, its Makefile with scripts as tools, and its archive."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hand_made_reports import csynth, hierarchical, timing
from tcl_vivado import Vivado, dsp_sites

from fluidnpu import rtl_tb
from fluidnpu.boards import list_boards, load_board
from fluidnpu.hls import ReportError, render_project, write_project
from fluidnpu.hls.project import compare_columns, first_run_design, import_reports, reports_folder, slow_down
from fluidnpu.models import read_onnx, shipped_file
from fluidnpu.models.zoo import random_network

WORLDS = [("zc706", "pl", "hls", "2019.2"), ("zc706", "ps", "rtl", "2022.1"), ("zcu104", "ps_striped", "hls", "2022.1")]
PACKED = "build/first-run.tar.gz"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def built(
    at: Path, board: str = "zc706", memory: str = "pl", core: str = "hls", tools: str = "2019.2"
) -> dict[str, str]:
    """A project of a first run in the folder `at`; its texts."""
    place = slow_down(load_board(board))
    design = first_run_design(random_network(3).workload, place, memory=memory, core=core, b_max=2)
    assert (design.t_p, design.t_c, design.clock_hz) == (4, 8, 100_000_000)
    files = render_project(design, None, place, core, rtl_tb.sources(), tools=tools, first_run=True)
    write_project(files, at)
    return {name: text for name, text in files.items() if isinstance(text, str)}


@pytest.mark.parametrize("world", WORLDS, ids="-".join)
def test_every_script_of_a_first_run_runs(at: Path, world: tuple[str, str, str, str]) -> None:
    files = built(at, *world)
    if world[2] == "hls":
        verilog = at / "hls/fluidnpu_core/solution1/syn/verilog/fluidnpu_core.v"
        verilog.parent.mkdir(parents=True)
        verilog.touch()
    slices = ("npu/mac[1]/slice", "npu/mac[0]/slice")
    sites = dict(zip(slices, dsp_sites(load_board(world[0]).part), strict=False))
    vivado = Vivado("vivado", world[3], slices=slices, located=sites)
    vivado.run(files["vivado/first_run.tcl"])
    steps = ["synth_design", "place_design", "route_design", "report_methodology"]
    assert [name for name in vivado.done if name in steps] == steps
    places = (at / "build/first-run/build/dsp_places.txt").read_text().splitlines()
    assert [line.split()[1] for line in places] == list(sites.values())
    assert compare_columns(at / "build/first-run", load_board(world[0])).endswith(f"as the file of {world[0]} says")
    vivado.tcl.createcommand("get_ports", lambda name: f"port:{name}")
    vivado.tcl.createcommand("create_clock", lambda *words: vivado.said.append(" ".join(words)))
    vivado.run(files["vivado/first_run.xdc"])
    assert vivado.said == ["-period 10.000 -name aclk port:aclk"]


def test_without_the_hls_core_it_says_where_the_reason_stands(at: Path) -> None:
    vivado = Vivado("vivado", "2019.2")
    with pytest.raises(vivado.error, match="the HLS core is not there: build/first-run/build/hls"):
        vivado.run(built(at)["vivado/first_run.tcl"])
    assert (at / "build/first-run/build/dsp_columns.txt").exists()


@pytest.mark.parametrize("name", list_boards())
def test_every_shipped_board_has_room_for_a_first_run(name: str) -> None:
    place = slow_down(load_board(name))
    with shipped_file("resnet8_fashion_mnist.onnx") as model:
        work = read_onnx(model).workload
    for core in ("hls", "rtl"):
        design = first_run_design(work, place, memory=None, core=core, b_max=8)
        assert (design.array.t_r, design.array.t_p, design.array.t_c) == (512, 4, 8)


def test_only_a_first_run_has_its_scripts(at: Path) -> None:
    place = load_board("zc706")
    design = first_run_design(random_network(3).workload, place, memory="pl", core="hls", b_max=2)
    files = render_project(design, None, place, "hls", rtl_tb.sources())
    assert not [name for name, text in files.items() if "first_run" in name or "first-run" in str(text)]


# -- make first-run --

SYN = "fluidnpu_core/solution1/syn"
HLS = f"""mkdir -p {SYN}/report {SYN}/verilog; touch {SYN}/verilog/fluidnpu_core.v
cat > {SYN}/report/csynth.xml <<'END'
{csynth()}
END
echo "For user 'somebody' on host '$(uname -n)': synthesised in $HOME/here"
"""
VIVADO = f"""while [ "$1" != -log ]; do shift; done; echo "a log" > "$2"; cd build/first-run/build
cat > utilization.rpt <<'END'
| Host         : the-machine running 64-bit
{hierarchical()}
END
cat > timing.rpt <<'END'
{timing(slack=2.0, period=10.0)}
END
echo "DSP48_X0 140" > dsp_columns.txt"""


def make(at: Path, **tools: str) -> subprocess.CompletedProcess[str]:
    """Run `make first-run` with these scripts in the tools' places."""
    for name, text in tools.items():
        (at / "bin").mkdir(exist_ok=True)
        (at / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (at / "bin" / name).chmod(0o755)
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    env["HOME"] = "/home/somebody"
    env["PATH"] = f"{at / 'bin'}{os.pathsep}{env['PATH']}"
    return subprocess.run(["make", "first-run"], cwd=at, env=env, capture_output=True, text=True)


def test_one_archive_comes_back_and_is_read(at: Path) -> None:
    built(at)
    done = make(at, vivado_hls=HLS, vivado=VIVADO)
    assert (done.returncode, "has not come to its end" in done.stdout) == (0, False), done.stderr
    with tarfile.open(at / PACKED) as archive:
        reports = {member.name: archive.extractfile(member) for member in archive if member.isreg()}
        texts = {name: file.read().decode() for name, file in reports.items() if file}
    assert "the-machine" not in "".join(texts.values())
    assert texts["first-run/build/hls.log"] == "For a user on host 'MACHINE': synthesised in HOME/here\n"
    with reports_folder(at / PACKED) as folder:
        design = json.loads((folder / "bundle/design.json").read_text())
        board = slow_down(load_board("zc706"))
        mine = first_run_design(random_network(3).workload, board, memory="pl", core="hls", b_max=2)
        assert design["digest"] == mine.digest
        rows = {(row.stage, row.quantity): row for row in import_reports(folder, mine, board).measures}
        columns = compare_columns(folder, board)
    assert not folder.exists()
    assert rows["route", "clock_mhz"].reported == pytest.approx(1e3 / 8)
    assert rows["route", "clock_mhz"].predicted == 100.0
    assert rows["hls", "dsp"].predicted == 32
    assert columns == "columns of DSP slices: 1 of 140, and the file of zc706 says 5 of 140 and 2 of 100"
    with reports_folder(at / "build/first-run") as folder:  # what was packed, as a folder
        assert folder == at / "build/first-run"
        assert import_reports(folder, mine, board).measures


def test_what_fails_is_packed_all_the_same(at: Path) -> None:
    """A core that its own script has thrown away leaves its reports to the archive, and no project behind."""
    built(at)
    done = make(at, vivado_hls=f"{HLS}rm -rf {SYN}/verilog; exit 1", vivado="echo 'ERROR: no licence'; exit 1")
    assert done.returncode == 0
    assert "has not come to its end" in done.stdout
    assert not (at / "hls" / SYN).exists()
    with reports_folder(at / PACKED) as folder:
        assert list(folder.glob("hls/**/csynth.xml"))
        assert not (folder / "build/timing.rpt").exists()


# -- archives of strangers --


def archive_of(place: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> Path:
    with tarfile.open(place, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return place


def test_an_archive_writes_nothing_but_reports(tmp_path: Path) -> None:
    files = {"first-run/bundle/design.json": b"{}", "first-run/build/../../../out.rpt": b"", "/tmp/out.rpt": b""}
    files |= {"first-run/build/timing.rpt": b"text", "first-run/run.sh": b"", "first-run/hls/a/../../b.xml": b""}
    links = {"first-run/build/utilization.rpt": "/etc/passwd", "first-run/build/link": ".."}
    with reports_folder(archive_of(tmp_path / "a.tar.gz", files, links)) as folder:
        names = sorted(str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*") if not path.is_dir())
    assert names == ["first-run/build/timing.rpt", "first-run/bundle/design.json"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no archive", "must be a project's folder, or the archive .* and it cannot be read: Not a gzipped file"),
        (b"", "and it cannot be read: "),
        (gzip.compress(b"no archive", mtime=0), "and it cannot be read: "),
    ],
)
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(ReportError, match=words), reports_folder(tmp_path / "a.tar.gz"):
        pass


def test_an_archive_that_is_cut_or_too_large_or_another_is_refused(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(50_000)
    whole = archive_of(tmp_path / "a.tar.gz", {"first-run/bundle/design.json": noise, "first-run/build/a.rpt": noise})
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:60_000])
    large = archive_of(tmp_path / "large.tar.gz", {"first-run/build/a.rpt": bytes(70 << 20)})
    other = archive_of(tmp_path / "other.tar.gz", {"project/bundle/design.json": b"{}"})
    for place, words in (
        (cut, "cannot be read"),
        (large, "must hold at most 64 MiB, and it holds more"),
        (other, "and it holds no first-run/bundle/design.json"),
    ):
        with pytest.raises(ReportError, match=words) as caught, reports_folder(place):
            pass
        assert "\n" not in str(caught.value)


def test_a_member_whose_size_is_but_a_number_in_a_header_is_left_out(tmp_path: Path) -> None:
    """A sparse member of 512 bytes that unpacks to a tebibyte."""
    sparse = {"GNU.sparse.map": "0,512", "GNU.sparse.size": str(1 << 40)}
    plain: dict[str, str] = {}
    members = (("bundle/design.json", b"{}", plain), ("build/timing.rpt", b"x" * 512, sparse))
    with reports_folder(archive_with_headers(tmp_path / "a.tar.gz", members)) as folder:
        assert [path.name for path in folder.rglob("*.*")] == ["design.json"]


def archive_with_headers(place: Path, members: Iterable[tuple[str, bytes, dict[str, str]]]) -> Path:
    with tarfile.open(place, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content, headers in members:
            member = tarfile.TarInfo(f"first-run/{name}")
            member.size, member.pax_headers = len(content), headers
            archive.addfile(member, io.BytesIO(content))
    return place


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.map": "a,b", "GNU.sparse.size": "10"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "100"},
    ],
)
def test_headers_with_numbers_that_are_none_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    place = archive_with_headers(tmp_path / "a.tar.gz", [("build/timing.rpt", b"x" * 512, headers)])
    with pytest.raises(ReportError, match="and it cannot be read: "), reports_folder(place):
        pass


@pytest.mark.parametrize("size", [1 << 70, None])
def test_headers_beyond_any_file_or_of_headers_are_refused(tmp_path: Path, size: int | None) -> None:
    """A size of 2^70 bytes, and 5,000 long names of long names."""
    member = tarfile.TarInfo("a")
    if size is None:
        member.type = tarfile.GNUTYPE_LONGNAME
    else:
        member.size = size
    headers = member.tobuf(tarfile.GNU_FORMAT) * (5000 if size is None else 1)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(headers + bytes(1024)))
    with pytest.raises(ReportError, match="and it cannot be read: "), reports_folder(tmp_path / "a.tar.gz"):
        pass


def test_a_height_of_thousands_of_digits_is_no_height(tmp_path: Path) -> None:
    file = tmp_path / "build" / "dsp_columns.txt"
    file.parent.mkdir()
    file.write_text(f"DSP48_X0 {'9' * 5000}\n")
    assert compare_columns(tmp_path, load_board("zc706")) == ""
