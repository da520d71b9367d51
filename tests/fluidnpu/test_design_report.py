"""The design report shows the exploration it was given."""

from boards import load_board
from dse import explore
from fluidnpu.design_report import render_design_report
from models import LayerShape, Workload

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
