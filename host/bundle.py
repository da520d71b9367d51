"""A bundle: the folder with which a board serves one network.

It holds `design.json`, `program.json` and `program.bin`, which must belong together. On a board the bitstream
(`*.bit` with its `*.hwh`) lies in the same folder; `bitstream` finds it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from fluidnpu.dse import Design, DesignError
from fluidnpu.hls import Program, ProgramError
from fluidnpu.hls.program import crossing
from fluidnpu.models.files import write_files
from fluidnpu.scheduler.placement import Profile

from .errors import BundleError

DESIGN_FILE = "design.json"
_ALIGNMENT, _PAGE = 64, 4096  # of what the NPU reads, and of what a device allocates


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """One network compiled for one design. Raises BundleError when the two do not belong together."""

    design: Design
    program: Program

    def __post_init__(self) -> None:
        if self.program.design_digest != self.design.digest:
            raise BundleError(
                f"the program of a bundle must be compiled for its design {self.design.digest[:12]}, "
                f"not for {self.program.design_digest[:12]}"
            )
        layers, exits = len(self.design.layers), tuple(exit.name for exit in self.program.exits)
        if len(self.program.descriptors) != layers or self.program.b_max != self.design.b_max:
            raise BundleError(
                f"the program must have {layers} layers and b_max {self.design.b_max} as its design, "
                f"not {len(self.program.descriptors)} and {self.program.b_max}"
            )
        if exits != self.design.exits:
            raise BundleError(
                f"the program must have the exits {list(self.design.exits)} of its design, not {list(exits)}"
            )

    @property
    def memory_bytes(self) -> int:
        """Bytes that a driver allocates: the program, and as many slots as a batch has, each on pages."""
        parts = (len(self.program.image()), self.design.b_max * self.program.slot_bytes)
        return sum(-(-(part + _ALIGNMENT) // _PAGE) * _PAGE for part in parts)

    @property
    def profile(self) -> Profile:
        """Time and memory by stage, for plans on many devices; memory is that of the compiled program.

        What crosses from a stage to the next is known, too, where it is one tensor.
        """
        profile = Profile.of_design(self.design)
        more = max(0, len(self.program.image()) - profile.weights_bytes)
        blocks = [replace(profile.blocks[0], weights_bytes=profile.blocks[0].weights_bytes + more), *profile.blocks[1:]]
        for stage in range(len(blocks) - 1):
            with contextlib.suppress(ProgramError):
                place = self.program.tensors[crossing(self.program, stage)]
                crosses = place.word_bytes * place.height * place.width * place.channels
                blocks[stage] = replace(blocks[stage], cut_bytes=crosses)
        return replace(profile, blocks=tuple(blocks), slot_bytes=self.program.slot_bytes)

    def write(self, folder: Path | str) -> None:
        """Write the three files into a folder, made if need be; all of them or none are replaced."""
        files: dict[str, str | bytes] = {DESIGN_FILE: self.design.dumps(), **self.program.files()}
        write_files({Path(folder) / name: content for name, content in files.items()})

    @classmethod
    def read(cls, folder: Path | str) -> Bundle:
        """Read what `write` wrote. Raises BundleError when a file is missing, damaged or foreign."""
        path = Path(folder) / DESIGN_FILE
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BundleError(f"'{folder}' must be a bundle with a readable {DESIGN_FILE}: {error}") from None
        try:
            return cls(design=Design.loads(text, str(path)), program=Program.load(folder))
        except (DesignError, ProgramError) as error:
            raise BundleError(str(error)) from None


def bitstream(folder: Path | str) -> Path:
    """Find the bitstream in a bundle's folder. Raises BundleError unless there is one, with its .hwh."""
    bits = sorted(Path(folder).glob("*.bit"))
    if len(bits) != 1:
        raise BundleError(f"'{folder}' must hold exactly one bitstream (*.bit), and it holds {len(bits)}")
    if not bits[0].with_suffix(".hwh").exists():
        raise BundleError(f"'{bits[0]}' must have its hardware description (.hwh) beside it, and it is missing")
    return bits[0]
