"""A bundle is read back as it was written, and refused when its files do not belong together."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from host_worlds import HostWorld, world

from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, BundleError, Driver, DriverUsageError, open_device
from fluidnpu.host.bundle import bitstream
from fluidnpu.host.oip.interface import input_of
from fluidnpu.host.serving.model import Model
from fluidnpu.models import ImageSet, Workload, golden, quantise
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.numeric import prepare
from fluidnpu.models.zoo import random_network


@pytest.fixture
def w() -> HostWorld:
    return world()


def test_round_trip(w: HostWorld, tmp_path: Path) -> None:
    bundle = Bundle(design=w.design, program=w.program)
    bundle.write(tmp_path / "new")
    assert Bundle.read(tmp_path / "new") == bundle
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["design.json", "program.bin", "program.json"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def other_design(path: Path) -> None:
    (path / "design.json").write_text(world(t_c=16).design.dumps())


def edited(path: Path) -> None:
    raw = json.loads((path / "design.json").read_text())
    raw["t_r"] += 2
    (path / "design.json").write_text(json.dumps(raw))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no design": (lambda p: (p / "design.json").unlink(), "readable design.json"),
    "no program": (lambda p: (p / "program.bin").unlink(), "program.bin"),
    "binary design": (lambda p: (p / "design.json").write_bytes(b"\xff\x00"), "readable design.json"),
    "truncated design": (lambda p: (p / "design.json").write_text("{"), "must be JSON"),
    "edited design": (edited, "changed by hand"),
    "flipped weight": (lambda p: flip(p / "program.bin"), "digest"),
    "design of another bundle": (other_design, "compiled for its design"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bundles_are_refused(w: HostWorld, tmp_path: Path, damage: str) -> None:
    Bundle(design=w.design, program=w.program).write(tmp_path)
    act, message = DAMAGES[damage]
    act(tmp_path)
    with pytest.raises(BundleError, match=message) as caught:
        Bundle.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_program_with_other_exits_is_refused(w: HostWorld) -> None:
    exits = tuple(replace(one, name=one.name + "x") for one in w.program.exits)
    with pytest.raises(BundleError, match="exits"):
        Bundle(design=w.design, program=replace(w.program, exits=exits))


def test_bitstream(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="exactly one"):
        bitstream(tmp_path)
    (tmp_path / "a.bit").touch()
    with pytest.raises(BundleError, match="hwh"):
        bitstream(tmp_path)
    (tmp_path / "a.hwh").touch()
    assert bitstream(tmp_path) == tmp_path / "a.bit"
    (tmp_path / "b.bit").touch()
    with pytest.raises(BundleError, match="holds 2"):
        bitstream(tmp_path)


OLD = Path(__file__).parent.parent / "reference" / "bundle_0.1"


def test_a_bundle_of_version_0_1_is_read_and_runs(tmp_path: Path) -> None:
    """It has no preprocessing, a threshold for its last exit, and another digest of its workload.

    Its descriptors have sums, which no NPU takes any more: they are packed with a CRC.
    """
    bundle = Bundle.read(OLD)
    written = json.loads((OLD / "program.json").read_text())
    assert written["exits"][-1]["threshold"] is not None
    assert "intake" not in written
    assert "data" not in written
    assert len(bundle.program.thresholds) == len(bundle.program.exits) - 1
    bundle.write(tmp_path)
    again, words = Bundle.read(tmp_path).program, np.frombuffer(bundle.program.image(), "<u4")
    assert again == bundle.program
    assert again.digest != written["digest"]
    old = np.fromfile(OLD / "program.bin", "<u4")
    layers = len(bundle.design.layers)
    changed = {divmod(int(at), 32) for at in np.flatnonzero(words != old)}
    assert changed == {(layer, word) for layer in range(layers) for word in (0, 31)}
    work = Workload(name="another name", layers=bundle.design.layers, exits=bundle.design.exits)
    assert bundle.design.matches(work)
    assert bundle.design.workload_digest != work.digest
    with open_device("simulated", bundle) as device:
        driver = Driver(device, bundle.program, bundle.design)
        driver.load()
        intake = bundle.program.input_intake
        image = intake.random(1, 3)[0]
        driver.write_sample(0, image)
        driver.activate([0])
        driver.run_to_exit(bundle.design.stages - 1)
        assert driver.logits([0], bundle.design.stages - 1).shape[0] == 1


def test_preprocessing_travels_in_a_bundle(tmp_path: Path) -> None:
    """The driver applies it to pixels and floats, in either layout and in another size."""
    record = Preprocessing(mean=(0.45,), std=(0.25,), resize="stretch")
    ready = replace(random_network(3, exits=2), preprocessing=record)
    pixels = ready.intake.random(4, 1)
    qnet = quantise(prepare(ready, images=ImageSet(images=pixels)))
    design = design_for(qnet.network.workload)
    Bundle(design=design, program=compile_program(qnet, design)).write(tmp_path)
    bundle = Bundle.read(tmp_path)
    assert bundle.program.intake == qnet.intake
    model = Model("resized", tmp_path)
    model.load()
    try:
        assert input_of(model.bundle.program).shape == (-1, -1, -1, pixels.shape[3])  # a client may send any size
    finally:
        model.close()
    wanted = golden.run(qnet, pixels)
    with open_device("simulated", bundle) as device:
        driver = Driver(device, bundle.program, design)
        driver.load()
        for came in (pixels[0], pixels[0] / 255, pixels[0].transpose(2, 0, 1)):
            driver.write_sample(0, came)
            driver.activate([0])
            driver.run_to_exit(1)
            np.testing.assert_array_equal(driver.stored_logits([0], 1)[0], wanted[1][0])
        large = np.repeat(np.repeat(pixels[0], 2, axis=0), 2, axis=1)
        np.testing.assert_array_equal(driver.encode(large), qnet.quantise_input(large[None])[0])
        exits = golden.early_exit(qnet, pixels)[0]
        assert driver.measure_exit_rates(list(pixels)) == tuple(float(np.mean(exits == index)) for index in range(2))
        with pytest.raises(DriverUsageError, match=r"must lie in 0\.\.1, and .* came; give uint8$"):
            driver.encode(pixels[0].astype(np.float32))
