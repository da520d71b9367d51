"""The design report shows the exploration it was given."""

import re

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.models import LayerShape, Window, Workload
from fluidnpu.models.graph import Filtering, FilterPair
from fluidnpu.reports.design import _layer_rows, _memory_map, plan_map, render_design_report

WORK = Workload(
    name="two <layers>",  # a name may hold anything; the page must still be one
    layers=(LayerShape(name="conv", r=196, p=288, c=64), LayerShape(name="fc", r=1, p=64, c=10, stage=1)),
    exits=("early", "final"),
)


def test_the_report_holds_the_numbers_and_every_figure() -> None:
    found = explore(WORK, load_board("zcu104"), b_max=4, model="paper", core="rtl")
    text = render_design_report(found)
    assert text.count("<svg") == 6  # throughput, plan, two rooflines, Pareto front, resources
    assert found.design.digest[:12] in text
    for batch, gops in enumerate(found.fitted_gops, 1):
        row = (
            str(batch),
            f"{found.frames_per_second[batch - 1]:.1f}",
            f"{found.batch_ms[batch - 1]:.3f}",
            f"{gops:.1f}",
        )
        assert "".join(f"<td>{cell}</td>" for cell in row) in text.replace("\n", "")
    for value in found.design.latency.ns[1]:
        assert f"{value / 1000:.1f}" in text
    assert "two <layers>" not in text
    assert "two &lt;layers&gt;" in text


def test_a_single_batch_size_is_enough() -> None:
    assert (
        render_design_report(explore(WORK, load_board("zc706"), b_max=1, model="paper", core="rtl")).count(
            "Roofline at batch"
        )
        == 1
    )


def test_every_layer_stands_under_its_roof_and_every_memory_is_listed() -> None:
    found = explore(WORK, load_board("zcu104"), b_max=4, model="paper", core="rtl")
    rows = _layer_rows(found, found.words_per_cycle * found.board.clock_hz / 1e9)
    assert [row["layer"].name for row in rows] == ["conv", "fc"]
    for row in rows:
        assert len(row["places"]) == 2
        for place in row["places"]:
            assert 0 < place["roof_pct"] <= 100 + 1e-9
    assert rows[1]["places"][0]["bound"] == "memory"  # a lone row reads every weight once
    listed = _memory_map(found)
    on_chip = sum(int(size.split()[0]) for _, _, size in listed if size.endswith("RAMB18"))
    assert on_chip == found.fit.ramb18
    text = render_design_report(found)
    for _, _, size in listed:
        assert size in text


def test_a_layer_that_another_computes_has_no_place_under_the_roof() -> None:
    """A depthwise layer that is merged has multiplications, and none of the array's."""
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
    found = explore(work, load_board("zc706"), b_max=1, evaluations=1, lanes=16)
    assert [layer.merged for layer in found.design.layers] == [False, True, False]
    rows = _layer_rows(found, found.words_per_cycle * found.board.clock_hz / 1e9)
    assert [row["layer"].name for row in rows] == ["expand", "project"]
    assert all(0 < place["roof_pct"] <= 100 for row in rows for place in row["places"])
    assert "merged" in plan_map(found)


def test_the_chosen_design_stands_among_the_alternatives_once() -> None:
    found = explore(WORK, load_board("zcu104"), b_max=4, model="paper", core="rtl")
    text = render_design_report(found)
    (chosen,) = re.findall(r'<tr class="chosen"><td>&lt;(.*?)&gt;</td>', text)
    design = found.design
    assert chosen == f"{design.t_r}, {design.t_p}, {design.t_c}"
    assert text.count(f"<td>&lt;{chosen}&gt;</td>") == 1


def test_a_figure_follows_the_page_by_day_and_by_night() -> None:
    """No ink, grid or paper of a light page is left in a figure; letters on colours stay as they are."""
    text = render_design_report(explore(WORK, load_board("zc706"), b_max=2, model="paper", core="rtl"))
    figures = " ".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--ink)" in figures
    assert not re.findall(r"(?:fill|stroke): (?:#1f2933|#d9dee4)|stroke: #000000|stroke: #ffffff", figures)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
