"""ResNet-50 layers on one array in our `paper` model, in ZigZag and in SCALE-Sim: cycles, utilisation, time.

    python benchmarks/peers.py --zigzag ZZ/bin/python --scalesim SS/bin/python [--layers NAME,...]
                               [--timeout SECONDS]

The peers are no dependencies of ours: each runs in an environment of its own, made for example with `pip
install zigzag-dse==3.9.1 six` and `pip install scalesim==3.0.0 "numpy<2" "pandas<3"`, and is skipped where it
is not given. All numbers are modelled. This file is its own worker: `--worker` runs in the peer's environment
and imports nothing of ours.

The array is the published point of ResNet-50 on ZC706, <4652, 7, 128>: 7 multipliers deep, 128 columns wide,
16-bit words, 8 words a cycle and port. How the models differ:

- ours lets idle columns take other rows and pairs of PEs work as one (k = 2); neither peer knows that, so
  layers whose columns do not fill the array differ most. It searches nothing per layer: time is a closed
  form.
- ZigZag gets our memories (weights at the multipliers, T_R partial sums a column, three DRAM ports) and one
  spatial mapping (P by C), and searches loop orders for the least latency; it may also hold outputs in
  another order than we do.
- SCALE-Sim simulates a weight-stationary systolic array cycle by cycle with unlimited bandwidth: every tile
  pays for filling and draining the array, which costs most where few rows follow each other.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEFAULT_LAYERS = "conv1,layer1.1.conv2,layer1.0.conv3,layer2.1.conv2,layer3.1.conv1,layer4.1.conv3"
BOARD = "zc706"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zigzag", help="Python of an environment with zigzag-dse")
    parser.add_argument("--scalesim", help="Python of an environment with scalesim")
    parser.add_argument("--layers", default=DEFAULT_LAYERS, help="layers of ResNet-50, or 'all' distinct shapes")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds that a peer may take")
    parser.add_argument("--worker", choices=sorted(WORKERS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(WORKERS[given.worker](json.load(sys.stdin))))
    else:
        compare(given)


def compare(given: argparse.Namespace) -> None:
    from fluidnpu.boards import load_board
    from fluidnpu.dse import Point, search
    from fluidnpu.dse.paper.model import best_stack
    from fluidnpu.models import read_layer_table

    board = load_board(BOARD)
    words = board.paper_words_per_cycle
    point = Point(t_r=4652, t_p=7, t_c=128)
    path = Path(__file__).resolve().parent.parent / "models" / "data" / "layers_resnet50.json"
    workload = read_layer_table(path)
    if given.layers == "all":
        layers = list({(layer.r, layer.p, layer.c): layer for layer in reversed(workload.layers)}.values())[::-1]
    else:
        wanted = given.layers.split(",")
        layers = [layer for layer in workload.layers if layer.name in wanted]
    shapes = [(layer.r, layer.p, layer.c) for layer in layers]
    ours = [best_stack(layer, point, 1, words)[1] / words for layer in layers]

    started = time.perf_counter()
    space = len(search(workload, board, b_max=1))
    seconds = (time.perf_counter() - started) / space
    task = {"shapes": shapes, "t_r": point.t_r, "t_p": point.t_p, "t_c": point.t_c, "words": words}
    columns: dict[str, list[float]] = {"ours": ours}
    print(f"ResNet-50 on {point}, {words} words a cycle and port, B = 1; {len(shapes)} layers; all modelled")
    print(f"  ours: {seconds * 1e6:.1f} us a design point (all {len(workload.layers)} layers, {space} points searched)")
    for name, python in (("zigzag", given.zigzag), ("scalesim", given.scalesim)):
        answer = _peer(name, python, task, given.timeout)
        if isinstance(answer, str):
            print(f"  {name}: skipped, {answer}")
            continue
        columns[name] = answer["cycles"]
        print(
            f"  {name} {answer['version']}: {sum(answer['seconds']):.1f} s a design point ({len(shapes)} layers only), "
            f"{min(answer['seconds']):.1f} .. {max(answer['seconds']):.1f} s a layer"
        )
    _table(layers, shapes, columns, point.dsp)


def _peer(name: str, python: str | None, task: dict[str, Any], timeout: float) -> dict[str, Any] | str:
    """The worker's answer, or why there is none."""
    if python is None:
        return f"give the Python of an environment that has it with --{name}"
    words = [python, "-W", "ignore", __file__, "--worker", name]
    try:
        done = subprocess.run(words, input=json.dumps(task), capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it did not answer: {str(error)[-120:]}"
    if done.returncode:
        return f"it ended with: {(done.stderr.strip().splitlines() or ['nothing'])[-1][:160]}"
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _table(layers: list[Any], shapes: list[tuple[int, int, int]], columns: dict[str, list[float]], macs: int) -> None:
    """Cycles, share of the array's multipliers in use, and each peer's cycles over ours."""
    ideal = [r * p * c / macs for r, p, c in shapes]
    head = f"{'layer':16} {'R x P x C':>18} {'at 100 %':>10}"
    for name in columns:
        head += f" {name:>10} {'use':>7}" + (f" {'to ours':>7}" if name != "ours" else "")
    print(head)
    rows = [(one.name, "x".join(map(str, s)), i) for one, s, i in zip(layers, shapes, ideal, strict=True)]
    rows.append(("sum", "", sum(ideal)))
    for index, (name, shape, best) in enumerate(rows):
        line, last = f"{name:16} {shape:>18} {best:10.0f}", index == len(rows) - 1
        for column, cycles in columns.items():
            value, ours = (sum(cycles), sum(columns["ours"])) if last else (cycles[index], columns["ours"][index])
            line += f" {value:10.0f} {100 * best / value:6.1f}%" + (f" {value / ours:7.2f}" if column != "ours" else "")
        print(line)


def zigzag(task: dict[str, Any]) -> dict[str, Any]:
    """Runs in ZigZag's environment. Cycles: its latency with loading and storing."""
    import importlib.metadata
    import logging

    import yaml
    from zigzag.api import get_hardware_performance_zigzag

    logging.disable(logging.CRITICAL)
    cycles, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{name}.yaml") for name in ("workload", "accelerator", "mapping")}

        def write(name: str, what: Any) -> None:
            Path(paths[name]).write_text(yaml.safe_dump(what, sort_keys=False), encoding="utf-8")

        write("accelerator", _zigzag_accelerator(task))
        unrolled = {"D1": [f"P, {task['t_p']}"], "D2": [f"C, {task['t_c']}"]}
        links = {"O": "O", "W": "I2", "I": "I1"}
        write("mapping", [{"name": "default", "spatial_mapping": unrolled, "memory_operand_links": links}])
        for shape in task["shapes"]:
            layer = {
                "id": 0,
                "name": "layer",
                "operator_type": "Gemm",
                "equation": "O[r][c]+=I[r][p]*W[p][c]",
                "loop_dims": ["R", "P", "C"],
                "loop_sizes": shape,
                "operand_precision": {"W": 16, "I": 16, "O": 48, "O_final": 16},
                "operand_source": {"I": 0, "W": 0},
            }
            write("workload", [layer])
            started = time.perf_counter()
            found = get_hardware_performance_zigzag(
                *paths.values(), opt="latency", dump_folder=folder, loma_show_progress_bar=False
            )
            seconds.append(time.perf_counter() - started)
            cycles.append(float(found[1]))
    return {"cycles": cycles, "seconds": seconds, "version": importlib.metadata.version("zigzag-dse")}


def _zigzag_accelerator(task: dict[str, Any]) -> dict[str, Any]:
    """Our array in ZigZag's words: a weight at each multiplier, T_R partial sums a column, DRAM with a port
    for each operand.
    """

    def port(name: str, kind: str, bits: int, *uses: str) -> dict[str, Any]:
        return {"name": name, "type": kind, "bandwidth_min": bits, "bandwidth_max": bits, "allocation": list(uses)}

    def memory(size: int, operands: list[str], served: list[str], *ports: dict[str, Any]) -> dict[str, Any]:
        costs = {"r_cost": 1.0, "w_cost": 1.0, "area": 0.0, "latency": 1}
        return {"size": size, **costs, "operands": operands, "ports": list(ports), "served_dimensions": served}

    sums, bits = 48, 16 * task["words"]
    return {
        "name": "npu",
        "memories": {
            "weights": memory(
                16, ["I2"], [], port("r_port_1", "read", 16, "I2, tl"), port("w_port_1", "write", 16, "I2, fh")
            ),
            "accumulators": memory(
                sums * task["t_r"],
                ["O"],
                ["D1"],
                port("r_port_1", "read", sums, "O, tl"),
                port("r_port_2", "read", sums, "O, th"),
                port("w_port_1", "write", sums, "O, fl"),
                port("w_port_2", "write", sums, "O, fh"),
            ),
            "dram": memory(
                1 << 36,
                ["I1", "I2", "O"],
                ["D1", "D2"],
                port("r_port_1", "read", bits, "I1, tl"),
                port("r_port_2", "read", bits, "I2, tl"),
                port("rw_port_1", "read_write", bits, "O, tl", "O, fl", "O, th", "O, fh"),
                port("w_port_1", "write", bits, "I1, fh", "I2, fh"),
            ),
        },
        "operational_array": {
            "input_precision": [16, 16],
            "unit_energy": 1.0,
            "unit_area": 1.0,
            "dimensions": ["D1", "D2"],
            "sizes": [task["t_p"], task["t_c"]],
        },
    }


def scalesim(task: dict[str, Any]) -> dict[str, Any]:
    """Runs in SCALE-Sim's environment. Cycles: its total without prefetching, bandwidth unlimited."""
    import contextlib
    import importlib.metadata
    import io

    from scalesim.scale_sim import scalesim as simulation

    sections = {
        "general": {"run_name": "npu"},
        "architecture_presets": {
            "ArrayHeight": task["t_p"], "ArrayWidth": task["t_c"], "IfmapSramSzkB": 1024, "FilterSramSzkB": 1024, "OfmapSramSzkB": 2048,
            "IfmapOffset": 0, "FilterOffset": 10_000_000, "OfmapOffset": 20_000_000, "Dataflow": "ws", "Bandwidth": task["words"],
            "ReadRequestBuffer": 512, "WriteRequestBuffer": 512,
        },
        "layout": {
            "IfmapCustomLayout": False, "IfmapSRAMBankBandwidth": 10, "IfmapSRAMBankNum": 10, "IfmapSRAMBankPort": 2,
            "FilterCustomLayout": False, "FilterSRAMBankBandwidth": 10, "FilterSRAMBankNum": 10, "FilterSRAMBankPort": 2,
        },
        "sparsity": {"SparsitySupport": False, "SparseRep": "ellpack_block", "OptimizedMapping": False, "BlockSize": 8,
                     "RandomNumberGeneratorSeed": 40},
        "run_presets": {"InterfaceBandwidth": "CALC", "UseRamulatorTrace": False},
    }  # fmt: skip
    lines = [
        line for name, keys in sections.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in keys.items()))
    ]
    cycles, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        config, layout, topology = (Path(folder) / name for name in ("npu.cfg", "layout.csv", "topology.csv"))
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        layout.write_text("Layer\n", encoding="utf-8")
        for r, p, c in task["shapes"]:
            topology.write_text(f"Layer,M,N,K,\nlayer,{r},{c},{p},\n", encoding="utf-8")
            started = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                one = simulation(
                    save_disk_space=True, verbose=False, config=str(config), topology=str(topology), layout=str(layout), input_type_gemm=True
                )  # fmt: skip
                one.run_scale(top_path=folder)
            seconds.append(time.perf_counter() - started)
            cycles.append(float(one.runner.single_layer_sim_object_list[0].get_compute_report_items()[1]))
    return {"cycles": cycles, "seconds": seconds, "version": importlib.metadata.version("scalesim")}


WORKERS = {"zigzag": zigzag, "scalesim": scalesim}


if __name__ == "__main__":
    main()
