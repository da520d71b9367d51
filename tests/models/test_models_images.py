"""Images as users have them: archives, idx files and folders, each read alike, each refused in one
sentence.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, TiffImagePlugin

from fluidnpu.models import ImageSet, NetworkError
from fluidnpu.models.errors import DataError
from fluidnpu.models.images import Intake, Preprocessing, read_images
from fluidnpu.models.images.files import write_image_file
from fluidnpu.models.images.picture import read_picture

SHAPE = (4, 6, 3)
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, *SHAPE), np.uint8)
LABELS = np.array([2, 0, 1, 1, 2, 0])


def intake(shape: tuple[int, int, int] = SHAPE, **record: object) -> Intake:
    return Intake.of(Preprocessing(**record), shape)  # type: ignore[arg-type]


def save(folder: Path, name: str, image: npt.NDArray[np.uint8]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(folder / name)
    return folder / name


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("labelled", [True, False])
def test_an_archive_of_pixels_or_floats_in_either_layout(tmp_path: Path, layout: str, labelled: bool) -> None:
    labels = {"labels": LABELS} if labelled else {}
    for pixels in (PIXELS, (PIXELS / 255).astype(np.float32)):
        arranged = pixels if layout == "NHWC" else pixels.transpose(0, 3, 1, 2)
        np.savez_compressed(tmp_path / "data.npz", images=arranged, **labels)
        found = read_images(tmp_path / "data.npz", intake())
        assert found.images.dtype == pixels.dtype
        np.testing.assert_array_equal(found.images, pixels)
        assert found.labelled == labelled
        if labelled:
            assert found.labels.tolist() == LABELS.tolist()
        else:
            with pytest.raises(DataError, match=r"needs labelled images, and those in .*data\.npz have no labels"):
                _ = found.labels


def test_a_layout_that_the_shape_leaves_open_is_the_records(tmp_path: Path) -> None:
    cubes = RNG.integers(0, 256, (2, 3, 3, 3), np.uint8)
    np.savez(tmp_path / "data.npz", images=cubes)
    for layout, wanted in (("NHWC", cubes), ("NCHW", cubes.transpose(0, 2, 3, 1))):
        way = intake((3, 3, 3), layout=layout)
        np.testing.assert_array_equal(way.arranged(cubes), wanted)
        np.testing.assert_array_equal(way.arranged(read_images(tmp_path / "data.npz", way).images), wanted)


def test_an_order_of_channels_is_applied_once(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", images=PIXELS)
    way = intake(colour="BGR")
    np.testing.assert_array_equal(way.arranged(read_images(tmp_path / "data.npz", way).images), PIXELS[..., ::-1])


def test_grey_images_and_vectors_need_no_axis_of_ones() -> None:
    grey = RNG.integers(0, 256, (5, 4, 6), np.uint8)
    np.testing.assert_array_equal(intake((4, 6, 1)).arranged(grey), grey[..., None])
    for came in (grey, grey[..., None], grey[:, None], grey.reshape(5, 24)):
        np.testing.assert_array_equal(intake((1, 1, 24)).arranged(came).reshape(5, 24), grey.reshape(5, 24))
    with pytest.raises(DataError, match=r"must be of shape \(N, 1, 1, 72\), not \(6, 4, 6, 3\)"):
        intake((1, 1, 72)).arranged(PIXELS)  # which of the two orders would be a guess


def test_a_folder_of_folders_is_classes_in_the_order_of_names(tmp_path: Path) -> None:
    for name, image in zip(("dog/1.png", "cat/2.png", "cat/1.png"), PIXELS, strict=False):
        save(tmp_path / "data" / Path(name).parent, Path(name).name, image)
    (tmp_path / "data" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "data" / ".hidden").mkdir()
    found = read_images(tmp_path / "data", intake())
    np.testing.assert_array_equal(found.images, PIXELS[[2, 1, 0]])
    assert found.labels.tolist() == [0, 0, 1]
    (tmp_path / "data" / "classes.txt").write_text("dog\nbird\ncat\n")
    found = read_images(tmp_path / "data", intake())
    np.testing.assert_array_equal(found.images, PIXELS[[0, 2, 1]])
    assert found.labels.tolist() == [0, 2, 2]
    for text, why in (("dog\n", "lacks 'cat'"), ("dog\ncat\ndog\n", "names one twice")):
        (tmp_path / "data" / "classes.txt").write_text(text)
        with pytest.raises(DataError, match=rf"must name every folder of a class once, one a line, and it {why}"):
            read_images(tmp_path / "data", intake())


def test_a_flat_folder_has_labels_in_a_table_or_none(tmp_path: Path) -> None:
    for index, image in enumerate(PIXELS[:3]):
        save(tmp_path, f"{index}.png", image)
    assert not read_images(tmp_path, intake()).labelled
    (tmp_path / "labels.csv").write_text("file,class\n2.png, 7\n0.png,1\n\n1.png,0\n")
    assert read_images(tmp_path, intake()).labels.tolist() == [1, 0, 7]
    (tmp_path / "labels.csv").write_text("0.png,1\n1.png,0\n")
    with pytest.raises(DataError, match=r"must have a class for every image, and it has none for '2\.png'"):
        read_images(tmp_path, intake())
    (tmp_path / "labels.csv").write_text("0.png,1\n1.png,dog\n")
    with pytest.raises(DataError, match="line 2 must be a file's name, a comma and a class"):
        read_images(tmp_path, intake())


def test_image_files_take_the_networks_channels(tmp_path: Path) -> None:
    grey = RNG.integers(0, 256, (4, 6, 1), np.uint8)
    save(tmp_path / "a", "0.png", grey)
    np.testing.assert_array_equal(read_images(tmp_path / "a", intake()).images[0], np.repeat(grey, 3, axis=2))
    assert read_images(tmp_path / "a").images.shape == (1, 4, 6, 1)
    with pytest.raises(DataError, match="have 1, 3 or 4 channels, and the network takes 2"):
        read_images(tmp_path / "a", intake((4, 6, 2)))


def test_sizes_of_files_must_fit_or_be_resized(tmp_path: Path) -> None:
    save(tmp_path, "0.png", PIXELS[0])
    save(tmp_path, "1.png", RNG.integers(0, 256, (8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"1\.png': images must be of shape \(N, 4, 6, 3\), not .* `fluidnpu prepare"):
        read_images(tmp_path, intake())
    with pytest.raises(DataError, match=r"that no network resizes must have one size"):
        read_images(tmp_path)
    assert read_images(tmp_path, intake(resize="stretch")).images.shape == (2, *SHAPE)


def test_idx_files_bring_the_labels_beside_them(tmp_path: Path) -> None:
    grey = RNG.integers(0, 256, (5, 4, 6), np.uint8)
    header = b"\0\0\x08\x03" + struct.pack(">3I", *grey.shape)
    (tmp_path / "my-images-idx3-ubyte").write_bytes(header + grey.tobytes())
    way = intake((4, 6, 1))
    assert not read_images(tmp_path / "my-images-idx3-ubyte", way).labelled
    labels = b"\0\0\x08\x01" + struct.pack(">I", 5) + bytes([3, 1, 4, 1, 5])
    with gzip.open(tmp_path / "my-labels-idx1-ubyte.gz", "wb") as stream:
        stream.write(labels)
    found = read_images(tmp_path / "my-images-idx3-ubyte", way)
    np.testing.assert_array_equal(found.images[..., 0], grey)
    assert found.labels.tolist() == [3, 1, 4, 1, 5]
    with gzip.open(tmp_path / "my-labels-idx1-ubyte.gz", "wb") as stream:
        stream.write(labels[:7] + b"\4" + labels[8:-1])
    with pytest.raises(DataError, match="must hold N images and N labels"):
        read_images(tmp_path / "my-images-idx3-ubyte", way)


def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("no archive")
    save(tmp_path / "mixed" / "class", "0.png", PIXELS[0])
    save(tmp_path / "mixed", "1.png", PIXELS[0])
    save(tmp_path / "linked", "0.png", PIXELS[0])
    (tmp_path / "linked" / "1.png").symlink_to(tmp_path / "mixed" / "1.png")
    save(tmp_path / "away" / "real", "0.png", PIXELS[0])
    (tmp_path / "away" / "link").symlink_to(tmp_path / "mixed")
    (tmp_path / "broken").mkdir()
    whole = (tmp_path / "mixed" / "1.png").read_bytes()
    (tmp_path / "broken" / "0.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "renamed").mkdir()
    (tmp_path / "renamed" / "0.png").write_bytes(b"%PDF-1.4 no image")
    np.savez(tmp_path / "none.npz", images=PIXELS[:0])
    np.savez(tmp_path / "int.npz", images=PIXELS.astype(np.int32))
    np.savez(tmp_path / "few.npz", images=PIXELS, labels=LABELS[:3])
    np.savez(tmp_path / "object.npz", images=np.array([{}], object))
    np.savez(tmp_path / "scalar.npz", images=np.float32(1))
    liar = io.BytesIO()
    np.lib.format.write_array_header_1_0(  # type: ignore[no-untyped-call]
        liar, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 4, 6, 3)}
    )
    with zipfile.ZipFile(tmp_path / "liar.npz", "w") as archive:
        archive.writestr("images.npy", liar.getvalue() + bytes(72))
    cases = {
        "missing.npz": "does not exist",
        "empty": r"must hold 1 to 200000 images \(.*\), not 0",
        "text.npz": "must be an .npz with arrays 'images' and 'labels', an idx file, or a folder of images",
        "mixed": r"must hold folders of classes or images, and it holds both \('class' and '1\.png'\)",
        "linked": r"1\.png' must be a file, and it is a link, which is not followed",
        "away": "link' must be a folder, and it is a link, which is not followed",
        "broken": r"0\.png' must be an image \(PNG, .*\), and reading it failed",
        "renamed": r"0\.png' must be an image \(PNG, .*\), and reading it failed",
        "none.npz": "must hold at least one image",
        "int.npz": "must be uint8 or floats, not int32",
        "few.npz": "must hold a label for each of 6 images",
        "object.npz": "arrays 'images' and 'labels'",
        "scalar.npz": "has no dimensions",
        "liar.npz": "does not fill its",
    }
    for name, message in cases.items():
        with pytest.raises(NetworkError, match=message) as refused:
            read_images(tmp_path / name, intake())
        assert "\n" not in str(refused.value)
    monkeypatch.setattr("fluidnpu.models.images.picture.MOST_PIXELS", 20)
    with pytest.raises(DataError, match="must have at most 20 pixels, and it has 6 x 4"):
        read_images(tmp_path / "away" / "real", intake())
    monkeypatch.setattr("fluidnpu.models.images.folder.MOST_SET_BYTES", 100)
    monkeypatch.setattr("fluidnpu.models.images.picture.MOST_PIXELS", 1 << 20)
    save(tmp_path / "away" / "real", "1.png", PIXELS[0])
    with pytest.raises(DataError, match="must take at most 0 MiB together, and 2 of"):
        read_images(tmp_path / "away" / "real", intake())
    monkeypatch.setattr("fluidnpu.models.images.files.MOST_SET_BYTES", 100)
    np.savez_compressed(tmp_path / "bomb.npz", images=np.zeros((100, *SHAPE), np.uint8))
    with pytest.raises(DataError, match=r"the array 'images' of .* must take at most 0 MiB"):
        read_images(tmp_path / "bomb.npz", intake())


def test_a_set_that_is_written_is_read_back(tmp_path: Path) -> None:
    for found in (ImageSet(images=PIXELS), ImageSet(images=PIXELS / 255, labels=LABELS + 300)):
        write_image_file(tmp_path / "again.npz", found)
        again = read_images(tmp_path / "again.npz")
        np.testing.assert_array_equal(again.images, found.images)
        assert again.labelled == found.labelled
        if found.labelled:
            np.testing.assert_array_equal(again.labels, found.labels)


def test_a_resize_is_pillows_and_a_crop_keeps_the_middle() -> None:
    photo = RNG.integers(0, 256, (10, 20, 3), np.uint8)
    stretched = intake(resize="stretch", interpolation="bicubic").arranged(photo[None])[0]
    np.testing.assert_array_equal(
        stretched, np.asarray(Image.fromarray(photo).resize((6, 4), Image.Resampling.BICUBIC))
    )
    cropped = intake((4, 4, 3), resize="crop:6").arranged(photo[None])[0]  # to 6 x 12, then rows 1.., columns 4..
    whole = np.asarray(Image.fromarray(photo).resize((12, 6), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(cropped, whole[1:5, 4:8])
    real = intake(resize="crop").arranged((photo / 255)[None])
    assert real.shape == (1, *SHAPE)
    assert 0 <= real.min() <= real.max() <= 1
    with pytest.raises(DataError, match="a crop to 4 x 6 needs a larger image than 3 x 6"):
        intake(resize="crop:3").arranged(photo[None])


def test_records_are_read_back_and_refused() -> None:
    record = Preprocessing(scale=1 / 127.5, mean=(1.0, 0.5, 0.0), std=(0.5,), colour="BGR", resize="crop:256")
    assert Preprocessing.loads(record.dumps()) == record
    assert record.describe() == "crop 256 (bilinear), BGR, pixel * 1/127.5, - (1, 0.5, 0), / 0.5; floats in 0..2"
    cases: dict[str, dict[str, object]] = {
        "scale of a pixel must be a number above 0, not -1": {"scale": -1},
        "mean must be one finite number": {"mean": (float("nan"),)},
        "std must be above 0": {"std": (0.0,)},
        "layout must be one of NHWC, NCHW, not 'HWC'": {"layout": "HWC"},
        "colour must be one of RGB, BGR": {"colour": "GBR"},
        "resize must be none, stretch, crop or crop:256": {"resize": "crop:0"},
        r"resize must be none, stretch, crop or crop:256 \(up to 16384\)": {"resize": "crop:99999"},
        "interpolation must be one of bilinear": {"interpolation": "linear"},
        "must go from low to high": {"float_range": (1.0, 0.0)},
        "must be two finite numbers": {"float_range": (1.0,)},
    }
    for message, wrong in cases.items():
        with pytest.raises(DataError, match=message):
            Preprocessing(**wrong)  # type: ignore[arg-type]
    for text in ("[]", '{"scales": 1}', '{"mean": 0.5}', "no JSON"):
        with pytest.raises(DataError, match="preprocessing record"):
            Preprocessing.loads(text)
    with pytest.raises(DataError, match="must be one number or one for each of 3 channels, not 2"):
        intake(mean=(0.5, 0.5))
    with pytest.raises(DataError, match="mean and std must be for as many channels, not for 3 and 2"):
        intake(mean=(0.5, 0.5, 0.5), std=(1.0, 2.0))


def test_floats_beside_the_declared_range_are_refused() -> None:
    bare = Intake.of(None, (1, 1, 2))
    for values, message in (
        ((0.0, 255.0), r"must lie in 0\.\.1, and 0\.\.255 came; give uint8, or set the preprocessing"),
        ((0.5, -0.1), r"must lie in 0\.\.1, and -0\.1\.\.0\.5 came"),
        ((0.5, float("nan")), "and NaN came"),
        ((0.5, float("inf")), "and inf came"),
    ):
        with pytest.raises(DataError, match=message):
            bare.values(np.array(values).reshape(1, 1, 1, 2))
    bare.values(np.array([1 + 1e-7, -1e-7]).reshape(1, 1, 1, 2))  # rounding, not another unit
    wide = intake((1, 1, 2), float_range=(-4, 4))
    assert wide.values(np.array([-4.0, 3.0]).reshape(1, 1, 1, 2)).ravel().tolist() == [-4, 3]
    assert wide.random(50).min() < -3
    assert wide.largest == 4
    assert bare.random(3).dtype == np.uint8
    np.testing.assert_array_equal(bare.random(3, 7), bare.random(3, 7))


# -- depth, modes and orientation of files -------------------------------------------------------------------

DEEP = np.linspace(0, 65535, 24).round().astype(np.uint16).reshape(4, 6)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif", "deep.pgm", "big-endian.tif"])
def test_grey_of_sixteen_bits_is_scaled(tmp_path: Path, name: str) -> None:
    """Pillow's own conversion to eight bits clips: all above 255 would be white."""
    if name == "big-endian.tif":
        Image.frombytes("I;16B", (6, 4), DEEP.astype(">u2").tobytes()).save(tmp_path / name)
    else:
        Image.fromarray(DEEP).save(tmp_path / name)
    wanted = np.rint(DEEP / 257).astype(np.uint8)
    np.testing.assert_array_equal(read_images(tmp_path, intake((4, 6, 1))).images[0, ..., 0], wanted)
    np.testing.assert_array_equal(read_images(tmp_path, intake()).images[0], np.repeat(wanted[..., None], 3, 2))
    assert read_images(tmp_path).images.shape == (1, 4, 6, 1)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_eight_bits_of_any_mode_are_pillows_rgb(tmp_path: Path, mode: str) -> None:
    suffix = {"CMYK": "tif", "YCbCr": "tif", "PA": "tif"}.get(mode, "png")
    Image.fromarray(PIXELS[0]).convert("L" if mode == "LA" else "RGB").convert(mode).save(tmp_path / f"0.{suffix}")
    with Image.open(tmp_path / f"0.{suffix}") as opened:
        wanted = np.asarray(opened.convert("RGB"))
    np.testing.assert_array_equal(read_images(tmp_path, intake()).images[0], wanted)


def test_a_palette_with_transparency_has_its_colours(tmp_path: Path) -> None:
    """Pillow warns of such a file, which is a common one of the web; what is transparent keeps its colour."""
    palette = Image.fromarray(PIXELS[0]).quantize(200)
    palette.save(tmp_path / "0.png", transparency=bytes(range(200)))
    np.testing.assert_array_equal(read_images(tmp_path, intake()).images[0], np.asarray(palette.convert("RGB")))


def test_depths_without_one_meaning_are_refused_by_name(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.int32).reshape(4, 6)
    inverted = TiffImagePlugin.ImageFileDirectory_v2()
    inverted[262] = 0
    sideways = Image.Exif()
    sideways[0x0112] = 6
    pages = [Image.fromarray(PIXELS[0]), Image.fromarray(PIXELS[1])]
    cases: dict[str, Callable[[Path], None]] = {
        "mode I, whose white is not known": lambda path: Image.fromarray(whole).save(path),
        "mode F, whose white is not known": lambda path: Image.fromarray(whole.astype(np.float32)).save(path),
        "16 bits with white as 0": lambda path: Image.fromarray(DEEP).save(path, tiffinfo=inverted),
        "must be upright or compressed": lambda path: pages[0].save(path, exif=sideways),
        "must be one image, and it has 2 pages": lambda path: pages[0].save(
            path, save_all=True, append_images=pages[1:]
        ),
    }
    for number, (why, save_as) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        save_as(folder / "0.tif")
        with pytest.raises(DataError, match=why):
            read_images(folder, intake((4, 6, 1)))


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(10))
def test_images_are_read_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    """A camera stores the sensor's rows, and in EXIF which way they lie; 0 and 9 mean nothing."""
    blocks = np.kron(RNG.integers(0, 2, (2, 3), np.uint8) * 255, np.ones((16, 16), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"webp": {"lossless": True}, "jpg": {"quality": 95}, "tif": {"compression": "tiff_lzw"}}
    if suffix == "tif" and not 1 <= orientation <= 8:
        del options["tif"]  # libtiff writes no such thing
    Image.fromarray(blocks).save(tmp_path / f"0.{suffix}", exif=exif, **options.get(suffix, {}))
    with Image.open(tmp_path / f"0.{suffix}") as opened:
        opened.load()  # a TIFF is upright then
        wanted = np.asarray(ImageOps.exif_transpose(opened).convert("L"))
    assert wanted.shape == ((32, 48) if orientation not in (5, 6, 7, 8) else (48, 32))
    np.testing.assert_array_equal(read_images(tmp_path, intake((*wanted.shape, 1))).images[0, ..., 0], wanted)


def test_damaged_exif_costs_the_orientation_and_not_the_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS[0]).save(tmp_path / "0.png", exif=exif.tobytes()[:14])
    np.testing.assert_array_equal(read_images(tmp_path, intake()).images[0], PIXELS[0])


@settings(max_examples=150)
@given(data=st.data())
def test_spoilt_files_are_images_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(WHOLE)))
    raw = bytearray(WHOLE[name])
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=8)):
        raw[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("spoilt") / name
    path.write_bytes(raw[: data.draw(st.integers(1, len(raw)))])
    with contextlib.suppress(DataError):
        assert read_picture(path, intake(resize="stretch")).shape == SHAPE


def _whole() -> dict[str, bytes]:
    """A small file of each format, with EXIF where it has any."""
    exif, found = Image.Exif(), {}
    exif[0x0112] = 6
    for name, image in (
        ("a.png", PIXELS[0]),
        ("b.jpg", PIXELS[0]),
        ("c.bmp", PIXELS[0]),
        ("d.png", DEEP),
        ("e.tif", DEEP),
    ):
        stream = io.BytesIO()
        options = {"exif": exif} if name[2:] in ("png", "jpg") else {}
        Image.fromarray(image).save(stream, {"jpg": "JPEG", "tif": "TIFF"}.get(name[2:], name[2:].upper()), **options)
        found[name] = stream.getvalue()
    return found


WHOLE = _whole()


# -- folders -------------------------------------------------------------------------------------------------


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png", "__MACOSX/cat/._1.png", "cat/.ipynb_checkpoints/1-checkpoint.png"):
        save(tmp_path / Path(name).parent, Path(name).name, PIXELS[0])
    for name in ("cat/2.heic", "cat/3.heic", "cat/.DS_Store", "dog/README"):
        (tmp_path / name).write_bytes(b"")
    found = read_images(tmp_path, intake())
    assert (found.labels.tolist(), found.class_names) == ([0, 1], ("cat", "dog"))
    assert found.remarks == (
        f"folders of '{tmp_path}' that are left out: __MACOSX",
        f"folders of '{tmp_path / 'cat'}' that are left out: .ipynb_checkpoints",
        f"files of '{tmp_path / 'cat'}' that are no images by their ending: 2 .heic",
        f"files of '{tmp_path / 'dog'}' that are no images by their ending: 1 README",
    )
    assert found[:1].remarks == found.remarks


def test_images_below_the_folder_of_a_class_count_to_it(tmp_path: Path) -> None:
    for name in ("cat/images/1.png", "cat/2.png", "dog/a/b/3.png"):
        save(tmp_path / Path(name).parent, Path(name).name, PIXELS[int(Path(name).stem)])
    found = read_images(tmp_path, intake())
    np.testing.assert_array_equal(found.images, PIXELS[[2, 1, 3]])
    assert found.labels.tolist() == [0, 0, 1]
    where = tmp_path / "cat" / "images"
    assert found.remarks == (f"2 images lie in folders below those of their classes, such as '{where}'",)


def test_a_folder_without_images_is_no_class_unless_the_classes_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / name, "0.png", PIXELS[0])
    (tmp_path / "aa").mkdir()
    with pytest.raises(DataError, match=r"aa' must hold images, since every folder is a class"):
        read_images(tmp_path, intake())
    (tmp_path / "classes.txt").write_bytes("\ufeffa\r\naa\r\nb\r\n".encode())
    found = read_images(tmp_path, intake())
    assert (found.labels.tolist(), found.class_names) == ([0, 2], ("a", "aa", "b"))


def test_numbered_folders_are_warned_about_where_text_and_numbers_differ(tmp_path: Path) -> None:
    for number in range(11):
        save(tmp_path / "data" / f"class{number}", "0.png", PIXELS[0])
    found = read_images(tmp_path / "data", intake())
    assert found.class_names[:3] == ("class0", "class1", "class10")
    assert found.remarks == (
        "folders are classes in the order of their names as text, so 'class10' is class 2 and stands before 'class2'; a "
        f"classes.txt in '{tmp_path / 'data'}' says another order",
    )
    (tmp_path / "data" / "classes.txt").write_text("\n".join(f"class{number}" for number in range(11)))
    assert read_images(tmp_path / "data", intake()).remarks == ()


def test_the_first_line_of_a_table_is_a_header_or_a_row(tmp_path: Path) -> None:
    save(tmp_path, "a.png", PIXELS[0])
    save(tmp_path, "b.png", PIXELS[1])
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    table = tmp_path / "labels.csv"
    table.write_bytes("\ufefffile,class\r\na.png,1\r\nb.png,0\r\n".encode())
    found = read_images(tmp_path, intake())
    assert (found.labels.tolist(), found.class_names) == ([1, 0], ("cat", "dog"))
    table.write_bytes("\ufeffa.png,1\nb.png,0\n".encode())
    assert read_images(tmp_path, intake()).labels.tolist() == [1, 0]
    for text, why in (
        ("a.png,cat\nb.png,0\n", r"line 1 must be .* a class, which is a whole number from 0, not 'a\.png,cat'"),
        ("a.png,-1\nb.png,0\n", r"line 1 must be .*, not 'a\.png,-1'"),
        ("other.jpg,cat\n", r"line 1 must be .*, not 'other\.jpg,cat'"),
        ("file,class\na.png,1.0\n", r"line 2 must be .*, not 'a\.png,1\.0'"),
        ("file;class\na.png;1\n", r"line 1 must be a file's name, a comma and a class"),
        ("a.png,1\na.png,0\n", r"must name every file once, and line 2 names 'a\.png' again"),
    ):
        table.write_text(text)
        with pytest.raises(DataError, match=why):
            read_images(tmp_path, intake())


def test_folders_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        save(tmp_path / "parts" / part / "cat", "0.png", PIXELS[0])
    with pytest.raises(
        DataError, match=r"must hold a folder for each class, not the parts of a set: name one of '.*test'"
    ):
        read_images(tmp_path / "parts", intake())
    save(tmp_path / "both" / "cat", "0.png", PIXELS[0])
    (tmp_path / "both" / "labels.csv").write_text("0.png,1\n")
    with pytest.raises(DataError, match=r"it holds both \('cat' and 'labels\.csv'\)"):
        read_images(tmp_path / "both", intake())
    deep = tmp_path / "deep" / "cat" / "/".join("abcdefghi")
    save(deep, "0.png", PIXELS[0])
    with pytest.raises(DataError, match="must lie at most 8 folders below that of their class"):
        read_images(tmp_path / "deep", intake())


def test_files_of_a_network_whose_layout_is_open_are_turned_once(tmp_path: Path) -> None:
    cube = RNG.integers(0, 256, (3, 3, 3), np.uint8)
    save(tmp_path, "0.png", cube)
    way = intake((3, 3, 3), layout="NCHW")
    np.testing.assert_array_equal(way.arranged(read_images(tmp_path, way).images)[0], cube)
