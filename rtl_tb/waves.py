"""Writes a waveform of one layer and a decoded log beside it: `python -m rtl_tb.waves '{"kernel": [3, 3]}' 0 '[[0, 1, 2], [0, 2]]'`.

The arguments are a shape (fields of `rtl_tb.benches.jobs.Shape`), an FBCB word and the slots of each batch, one after another:
exits and merges happen between them. The waveform is VCD, which every viewer opens; it needs no library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .data_plane import TOP, data_plane_parameters
from .sim import Model, run, run_folder

SIZES = {"t_r": 16, "t_p": 4, "t_c": 8, "b_max": 8, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4}


def record(shape: str, word: int, batches: str) -> tuple[Path, Path]:
    """(waveform, decoded log) of a layer; SimulationError when a beat is wrong."""
    from .benches.jobs import bench_design

    parameters = data_plane_parameters(bench_design(SIZES)) | {"Layers": 1, "BuildId": 0}
    model = Model(top=TOP, parameters=parameters, waves=True)
    env = {"SIZES": json.dumps(SIZES), "LAYERS": "1", "SHAPE": shape, "WORD": str(word), "BATCHES": batches}
    run(model, "waves", env=env)
    folder = run_folder(model, "waves", env=env)
    return folder / "dump.vcd", folder / "bursts.txt"


def main() -> None:
    """Record and say where the files are."""
    if len(sys.argv) != 4:
        sys.exit("python -m rtl_tb.waves SHAPE_JSON FBCB_WORD BATCHES_JSON, not " + " ".join(sys.argv[1:]))
    wave, log = record(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    print(f"waveform: {wave}\nlog: {log}\n" + "\n".join(log.read_text().splitlines()[:20]))


if __name__ == "__main__":
    main()
