"""The design report shows the exploration it was given."""

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.models import LayerShape, Workload
from fluidnpu.reports.design import _layer_rows, _memory_map, render_design_report

WORK = Workload(
    name="two <layers>",  # a name may hold anything; the page must still be one
    layers=(LayerShape(name="conv", r=196, p=288, c=64), LayerShape(name="fc", r=1, p=64, c=10, stage=1)),
    exits=("early", "final"),
)


def test_the_report_holds_the_numbers_and_every_figure() -> None:
    found = explore(WORK, load_board("zcu104"), b_max=4)
    text = render_design_report(found)
    assert text.count("<svg") == 6  # throughput, plan, two rooflines, Pareto front, resources
    assert found.design.digest[:12] in text
    for gops in found.fitted_gops:
        assert f"{gops:.1f}" in text
    for value in found.design.latency.ns[1]:
        assert f"{value / 1000:.1f}" in text
    assert "two <layers>" not in text
    assert "two &lt;layers&gt;" in text


def test_a_single_batch_size_is_enough() -> None:
    assert render_design_report(explore(WORK, load_board("zc706"), b_max=1)).count("Roofline at batch") == 1


def test_every_layer_stands_under_its_roof_and_every_memory_is_listed() -> None:
    found = explore(WORK, load_board("zcu104"), b_max=4)
    rows = _layer_rows(found, found.board.paper_words_per_cycle * found.board.clock_hz / 1e9)
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
