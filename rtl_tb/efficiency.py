"""Sustained DMA efficiency of the data plane in simulation, layer by layer: `python -m rtl_tb.efficiency` prints the table.

Layers are ResNet-50's distinct 1x1 and 3x3 shapes with stride 1, batch 1, smaller in height and width where a column tile would take more
than `LIMIT` input beats, and with one column tile: the others repeat it.
Figures are simulated: a DRAM model with a fixed latency behind each port, a core that takes a beat a cycle.

>>> [layer["name"] for layer in resnet50_layers()][:2]
['1x1 64 -> 64, 56 x 56', '3x3 64 -> 64, 14 x 14']
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .data_plane import TOP, data_plane_parameters
from .sim import Model, run, run_folder

LIMIT = 35_000
GOAL = 0.95  # useful input words for each word that the port carried
SIZES = {"t_r": 2048, "t_p": 7, "t_c": 128, "b_max": 1, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 8}
PORTS = {"port_bytes": 16, "buffer_words": 1 << 17}
STAGES = ((56, 64), (28, 128), (14, 256), (7, 512))


def resnet50_layers() -> list[dict[str, Any]]:
    """Distinct stride-1 shapes of ResNet-50's bottlenecks, scaled."""
    layers = []
    for side, width in STAGES:
        before = [width] if side == 56 else []
        for kernel, inputs, outputs in ((1, width, width),) * len(before) + (
            (3, width, width),
            (1, width, 4 * width),
            (1, 4 * width, width),
        ):
            out, columns = side, min(outputs, SIZES["t_c"])
            while out * out * -(-kernel * kernel * inputs // SIZES["t_p"]) > LIMIT:
                out -= 7
            shape = {
                "kernel": (kernel, kernel),
                "stride": (1, 1),
                "out": (out, out),
                "group_words": inputs,
                "columns": columns,
            }
            layers.append(
                {"name": f"{kernel}x{kernel} {inputs} -> {columns}, {out} x {out}", "shape": shape, "word": 0}
            )
    return layers


def measure(layers: list[dict[str, Any]], latency: int = 100) -> list[dict[str, Any]]:
    """Run the layers on the RTL and return what was counted for each; SimulationError when a beat is wrong."""
    from .benches.jobs import bench_design

    parameters = data_plane_parameters(bench_design(SIZES), **PORTS) | {"Layers": 1, "BuildId": 0}
    model = Model(top=TOP, parameters=parameters)
    env = {"SIZES": json.dumps(SIZES), "PORT_BYTES": str(PORTS["port_bytes"]), "LAYERS": "1", "LATENCY": str(latency)}
    env |= {"SHAPES": json.dumps(layers)}
    run(model, "efficiency", env=env)
    results: list[dict[str, Any]] = json.loads(
        (run_folder(model, "efficiency", env=env) / "efficiency.json").read_text()
    )
    return results


def use_of_port(result: dict[str, Any]) -> float:
    """Input words delivered to the core for each word the port carried; above 1 where windows or column tiles share words."""
    return float(result["delivered_words"] / (result["port_beats"] * result["port_words"]))


def beats_per_cycle(result: dict[str, Any]) -> float:
    """Input beats for each cycle of the layer, start and end included."""
    return float(result["input_beats"] / result["cycles"])


def why(result: dict[str, Any]) -> str:
    """What keeps the use of the port from being higher."""
    port = result["port_beats"]
    reasons = {
        "lines that were replaced before their last use are read again": result["read_again"],
        "whole lines are read at the ends of rows": result["outside"],
    }
    told = [f"{text} ({count} of {port} port words)" for text, count in reasons.items() if count]
    return "; ".join(told) or "every word read is used"


def bound(result: dict[str, Any]) -> str:
    """What takes the most cycles of a layer: the stream or port with the most beats, one a cycle at best."""
    beats = {
        "input stream": result["input_beats"],
        "port m1 (inputs)": result["port_beats"],
        "port m0 (weights)": result["program_beats"],
        "output stream": result["output_beats"],
        "port m2 (outputs)": result["write_beats"],
    }
    name = max(beats, key=lambda key: beats[key])
    return f"{name} {100 * beats[name] / result['cycles']:.0f} %"


def main() -> None:
    """Print the table and name the worst layer."""
    results = measure(resnet50_layers())
    print(
        f"{'layer':28} {'cycles':>7} {'input beats':>12} {'port beats':>11} {'useful/port word':>17} {'beats/cycle':>12}  busiest"
    )
    for r in results:
        print(
            f"{r['name']:28} {r['cycles']:7} {r['input_beats']:12} {r['port_beats']:11} {use_of_port(r):17.3f} "
            f"{beats_per_cycle(r):12.3f}  {bound(r)}"
        )
    worst = min(results, key=use_of_port)
    slowest = min(results, key=beats_per_cycle)
    print(f"worst use of the port: {worst['name']} ({use_of_port(worst):.3f}): {why(worst)}")
    print(
        f"fewest input beats a cycle: {slowest['name']} ({beats_per_cycle(slowest):.3f}): busiest is {bound(slowest)}"
    )
    low = [r["name"] for r in results if use_of_port(r) < GOAL]
    print(
        f"useful words are at least {GOAL:.0%} of what the port carried on {len(results) - len(low)} of {len(results)} layers"
    )
    sys.exit(bool(low))


if __name__ == "__main__":
    main()
