"""A recorded network repeats the exits and the accuracy of the golden model."""

import numpy as np

from fluidnpu.models import golden, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import decide_exits
from fluidnpu.models.numeric import record_exits


def test_recorded_arrays_give_the_golden_exits_and_accuracy() -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    qnet, images = quantise(network), shipped_images(40)
    steps: list[tuple[int, int]] = []
    confidences, correct = record_exits(qnet, images, lambda done, of: steps.append((done, of)))
    assert steps == sorted(steps)
    assert steps[-1] == (40, 40)
    exits, classes, sure = golden.early_exit(qnet, images.images)
    assert confidences.shape == correct.shape == (40, len(network.exits))
    chosen = decide_exits(list(confidences.T), network.thresholds)
    np.testing.assert_array_equal(chosen, exits)
    samples = np.arange(40)
    np.testing.assert_array_equal(confidences[samples, exits], sure)
    np.testing.assert_array_equal(correct[samples, exits], classes == images.labels)
