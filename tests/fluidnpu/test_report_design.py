"""The design report shows the exploration it was given, and reads on a narrow page."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from narrow_pages import check_narrow

from fluidnpu.boards import load_board
from fluidnpu.dse import Exploration, explore
from fluidnpu.dse.hardware import predicted_clock
from fluidnpu.models import LayerShape, Window, Workload
from fluidnpu.models.graph import Filtering, FilterPair
from fluidnpu.reports.design import (
    _alternatives,
    _layer_rows,
    _memory_map,
    _resource_rows,
    full_batch_rates,
    plan_map,
    render_design_report,
)
from fluidnpu.reports.device_pictures import clock_ruler, floorplan, slice_columns, uses_of
from fluidnpu.reports.layer_times import layer_times, shown_times
from fluidnpu.reports.unchecked import list_unchecked
from fluidnpu.scheduler import Serving
from fluidnpu.studies.drawing import GREY, PALETTE

WORK = Workload(
    name="two <layers>",  # a name may hold anything; the page must still be one
    layers=(LayerShape(name="conv", r=196, p=288, c=64), LayerShape(name="fc", r=1, p=64, c=10, stage=1)),
    exits=("early", "final"),
    exit_rates=(0.75, 0.25),
)


@cache
def explored(board: str = "zcu104", core: str = "rtl", b_max: int = 4) -> Exploration:
    return explore(WORK, load_board(board), b_max=b_max, model="paper", core=core)


@cache
def text_of(exploration: Exploration) -> str:
    return render_design_report(exploration)


def page() -> str:
    return text_of(explored())


@cache
def counted(bits: int = 16) -> Exploration:
    """A block of layers whose depthwise one is merged, with the reference core, counted."""
    map_of = {"kernel": (1, 1), "out": (28, 28)}
    layers = (
        LayerShape(name="expand", r=784, p=16, c=96, window=Window(**map_of, channels=16)),
        LayerShape(
            name="filtered", r=784, p=9, c=1, groups=96, window=Window(kernel=(3, 3), out=(28, 28), channels=96)
        ),
        LayerShape(name="project", r=784, p=96, c=16, window=Window(**map_of, channels=96)),
    )
    pair = FilterPair(producer=0, depthwise=1, filtering=Filtering(kernel=3, padded=(1, 1), out=(28, 28)))
    work = Workload(name="block", layers=layers, filters=(pair,))
    return explore(work, load_board("zc706"), b_max=1, evaluations=1, lanes=16, core="rtl", bits=bits)


def test_the_report_holds_the_numbers_and_every_figure() -> None:
    found, text = explored(), page()
    # Milliseconds, gain, two rooflines, plan, floorplan, clock, Pareto front.
    assert text.count("<svg") == 8
    assert found.design.digest[:12] in text
    rates = full_batch_rates(found)
    for batch, gops in enumerate(found.fitted_gops, 1):
        row = (
            str(batch),
            f"{found.frames_per_second[batch - 1]:.1f}",
            f"{rates[batch - 1]:.1f}",
            f"{found.batch_ms[batch - 1]:.3f}",
            f"{gops:.1f}",
        )
        assert "".join(f"<td>{cell}</td>" for cell in row) in text.replace("\n", "")
    for value in found.design.latency.ns[1]:
        assert f"{value / 1000:.1f}" in text
    assert "two <layers>" not in text
    assert "two &lt;layers&gt;" in text
    check_narrow(text)
    assert set(re.findall(r"--c: (#\w+)", text)) <= {*PALETTE, GREY}


def test_a_single_batch_size_is_enough() -> None:
    text = render_design_report(explored("zc706", b_max=1), explained=["why <so>"])
    assert text.count('aria-label="Roofline at batch') == 1
    assert "Why &lt;so&gt;." in text.split('id="explained"')[1]


def test_requests_at_the_exit_rates_are_those_of_the_scheduler() -> None:
    """The best batch size carries what `Serving` says that full batches carry at the most."""
    found = explored()
    rates = full_batch_rates(found)
    assert max(rates) == pytest.approx(1 / Serving.of(found.design).least_load(1.0))
    assert all(rate > frames for rate, frames in zip(rates, found.frames_per_second, strict=True))
    nobody = replace(found, design=replace(found.design, exit_rates=(0.0, 1.0)))
    times = [sum(row) for row in zip(*found.design.latency.ns, strict=True)]
    assert full_batch_rates(nobody) == pytest.approx([1e9 * b / ns for b, ns in enumerate(times, 1)])
    assert not full_batch_rates(replace(found, design=replace(found.design, exit_rates=None)))


def test_every_layer_stands_under_its_roof_and_every_memory_is_listed() -> None:
    found, text = explored(), page()
    rows = _layer_rows(found)
    assert [row["layer"].name for row in rows] == ["conv", "fc"]
    for row in rows:
        assert len(row["places"]) == 2
        for place in row["places"]:
            assert 0 < place["roof_pct"] <= 100 + 1e-9
    assert rows[1]["places"][0]["bound"] == "memory"  # a lone row reads every weight once
    listed = _memory_map(found)
    on_chip = sum(int(size.split()[0]) for _, _, size in listed if size.endswith("RAMB18"))
    assert on_chip == found.fit.ramb18
    for _, _, size in listed:
        assert size in text
    for row in _resource_rows(found):
        assert sum(count for *_, count, _ in row["uses"]) == row["used"]


def test_a_layer_that_another_computes_has_no_place_under_the_roof() -> None:
    """A depthwise layer that is merged has multiplications, and none of the array's."""
    found = counted()
    assert [layer.merged for layer in found.design.layers] == [False, True, False]
    rows = _layer_rows(found)
    assert [row["layer"].name for row in rows] == ["expand", "project"]
    assert all(0 < place["roof_pct"] <= 100 for row in rows for place in row["places"])
    assert "merged" in plan_map(found)
    assert {row.name for row in shown_times(layer_times(found, 1))} == {"expand", "filtered", "project"}


@pytest.mark.parametrize("search", [explored, counted], ids=["paper", "exact"])
def test_layers_take_the_time_of_the_batch_and_each_is_divided_among_what_limits_it(
    search: Callable[[], Exploration],
) -> None:
    found = search()
    for batch in range(1, found.b_max + 1):
        times = layer_times(found, batch)
        assert sum(time.ms for time in times) == pytest.approx(found.batch_ms[batch - 1])
        for time in times:
            assert sum(time.parts_ms.values()) == pytest.approx(time.ms)
            assert min(time.parts_ms.values()) >= 0
        walls = found.walls(batch)
        if walls is not None:
            memory = sum(time.parts_ms["memory"] for time in times)
            assert memory == pytest.approx(walls.memory * found.batch_ms[batch - 1])
        assert sum(row.ms for row in shown_times(times, 1)) == pytest.approx(found.batch_ms[batch - 1])


@pytest.mark.parametrize(
    "search",
    [explored, partial(explored, "zc706", "hls"), counted, partial(counted, 8)],
    ids=["whole or in pieces", "hls", "with a filter", "8 bits"],
)
def test_every_slice_has_a_place_in_a_column_of_the_device(search: Callable[[], Exploration]) -> None:
    found = search()
    columns = slice_columns(found)
    heights = sorted((height for height, count in found.board.dsp_columns for _ in range(count)), reverse=True)
    assert [column.height for column in columns] == heights
    assert sum(column.used for column in columns) == found.fit.dsp
    for column in columns:
        free = 0
        for stretch in column.stretches:
            assert stretch.first >= free, "two in one place"
            free = stretch.first + stretch.slices
        assert free <= column.height
    drawn = str(floorplan(columns))
    for use, colour, slices in uses_of(columns):
        assert use in drawn
        assert colour in drawn
        assert slices > 0


def test_a_board_without_columns_has_no_floorplan_and_says_so() -> None:
    found = explored()
    blank = replace(found.board, dsp_columns=())
    bare = replace(found, question=replace(found.question, board=blank))
    assert slice_columns(bare) == ()
    assert any("held against no columns" in sentence for sentence in list_unchecked(bare))
    assert not any("held against no columns" in sentence for sentence in list_unchecked(found))


def test_the_ruler_of_the_clock_shows_board_and_prediction() -> None:
    board = load_board("zc706")
    predicted = predicted_clock(board)
    assert predicted is not None
    drawn = str(clock_ruler(board, predicted))
    for text in (f"{board.clock_hz / 1e6:g} MHz", f"{predicted.mhz:.0f}", f"{predicted.low_mhz:.0f} to"):
        assert text in drawn
    assert any("assumed" in sentence for sentence in list_unchecked(explored("zc706", "hls")))


def test_the_chosen_design_stands_among_the_alternatives_once() -> None:
    found, text = explored(), page()
    (chosen,) = re.findall(r'<tr class="chosen"><td>&lt;(.*?)&gt;</td>', text)
    design = found.design
    assert chosen == f"{design.t_r}, {design.t_p}, {design.t_c}"
    assert text.count(f"<td>&lt;{chosen}&gt;</td>") == 1
    peak = 2e-9 * found.board.dsp * found.board.clock_hz
    assert all(0 < row["mean_gops"] <= peak for row in _alternatives(found)), "a mean is under the roof"


def test_a_figure_follows_the_page_by_day_and_by_night() -> None:
    """No ink, grid or paper of a light page is left in a figure; letters on colours stay as they are."""
    text = page()
    figures = " ".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--ink)" in figures
    assert not re.findall(r"(?:fill|stroke): (?:#1f2933|#d9dee4)|stroke: #000000|stroke: #ffffff", figures)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
