"""Fig. 10 of Fluid Batching in the `paper` model: each way of batching on its own best design.

    python benchmarks/ablation.py [folder with layers_resnet50.json and layers_inception_v3.json]

Numbers are modelled, not measured. The figure itself cannot be compared digit by digit: the paper prints it
without values.
"""

import sys
from pathlib import Path

from fluidnpu.boards import load_board
from fluidnpu.dse.paper import ablation
from fluidnpu.models import read_layer_table

DEFAULT = Path(__file__).resolve().parent.parent / "models" / "data"
B_MAX = 8
BOARDS = ("zc706", "zcu104")  # of the paper


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    for network in ("resnet50", "inception_v3"):
        workload = read_layer_table(folder / f"layers_{network}.json")
        for name in BOARDS:
            board = load_board(name)
            print(f"{network} on {name}, GOP/s at B = 1..{B_MAX}")
            rows = ablation(workload, board, b_max=B_MAX)
            for row in rows:
                print(
                    f"  {row.name:18} {row.point!s:17} "
                    + " ".join(f"{x:6.1f}" for x in row.gops)
                    + f"   peak {row.peak_gops:.1f}"
                )
            first, last = rows[0], rows[-1]
            gain = [100 * (b / a - 1) for a, b in zip(first.gops, last.gops, strict=True)]
            print(f"  {last.name} over {first.name}, %".ljust(39) + " ".join(f"{x:+6.1f}" for x in gain))


if __name__ == "__main__":
    main()
