"""Layers of a design, of any board: every word and every cycle on the RTL, told in a table."""

import random
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from npu_worlds import DESIGN

from fluidnpu.boards.board import parse_board
from fluidnpu.dse import DramModel
from fluidnpu.dse.design import Stack
from fluidnpu.models import Kind, LayerShape, Window
from fluidnpu.rtl_tb import NpuModel, RtlNpu, SimulationError
from fluidnpu.rtl_tb.data_plane.environment.jobs import Shape, make_program
from fluidnpu.rtl_tb.npu import layers
from fluidnpu.rtl_tb.npu.job import differences

SHIPPED = (
    (files("fluidnpu.boards") / "zc706.toml").read_text(encoding="utf-8").replace('name = "zc706"', 'name = "ours"')
)
TOML = re.sub(r"bytes_per_s = [\d_]+", "bytes_per_s = 1_000_000_000", SHIPPED)  # of each of its memories
OURS = parse_board(TOML)
HERE = DESIGN.changed(board="ours", facts=OURS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build of test_rtl_npu in place of one for the array alone."""
    model = NpuModel.of(DESIGN)
    monkeypatch.setattr(layers, "open_npu", lambda _, dram: RtlNpu(model, dram=dram, memory_bytes=1 << 24))


@pytest.fixture
def design_file(tmp_path: Path) -> str:
    path = tmp_path / "design.json"
    path.write_text(HERE.dumps())
    return str(path)


@pytest.mark.usefixtures("small")
def test_every_layer_of_a_design_is_told(design_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert layers.main([design_file, "--batch", "3"]) == 0
    head, _, *rows, last = capsys.readouterr().out.splitlines()
    assert head.startswith("<24, 4, 8> of ours, batch 3")
    assert len(rows) == len(HERE.layers)
    for row, layer in zip(rows, HERE.layers, strict=True):
        cells = row.split()
        assert cells[:2] == ["PASS", layer.name]
        assert cells[-5] == cells[-4], "cycles in RTL and in the exact model"
        assert cells[-1] == "equal"
    assert last.startswith(f"{len(rows)} of {len(rows)} layers passed")


@pytest.mark.usefixtures("small")
def test_a_difference_is_told(
    design_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "is_right", lambda *_: False)
    name = HERE.layers[0].name
    assert layers.main([design_file, "--layer", name, "--ideal"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[2].startswith(f"FAIL  {name}")
    assert out[2].endswith("WRONG")
    assert out[-1].startswith("0 of 1 layers passed")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch", "0"], "--batch must lie in 1..4, not 0"),
        (["--batch", "5"], "--batch must lie in 1..4, not 5"),
        (["--out", "8"], "--out must be rows and columns such as 8x8, or full, not 8"),
        (["--out", "0x8"], "not 0x8"),
        (["--layer", "nothing"], "a layer of the design must be named, such as"),
    ],
)
def test_what_cannot_be_run_is_refused(
    arguments: list[str], sentence: str, design_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        layers.main([design_file, *arguments])
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err.splitlines()[-1]


def test_a_layer_that_would_take_hours_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huge = LayerShape(
        name="huge", r=1 << 20, p=900, c=800, window=Window(kernel=(3, 3), out=(1024, 1024), channels=100)
    )
    design = HERE.changed(layers=(huge,), plans=(HERE.plans[0],))
    (tmp_path / "huge.json").write_text(design.dumps())
    with pytest.raises(SystemExit):
        layers.main([str(tmp_path / "huge.json"), "--out", "full"])
    assert "a layer must take at most 3000000 input beats" in capsys.readouterr().err


def test_shapes_are_the_layers() -> None:
    window = Window(kernel=(3, 3), stride=(2, 2), out=(20, 10), channels=24)
    conv = LayerShape(name="c", r=200, p=72, c=16, window=window, groups=2)
    shape = layers.shape_of(conv, (8, 8))
    assert (shape.out, shape.group_words, shape.groups, shape.columns, shape.beside) == ((8, 8), 8, 2, 16, 8)
    window = Window(kernel=(3, 3), out=(2, 2), channels=7)
    pool = layers.shape_of(LayerShape(name="p", r=4, p=9, c=7, kind=Kind.MAX_POOL, window=window), None)
    assert (pool.kind, pool.group_words, pool.out) == (1, 7, (2, 2))
    assert layers.shape_of(LayerShape(name="only <R, P, C>", r=9, p=5, c=3), None).out == (1, 9)


def test_plans_are_words_of_the_fbcb() -> None:
    plan = HERE.plans[0][1]
    assert plan.k is Stack.ONE
    assert layers.fbcb_word(HERE, 0, 2) >> 2 & 31 == 1


def test_layers_run_behind_the_memory_that_the_design_carries(
    design_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share of 1 GB/s at the design's clock: ours, and never ideal memory in its place."""
    asked: list[DramModel] = []

    def table(*given: object) -> int:
        asked.append(next(one for one in given if isinstance(one, DramModel)))
        return 0

    monkeypatch.setattr(layers, "_table", table)
    old, toml = tmp_path / "old.json", tmp_path / "ours.toml"
    old.write_text(replace(HERE, facts=None, schema=3).dumps())
    toml.write_text(TOML)
    assert layers.main([design_file]) == layers.main([str(old), "--board", str(toml)]) == 0
    assert layers.main([design_file, "--ideal"]) == layers.main([str(old), "--ideal"]) == 0
    ours = DramModel.of(OURS, "ps", clock_hz=HERE.clock_hz)
    assert asked == [ours, ours, DramModel.IDEAL, DramModel.IDEAL]
    share = OURS.memory("ps").sustained_pct / 100
    assert ours.total_words == pytest.approx(share * 1e9 / 2 / HERE.clock_hz)
    with pytest.raises(SystemExit):
        layers.main([str(old)])
    assert "must carry the facts of its board 'ours'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        layers.main([design_file, "--board", "zc706"])
    assert "facts must be those of board 'ours', not of 'zc706'" in capsys.readouterr().err


def test_a_job_that_does_not_end_is_told() -> None:
    npu = RtlNpu(NpuModel.of(DESIGN), memory_bytes=1 << 22)
    npu.fault(silent=True)
    program = make_program(DESIGN, [Shape()], random.Random(1), words={0: 0})
    with pytest.raises(SimulationError, match="must end within 500 cycles"):
        layers.run_layer(npu, program, program.fbcb[0], [0], limit=500)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(out=(1, 301), group_words=1, columns=1),
        Shape(out=(259, 255), group_words=1, columns=1),  # more pixels than 16 bits count
        Shape(out=(301, 1), kernel=(1, 3), group_words=2, columns=3, residual=True),
        Shape(kind=2, kernel=(23, 21), group_words=5, out=(1, 2)),  # 483 taps
        Shape(kind=1, kernel=(17, 31), group_words=3, out=(2, 1)),
        Shape(kernel=(1, 1), group_words=3000, columns=9, out=(2, 2)),
        Shape(kernel=(1, 1), group_words=4, columns=2001, out=(1, 1), extra=7),
        Shape(kernel=(2, 2), group_words=1, groups=600, columns=1, out=(2, 3)),
    ],
    ids=lambda shape: f"{shape.kernel}-{shape.out}-{shape.group_words}-{shape.groups}-{shape.columns}",
)
def test_long_rows_many_taps_and_many_channels(shape: Shape) -> None:
    """Values that are small in the other tests; above 4 GiB."""
    npu = RtlNpu(NpuModel.of(DESIGN), base=1 << 32, memory_bytes=1 << 24)
    program = make_program(DESIGN, [shape], random.Random(2), words={0: 0})
    word, active = program.fbcb[1], [2, 5]
    run = layers.run_layer(npu, program, word, active)
    assert layers.is_right(npu, program, word, active)
    assert not differences(run, layers.exact_cycles(npu, program, word, active, run))
