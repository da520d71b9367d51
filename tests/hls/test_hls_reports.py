"""Report parsers on hand-made reports, which follow public descriptions; no vendor's tool wrote them."""

from __future__ import annotations

import pytest
from hand_made_reports import csynth, flat, hierarchical, timing

from fluidnpu.hls import ReportError
from fluidnpu.hls.project.reports import parse_csynth, parse_timing, parse_utilization


def test_csynth() -> None:
    found = parse_csynth(csynth())
    assert found.resources == {"ramb18": 40, "dsp": 30, "ff": 9000, "lut": 7000, "uram288": 0}
    assert (found.part, found.target_ns, found.estimated_ns) == ("xc7z045ffg900-2", 6.667, 5.0)
    assert (found.best_cycles, found.worst_cycles) == (41, None)
    assert parse_csynth(csynth(worst="77")).worst_cycles == 77


@pytest.mark.parametrize("dsp_column", ["DSP48 Blocks", "DSP Blocks"])
def test_hierarchical_utilisation_counts_the_whole_design_once(dsp_column: str) -> None:
    found = parse_utilization(hierarchical(dsp_column=dsp_column))
    assert found.resources == {"lut": 12000, "ff": 15000, "ramb18": 47, "dsp": 28}
    assert parse_utilization(hierarchical(uram=True)).resources["uram288"] == 3


@pytest.mark.parametrize("luts", ["CLB LUTs*", "Slice LUTs"])
def test_flat_utilisation(luts: str) -> None:
    found = parse_utilization(flat(luts))
    assert found.resources == {"lut": 12000, "ff": 15000, "ramb18": 47, "uram288": 3, "dsp": 28}
    assert found.device == "xczu7ev-ffvc1156-2-e"


def test_timing() -> None:
    found = parse_timing(timing(slack=-0.25))
    periods = {"clk_fpga_0": 10.0, "clk_out1_system_clock_0_0": 6.667, "clkfbout_system_clock_0_0": 10.0}
    assert (found.slack_ns, dict(found.periods_ns)) == (-0.25, periods)


def test_a_document_type_is_refused_in_time_linear_in_its_text() -> None:
    """Comments that never end, and a document type that a comment splits."""
    for text in ("<!--" * 1_000_000, "<!<!--DOCTYPE p><p/>", "<!-- c --><!DOCTYPE p><p/>"):
        with pytest.raises(ReportError):
            parse_csynth(text)
    assert parse_csynth(csynth().replace("</profile>", "<!-- a comment --></profile>")) == parse_csynth(csynth())
