"""Figures say their labels in the SVG, and the same numbers give the same bytes."""

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from fluidnpu.reports import figures as f

PARETO = [(1.0, 20.0, 90.0, 300.0, 900.0), (2.0, 19.5, 80.0, 200.0, 500.0)]

WALLS_OF = {"zc706": [(0.5, 0.3, 0.2), (0.62, 0.3, 0.08)]}


def joined(figures: dict[str, str]) -> str:
    return f"<div>{''.join(figures.values())}</div>"


def point(name: str, per_word: float, gops: float) -> f.RoofPoint:
    return f.RoofPoint(name=name, per_word=per_word, gops=gops, limit="memory", share=0.3)


def roof(*points: f.RoofPoint) -> str:
    return f.roofline(points, 100.0, 3.0, "operations a word", "memory 3 Gwords/s", "Roof")


DRAWINGS: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "speed": (
        lambda: joined(f.speed_panels({"zc706": (0.5, 0.8)})),
        ("zc706", "milliseconds of a batch", "over those of batch 1"),
    ),
    "walls": (
        lambda: joined(f.speed_panels({"zc706": (0.5, 0.8)}, WALLS_OF)),
        ("compute", "tiles", "memory", ">62<", "where the cycles go"),
    ),
    "heat map": (lambda: f.heat_map([[10.0, 90.0]], ["conv1"], [["k=1", "k=2"]], "plan"), ("conv1", "k=2", "plan")),
    "roofline": (
        lambda: roof(point("conv1", 8.0, 20.0), point("conv2", 80.0, 60.0)),
        ("conv1", "Roof", "operations a word", "array 100 GOP/s", "memory 3"),
    ),
    "pareto": (lambda: f.pareto_front(PARETO, PARETO[0], "Front"), ("Front", "DSPs", "memory", "LUTs")),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_figure_is_whole_svg_that_says_its_labels_and_never_changes_by_itself(name: str) -> None:
    draw, labels = DRAWINGS[name]
    text = draw()
    ET.fromstring(text)
    for label in labels:
        assert label in text
    assert draw() == text


def test_a_share_too_small_for_its_number_has_none() -> None:
    drawn = f.speed_panels({"zc706": (0.5, 0.8)}, WALLS_OF)["zc706: where the cycles go (%)"]
    assert ">62<" in drawn
    assert ">8<" not in drawn


def test_layers_at_one_place_of_the_roofline_share_a_label() -> None:
    drawn = roof(point("a", 8.0, 20.0), point("b", 8.1, 20.1), point("c", 80.0, 20.0))
    assert "a and 1 more" in drawn or "b and 1 more" in drawn
