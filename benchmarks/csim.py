"""Speed of C simulation of the generated HLS core on the shipped ResNet-8, for both boards' designs.

    python benchmarks/csim.py

Compiling is counted apart; the compiled core is cached. The NumPy model of the core and the golden model
stand beside it.
"""

import time

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program, csim_network
from fluidnpu.hls.core import compile_core, execute_streams_reference, layer_streams
from fluidnpu.models import golden, quantise, read_onnx, shipped_file, shipped_images

BOARDS = ("zc706", "zcu104")


def main() -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    qnet, images = quantise(network), shipped_images(8).images
    for name in BOARDS:
        design = explore(network.workload, load_board(name), model="paper", core="rtl").design
        start = time.perf_counter()
        compile_core(design)
        print(
            f"{name} <{design.t_r}, {design.t_p}, {design.t_c}>: compiled or found in {time.perf_counter() - start:.1f} s"
        )
        report = csim_network(qnet, design, images)
        macs = network.workload.macs * sum(report.batches)
        print(
            f"  {report.summary()}: {report.seconds:.1f} s, {macs / report.seconds / 1e6:.0f} M multiply-accumulates/s"
        )

        program = compile_program(qnet, design)
        slots = program.new_slots(8)
        start = time.perf_counter()
        for index, descriptor in enumerate(program.descriptors):
            streams = layer_streams(descriptor, program.fbcb_word(index, 8), design, slots, program.weights)
            execute_streams_reference(streams, design)
        print(f"  streams and NumPy model of the core, batch 8: {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        golden.run(qnet, images)
        print(f"  golden, 8 images: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
