"""Labels of data become a network's by their names, or by number where both count alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fluidnpu.models import ImageSet, ModelsError, Network
from fluidnpu.models.exits import Task, check_labels, fit_labels
from fluidnpu.models.graph import ExitCheck, MapTask
from fluidnpu.models.numeric import prepare
from fluidnpu.models.training.examples import Examples
from fluidnpu.models.zoo import random_network
from fluidnpu.models.zoo.hourglass import random_hourglass

NAMES = ("ant", "bee", "cat")


def images(*labels: int, names: tuple[str, ...] = ()) -> ImageSet:
    pixels = np.zeros((len(labels), 1, 1, 1), np.uint8)
    return ImageSet(images=pixels, labels=np.array(labels), class_names=names, remarks=("odd",), source="these")


def task(*names: str, classes: int = 3) -> Task:
    return Task(name="net", check=ExitCheck.TOP, classes=classes, class_names=names)


@pytest.mark.parametrize(
    ("ours", "theirs", "labels"),
    [
        (NAMES, ("cat", "ant", "bee"), [2, 0, 1]),  # another order
        (NAMES, ("bee", "cat"), [1, 2, 1]),  # fewer
        (NAMES, ("one", "two", "three"), [0, 1, 2]),  # none alike, and as many: in one order
        ((), ("x", "y", "z"), [0, 1, 2]),
        (NAMES, ("0", "1", "2"), [0, 1, 2]),
        (NAMES, (), [0, 1, 2]),
        (("crane", "bee", "crane"), ("a", "b", "c"), [0, 1, 2]),  # two of one name
    ],
)
def test_classes_that_fit(ours: tuple[str, ...], theirs: tuple[str, ...], labels: list[int]) -> None:
    given = range(3) if len(theirs) != 2 else (0, 1, 0)
    fitted = fit_labels(task(*ours), images(*given, names=theirs))
    assert (fitted.labels.tolist(), fitted.class_names) == (labels, ours or theirs)
    differ = bool(ours and theirs) and set(theirs).isdisjoint({*ours, "0"})
    assert (fitted.remarks[0], len(fitted.remarks), fitted.source) == ("odd", 1 + differ, "these")
    if differ:
        assert fitted.remarks[1] == (
            "the classes of these have other names than those of 'net', and are taken in one order: "
            f"'{theirs[0]}' is '{ours[0]}'"
        )
    assert fit_labels(task(*ours), fitted).remarks == fitted.remarks


@pytest.mark.parametrize(
    ("ours", "theirs", "labels", "why"),
    [
        (NAMES, ("ant", "dog", "cat"), [0], r"'dog' is none of ant, bee, cat: rename it"),
        ((), ("x", "y"), [0], r"tells 3 classes apart, and these have 2 \(x, y\): name all 3 in their order"),
        (NAMES, ("x", "y"), [0], r"these have 2 \(x, y\)"),
        (("crane", "bee", "crane"), ("bee", "crane"), [0], "'crane' is two of crane, bee, crane"),
        (NAMES, ("ant", "bee"), [2], "must be among the 2 classes named there, not 2"),
        ((), (), [0, 3], r"labels must be classes 0\.\.2 of 'net', and 0\.\.3 came"),
        ((), (), [-1], r"labels must be classes 0\.\.2"),
        (NAMES, NAMES, [-1], r"must be among the 3 classes named there, not -1"),
    ],
)
def test_classes_that_do_not_fit(ours: tuple[str, ...], theirs: tuple[str, ...], labels: list[int], why: str) -> None:
    with pytest.raises(ModelsError, match=why):
        fit_labels(task(*ours), images(*labels, names=theirs))


def test_names_are_those_of_the_classes() -> None:
    network = random_network(1)
    count = network.classes
    many = tuple(f"class {number}" for number in range(count))
    assert Task.of(network, many, "a file").class_names == many
    assert Task.of(network).class_names == ()
    with pytest.raises(ModelsError, match=rf"a file must name the {count} classes of '.*', and it names {count + 1}"):
        Task.of(network, (*many, "more"), "a file")


def test_unlabelled_images_bring_names_that_are_as_many() -> None:
    bare = ImageSet(images=np.zeros((1, 1, 1, 1), np.uint8), class_names=NAMES)
    assert fit_labels(task(), bare).class_names == NAMES
    assert fit_labels(task(classes=2), bare).class_names == ()
    assert not fit_labels(task(), bare).labelled


def test_a_network_without_classes_leaves_labels_out() -> None:
    """A detector's ranges may be calibrated on whatever folders there are."""
    fitted = fit_labels(task(*NAMES, classes=0), images(5, 7, names=("x",) * 9))
    assert (fitted.labelled, fitted.class_names) == (False, NAMES)
    with pytest.raises(ModelsError, match="'net' tells none apart"):
        check_labels(task(classes=0), np.array([0]))


@pytest.mark.parametrize("which", MapTask)
def test_maps_have_labels_of_their_own_kind(which: MapTask) -> None:
    network: Network = random_hourglass(1, which)
    height, width, channels = network.check.shape  # type: ignore[union-attr]
    truths = np.zeros((2, channels, 2)) if which is MapTask.LANDMARKS else np.zeros((2, height, width), np.int64)
    pixels = np.zeros((2, 1, 1, 1), np.uint8)
    fitted = fit_labels(Task.of(network), ImageSet(images=pixels, labels=truths))
    np.testing.assert_array_equal(fitted.labels, truths)
    for wrong in (np.zeros(2, np.int64), truths[:, :1]):
        with pytest.raises(ModelsError, match="needs"):
            fit_labels(Task.of(network), ImageSet(images=pixels, labels=wrong))


def test_the_library_asks_at_the_same_door() -> None:
    """Preparing and training follow the names, too."""
    network = random_network(1)
    names = tuple(f"class {number}" for number in range(network.classes))
    network = replace(network, class_names=names, preprocessing=None)
    pixels = np.random.default_rng(0).integers(0, 256, (network.classes, *network.tensors[network.input]), np.uint8)
    right = ImageSet(images=pixels, labels=np.arange(len(names)))
    turned = ImageSet(images=pixels, labels=np.arange(len(names))[::-1], class_names=names[::-1])
    assert prepare(network, images=turned).exits == prepare(network, images=right).exits
    np.testing.assert_array_equal(Examples.of(network, turned).images_and_labels()[1], right.labels)
    few = ImageSet(images=pixels, labels=np.zeros(len(pixels), np.int64), class_names=("strange", names[0]))
    for work in (lambda: prepare(network, images=few), lambda: Examples.of(network, few)):
        with pytest.raises(ModelsError, match="'strange' is none of"):
            work()
