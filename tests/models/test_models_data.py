"""The data reader on files made here, and the shipped copy against Debian's package where that is
installed.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from fluidnpu.models import ImageSet, shipped_file, shipped_images
from fluidnpu.models.errors import DataError
from fluidnpu.models.images import read_image_file
from fluidnpu.models.images.files import write_image_file
from fluidnpu.models.training import FASHION_MNIST_FOLDER, load_fashion_mnist


def idx(path: Path, shape: tuple[int, ...], body: bytes, magic: bytes = b"\0\0\x08") -> None:
    with gzip.open(path, "wb") as stream:
        stream.write(magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body)


def write_split(folder: Path, stem: str = "t10k", count: int = 3) -> None:
    idx(folder / f"{stem}-images-idx3-ubyte.gz", (count, 2, 4), bytes(range(count * 8)))
    idx(folder / f"{stem}-labels-idx1-ubyte.gz", (count,), bytes(range(count)))


def test_a_split_is_read_in_order(tmp_path: Path) -> None:
    write_split(tmp_path)
    found = load_fashion_mnist("test", tmp_path)
    assert found.images.shape == (3, 2, 4, 1)
    assert found.images[1, 1, 2, 0] == 8 + 4 + 2
    assert found.labels.tolist() == [0, 1, 2]
    assert len(found[1:]) == 2


def test_a_missing_file_names_the_debian_package(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"train-images-idx3-ubyte\.gz, and it does not: install Debian's package dataset-fashion-mnist$",
    ):
        load_fashion_mnist("train", tmp_path)
    with pytest.raises(DataError, match="must be 'train' or 'test', not 'validation'"):
        load_fashion_mnist("validation", tmp_path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path)
    images = tmp_path / "t10k-images-idx3-ubyte.gz"
    whole = images.read_bytes()
    images.write_bytes(whole[:20])
    with pytest.raises(DataError, match="must be a whole gzip file"):
        load_fashion_mnist("test", tmp_path)
    for shape, body, magic in [
        ((3, 2, 4), b"short", b"\0\0\x08"),
        ((3, 2, 4), bytes(24), b"\0\0\x0d"),
        ((1 << 31, 1 << 31, 1 << 31), b"", b"\0\0\x08"),
    ]:
        idx(images, shape, body, magic)
        with pytest.raises(DataError, match="whose length fits its header"):
            load_fashion_mnist("test", tmp_path)
    with gzip.open(images, "wb") as stream:
        stream.write(b"\0\0")
    with pytest.raises(DataError, match="whose length fits its header"):
        load_fashion_mnist("test", tmp_path)
    idx(images, (2, 2, 4), bytes(16))
    with pytest.raises(DataError, match="N images and N labels"):
        load_fashion_mnist("test", tmp_path)


def test_image_sets_refuse_what_does_not_match() -> None:
    with pytest.raises(DataError, match="images must be uint8"):
        ImageSet(images=np.zeros((1, 2, 2, 1), np.int64), labels=np.zeros(1, np.int64))
    with pytest.raises(DataError, match="2 images need as many labels"):
        ImageSet(images=np.zeros((2, 2, 2, 1), np.uint8), labels=np.zeros(1, np.int64))


def test_the_shipped_images_are_a_thousand_of_all_classes(tmp_path: Path) -> None:
    found = shipped_images()
    assert found.images.shape == (1000, 28, 28, 1)
    assert set(found.labels.tolist()) == set(range(10))
    write_image_file(tmp_path / "again.npz", found)
    with np.load(tmp_path / "again.npz") as archive:
        np.testing.assert_array_equal(archive["images"], found.images)
    for count in (0, 1001):
        with pytest.raises(DataError, match="between 1 and 1000 images are shipped"):
            shipped_images(count)


def test_image_files_of_ones_own(tmp_path: Path) -> None:
    few = shipped_images(3)
    write_image_file(tmp_path / "few.npz", few)
    np.testing.assert_array_equal(read_image_file(tmp_path / "few.npz").labels, few.labels)
    with pytest.raises(DataError, match="does not exist"):
        read_image_file(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", pictures=few.images)
    np.save(tmp_path / "plain.npy", few.images)
    whole = (tmp_path / "few.npz").read_bytes()
    (tmp_path / "damaged.npz").write_bytes(whole[:200] + bytes(100) + whole[300:])
    for name in ("text.npz", "other.npz", "plain.npy", "damaged.npz"):
        with pytest.raises(DataError, match="with arrays 'images' and 'labels'"):
            read_image_file(tmp_path / name)
    np.savez(tmp_path / "real.npz", images=few.images, labels=np.ones(3))
    with pytest.raises(DataError, match="must be whole numbers"):
        read_image_file(tmp_path / "real.npz")


def test_the_licence_ships_with_the_images() -> None:
    with shipped_file("LICENSE.fashion-mnist") as path:
        assert "Zalando SE" in path.read_text()


@pytest.mark.skipif(not FASHION_MNIST_FOLDER.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
def test_the_shipped_images_are_the_first_of_the_official_test_split() -> None:
    official, ours = load_fashion_mnist("test"), shipped_images()
    assert len(official) == 10_000
    np.testing.assert_array_equal(official.images[:1000], ours.images)
    np.testing.assert_array_equal(official.labels[:1000], ours.labels)
