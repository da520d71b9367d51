"""Reports of Vivado HLS and Vivado, made by hand after public descriptions of their formats."""

from __future__ import annotations


def csynth(part: str = "xc7z045ffg900-2", worst: str = "undef", interval: str = "") -> str:
    return f"""<?xml version="1.0"?>
<profile><!-- hand-made -->
  <UserAssignments><Part>{part}</Part><TopModelName>fluidnpu_core</TopModelName><TargetClockPeriod>6.667</TargetClockPeriod></UserAssignments>
  <PerformanceEstimates>
    <SummaryOfTimingAnalysis><unit>ns</unit><EstimatedClockPeriod>5.000</EstimatedClockPeriod></SummaryOfTimingAnalysis>
    <SummaryOfOverallLatency><Best-caseLatency>41</Best-caseLatency><Worst-caseLatency>{worst}</Worst-caseLatency>{interval}</SummaryOfOverallLatency>
  </PerformanceEstimates>
  <AreaEstimates>
    <Resources><BRAM_18K>40</BRAM_18K><DSP48E>30</DSP48E><FF>9000</FF><LUT>7000</LUT><URAM>0</URAM></Resources>
    <AvailableResources><BRAM_18K>1090</BRAM_18K><DSP48E>900</DSP48E><FF>437200</FF><LUT>218600</LUT></AvailableResources>
  </AreaEstimates>
</profile>
"""


HEADER = "| Tool Version : hand-made\n| Device       : {device}\n| Design State : Routed\n"


def hierarchical(device: str = "7z045ffg900-2", dsp_column: str = "DSP48 Blocks", uram: bool = False) -> str:
    columns = [
        "Total LUTs",
        "Logic LUTs",
        "LUTRAMs",
        "SRLs",
        "FFs",
        "RAMB36",
        "RAMB18",
        *(["URAM"] if uram else []),
        dsp_column,
    ]
    whole = [12000, 10000, 1500, 500, 15000, 20, 7, *([3] if uram else []), 28]
    part = [11000, 9000, 1500, 500, 14000, 20, 7, *([3] if uram else []), 28]
    rows: list[list[object]] = [
        ["Instance", "Module", *columns],
        ["system_wrapper", "(top)", *whole],
        ["  npu_0", "fluid_npu", *part],
    ]
    return HEADER.format(device=device) + "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def flat(luts: str = "CLB LUTs*") -> str:
    rows = [("Site Type", "Used", "Fixed", "Available", "Util%"), (luts, 12000, 0, 230400, 5.2), ("CLB Registers", 15000, 0, 460800, 3.2),
            ("Block RAM Tile", 23.5, 0, 312, 7.5), ("RAMB36/FIFO*", 20, 0, 312, 6.4), ("RAMB18", 7, 0, 624, 1.1), ("URAM", 3, 0, 96, 3.1),
            ("DSPs", 28, 0, 1728, 1.6)]  # fmt: skip
    return HEADER.format(device="xczu7ev-ffvc1156-2-e") + "\n".join(
        "| " + " | ".join(map(str, row)) + " |" for row in rows
    )


def timing(slack: float = 0.667, period: float = 6.667, device: str = "7z045-ffg900") -> str:
    return (
        HEADER.format(device=device)
        + f"""
    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)
    -------      -------  ---------------------  -------------------      -------      -------
      {slack:.3f}        0.000                      0                 1000        0.012        0.000

Clock        Waveform(ns)       Period(ns)      Frequency(MHz)
-----        ------------       ----------      --------------
clk_fpga_0   {{0.000 5.000}}      10.000           100.000
  clk_out1_system_clock_0_0   {{0.000 3.333}}      {period:.3f}           {1e3 / period:.3f}
  clkfbout_system_clock_0_0   {{0.000 5.000}}      10.000           100.000
"""
    )
