"""Figures say their labels in the SVG, and the same numbers give the same bytes."""

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from fluidnpu.reports import figures as f

CURVES = {
    name: [
        f.LoadPoint(rate_per_s=1000.0 * r, average_ms=r, p99_ms=3.0 * r, violations_pct=r, utilisation_pct=9 * r)
        for r in (1, 2, 3)
    ]
    for name in ("serial", "fluid")
}
PARETO = [(1.0, 20.0, 90.0, 300.0, 900.0), (2.0, 19.5, 80.0, 200.0, 500.0)]

DRAWINGS: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "curves": (lambda: f.load_curves(CURVES, 2.0, 2000.0), ("serial", "fluid", "SLO")),
    "speed": (
        lambda: f.speed_panels({"zc706": (0.5, 0.8)}),
        ("zc706", "milliseconds of a batch", "over those of batch 1"),
    ),
    "walls": (
        lambda: f.speed_panels({"zc706": (0.5, 0.8)}, {"zc706": [(0.5, 0.3, 0.2), (0.62, 0.3, 0.08)]}),
        ("compute", "tiles", "memory", ">62<", "where the cycles go"),
    ),
    "heat map": (lambda: f.heat_map([[10.0, 90.0]], ["conv1"], [["k=1", "k=2"]], "plan"), ("conv1", "k=2", "plan")),
    "roofline": (
        lambda: f.roofline([("conv1", 8.0, 20.0), ("pool", 0.0, 0.0)], 100.0, 3.0, "operations a word", "Roof"),
        ("conv1", "Roof", "operations a word"),
    ),
    "pareto": (lambda: f.pareto_front(PARETO, PARETO[0], "Front"), ("Front", "DSPs", "memory", "LUTs")),
    "shares": (
        lambda: f.shares({"RAMB18": {"accumulators": 70.0, "FIFOs": 2.0}}, "Use"),
        ("RAMB18", "accumulators 70 %"),
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_figure_is_whole_svg_that_says_its_labels_and_never_changes_by_itself(name: str) -> None:
    draw, labels = DRAWINGS[name]
    text = draw()
    ET.fromstring(text)
    for label in labels:
        assert label in text
    assert draw() == text


def test_pools_stand_on_no_roofline() -> None:
    assert "pool" not in f.roofline([("conv1", 8.0, 20.0), ("pool", 0.0, 0.0)], 100.0, 3.0, "operations a word", "Roof")


def test_a_share_too_small_for_its_number_has_none() -> None:
    drawn = f.speed_panels({"zc706": (0.5, 0.8)}, {"zc706": [(0.5, 0.3, 0.2), (0.62, 0.3, 0.08)]})
    assert ">8<" not in drawn.split("where the cycles go")[0].split("batch size")[-1]


def test_layers_at_one_place_of_the_roofline_share_a_label() -> None:
    layers = [("a", 8.0, 20.0), ("b", 8.1, 20.1), ("c", 80.0, 20.0)]
    drawn = f.roofline(layers, 100.0, 3.0, "operations a word", "Roof")
    assert "a and 1 more" in drawn or "b and 1 more" in drawn
