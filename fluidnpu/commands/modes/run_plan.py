"""The options and the steps of `fluidnpu run`: which commands a model needs up to a verified project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from fluidnpu import boards, models
from fluidnpu.models import exits as model_exits
from fluidnpu.models import numeric

from ...options import reading_options
from ..helpers.data import given_classes, part_of, whole_data
from ..helpers.designs import DEFAULT_B_MAX, Search
from ..helpers.steps import LOG, CommandStep, argument
from ..prepare import PreprocessingSettings

CANDIDATES = 3  # exits that are attached at the most, of which the selection chooses
LEARN, SELECT, TEST = (0, 50), (50, 90), (90, 100)  # per cent of the images of --data, where --eta is given
UNSEEN_SELECT, UNSEEN_TEST = (0, 80), (80, 100)  # per cent of the images of --unseen
LARGE_MACS = 20e6  # of a network whose C simulation of one image takes many seconds


@dataclass(frozen=True, kw_only=True)
class RunOptions(PreprocessingSettings):
    """The command line of `fluidnpu run`."""

    model: Path
    board: str
    data: Path | None
    unseen: Path | None
    eta: float | None
    epochs: int
    http: int | None
    out: Path | None
    b_max: int | None
    memory: str | None
    cycle_model: str
    evaluations: int | None
    bits: int
    core: str
    tolerance: float
    no_verify: bool
    as_json: bool

    @property
    def search(self) -> Search:
        """The options of the search."""
        return Search(
            b_max=self.b_max,
            memory=self.memory,
            cycle_model=self.cycle_model,
            core=self.core,
            evaluations=self.evaluations,
            bits=self.bits,
        )

    @property
    def folder(self) -> Path:
        """The folder of the run's files."""
        return Path(self.model.stem) if self.out is None else self.out


@dataclass(frozen=True, kw_only=True)
class DataParts:
    """The images that exits learn from, those that choose exits, and those that measure accuracy."""

    learn: Path | None
    select: Path | None
    test: Path | None

    @staticmethod
    def of(data: Path | None, unseen: Path | None, *, chosen: bool) -> DataParts:
        """Divide the images; where no exits are chosen, nothing is kept apart but what `unseen` is."""
        if data is None or not chosen:
            return DataParts(learn=data, select=None, test=unseen or data)
        if unseen is None:
            return DataParts(learn=part_of(data, *LEARN), select=part_of(data, *SELECT), test=part_of(data, *TEST))
        return DataParts(learn=data, select=part_of(unseen, *UNSEEN_SELECT), test=part_of(unseen, *UNSEEN_TEST))


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The steps in their order, the command that serves, and what the closing screen needs.

    `final`: the model that is built. `eta`: what exits are chosen for; None where none are. `assumed`: if a
    threshold of the given file is.
    """

    steps: tuple[CommandStep, ...]
    serving: CommandStep
    remarks: tuple[str, ...]
    board: boards.Board
    folder: Path
    final: Path
    parts: DataParts
    eta: float | None
    bits: int
    verified: bool
    assumed: bool

    @property
    def project(self) -> Path:
        """The folder of the project."""
        return self.folder / "project"

    @property
    def written(self) -> tuple[Path, ...]:
        """Return every path that the run writes."""
        return self.folder / LOG, *(path for step in self.steps for path in step.writes)

    @staticmethod
    def of(options: RunOptions, board: boards.Board, network: models.Network, *, names_classes: bool) -> RunPlan:
        """Plan the steps for a network. Raises NetworkError where exits are asked for and none can stand."""
        eta = options.eta if names_classes else None
        remarks = []
        if options.eta is not None and eta is None:
            remarks.append(f"no exits are attached: they decide between classes, and '{network.name}' names none")
        planner = _Planner(options, board, DataParts.of(options.data, options.unseen, chosen=eta is not None))
        planner.check()
        if planner.needs_preparing(network):
            planner.prepare()
        if eta is not None:
            planner.choose_exits(eta, attach=_candidates(network))
        planner.build(network.workload.macs)
        project = options.folder / "project"
        return RunPlan(
            steps=tuple(planner.steps),
            serving=CommandStep(
                name="serve",
                command="serve",
                words=(_served(options.folder, project), "--http", str(8000 if options.http is None else options.http)),
            ),
            remarks=tuple(remarks),
            board=board,
            folder=options.folder,
            final=planner.model,
            parts=planner.parts,
            eta=eta,
            bits=options.bits,
            verified=not options.no_verify,
            assumed=any(exit.assumed for exit in network.exits),
        )


class _Planner:
    """Collects steps; `model` is the file that the next one reads."""

    def __init__(self, options: RunOptions, board: boards.Board, parts: DataParts) -> None:
        self.options, self.board, self.parts = options, board, parts
        self.model = options.model
        self.steps: list[CommandStep] = []

    def check(self) -> None:
        """Check the model as it came."""
        self._add("check", _reading_words())

    def needs_preparing(self, network: models.Network) -> bool:
        """Return whether the file lacks ranges, rates or the record of its words, or if options change it."""
        options = self.options
        lacks = not network.calibration or (len(network.exits) > 1 and network.workload.exit_rates is None)
        lacks |= options.bits < numeric.fitting_bits(network)
        changed = bool(_reading_words()) or bool(_image_words(options)) or given_classes() is not None
        return changed or (lacks and self.parts.learn is not None)

    def prepare(self) -> None:
        """Calibrate, and put preprocessing and names of classes into the file."""
        words = [*_reading_words(), *_image_words(self.options), *self._data("--calibrate", self.parts.learn)]
        if self.options.bits != 16 and self.parts.learn is not None:
            words += ["--bits", str(self.options.bits)]
        self._add("prepare", words, "prepared.onnx")

    def choose_exits(self, eta: float, *, attach: int) -> None:
        """Choose exits that keep a share of the given network's precision; attach and train them first."""
        options, own = self.options, self.model
        if attach:
            self._add("exits", ["--candidates", str(attach)], "candidates.onnx", name="attach")
            trained = ["--frozen", "--epochs", str(options.epochs), *self._data("--data", self.parts.learn)]
            trained += [] if options.bits == 16 else ["--bits", str(options.bits)]
            self._add("train", trained, "trained.onnx", option="--from")
        words = ["--board", options.board, "--eta", str(eta), "--batch", str(options.b_max or DEFAULT_B_MAX)]
        words += ["--cycles", options.cycle_model, *self._data("--select", self.parts.select)]
        reads = [own] if attach else []
        words += ["--reference", str(own)] if attach else []
        self._add("exits", words, "ready.onnx", reads=reads, name="select", board=True)

    def build(self, macs: int) -> None:
        """Search a design, build the project and verify a sample."""
        options, design, board = self.options, self.options.folder / "design.json", ["--board", self.options.board]
        given: Mapping[str, object] = {
            "--b-max": options.b_max,
            "--memory": options.memory,
            "--cycles": options.cycle_model,
            "--core": options.core,
            "--evaluations": options.evaluations,
            "--bits": options.bits,
        }
        usual = {"--cycles": "exact", "--core": "hls", "--bits": 16}
        words = [
            str(word) for key, value in given.items() if value not in (None, usual.get(key)) for word in (key, value)
        ]
        self._add("dse", [*board, *words], "design.json", board=True)
        core = [] if options.core == "hls" else ["--core", options.core]
        with_design = [*board, "--design", str(design)]
        words = [*with_design, *core, *self._data("--data", self.parts.test)]
        words += [] if options.tolerance == 0.5 else ["--tolerance", str(options.tolerance)]
        self._add("build", words, "project", reads=[design], board=True)
        if not options.no_verify:
            batches = "1" if macs > LARGE_MACS or (options.b_max or DEFAULT_B_MAX) < 2 else "1,2"
            words = [*with_design, "--batches", batches, *self._data("--data", self.parts.test)]
            self._add("verify", words, reads=[design], board=True)

    def _data(self, option: str, data: Path | None) -> list[str]:
        """Give the words that name images, and the names of their classes."""
        classes = given_classes()
        words = [] if data is None else [option, str(data)]
        return words if classes is None else [*words, "--classes", str(classes)]

    def _add(
        self,
        command: str,
        words: list[str],
        writes: str = "",
        *,
        reads: list[Path] | None = None,
        name: str = "",
        option: str = "",
        board: bool = False,
    ) -> None:
        out = self.options.folder / writes
        classes = given_classes()
        inputs = [self.model, *(reads or []), *([] if classes is None else [classes])]
        sets = {str(data) for data in (self.parts.learn, self.parts.select, self.parts.test)}
        inputs += [whole_data(Path(word)) for word in words if word in sets]
        line = [*([option] if option else []), argument(self.model), *words, *_most_words()]
        line += ["--out", str(out)] if writes else []
        self.steps.append(
            CommandStep(
                name=name or command,
                command=command,
                words=tuple(line),
                reads=tuple(dict.fromkeys(inputs)),
                writes=(out,) if writes else (),
                facts=self.board.digest if board else "",
            )
        )
        if out.suffix == ".onnx":
            self.model = out


def _candidates(network: models.Network) -> int:
    """Return how many exits are attached: none to a network that has some. Raises NetworkError."""
    blocks = 1 if len(network.exits) > 1 else len(model_exits.backbone_of(network).blocks)
    return min(CANDIDATES, blocks - 1)


def _reading_words() -> list[str]:
    """Give the options that say how the model is read, as words; `prepare` writes them into the file."""
    given = reading_options()
    exits, size = given["exits"], given["size"]
    words = [] if exits is None else ["--logits", ",".join(exits) or "none"]
    return words if size is None else [*words, "--input", "x".join(map(str, size))]


def _most_words() -> list[str]:
    """Give the bound of a file's weights, which every command asks for, as words."""
    most = reading_options()["most_weights"]
    return [] if most is None else ["--most-weights", str(most)]


def _image_words(options: PreprocessingSettings) -> list[str]:
    """Give the options of preprocessing that were given, as words."""
    given = {field.name: getattr(options, field.name) for field in fields(PreprocessingSettings)}
    return [
        word for name, value in given.items() if value is not None for word in (f"--{name.replace('_', '-')}", value)
    ]


def _served(folder: Path, project: Path) -> str:
    """Name the served model like the folder of the run, where a URL can hold that name."""
    name = folder.resolve().name
    return f"{name}={project}" if re.fullmatch(r"\w[\w.-]*", name, re.ASCII) else argument(project)
