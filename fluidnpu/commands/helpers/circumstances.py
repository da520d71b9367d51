"""The latency table and the requests that `fluidnpu simulate` is asked for."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from fluidnpu import dse, models, scheduler
from fluidnpu.models import numeric
from fluidnpu.scheduler import comparison, exits

from ...errors import UsageError
from ...options import numbers, read_power
from .networks import quantise_network, read_labelled_images

DESIGN_FILE = "design.json"  # in a bundle


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The options that say how policies are served: hardware, arrivals, exits."""

    table: Path | None
    rate: float | None
    slo: str | None
    requests: int
    traffic: str
    exit_rates: str | None
    confidences: Path | None
    thresholds: str | None
    data: Path | None
    true_exit_rates: str | None
    latency_factor: float
    true_rate: float | None = None
    objectives: str | None = None
    criteria: str | None = None
    power: str | None = None

    def read_parts(self) -> dse.Design | None:
        """Read the design for several networks that the table is; None for any other table."""
        if self.table is None:
            return None
        text = models.read_text(self.table, "a design or a table in JSON")
        if '"parts"' not in text:
            return None
        design = dse.Design.loads(text, str(self.table))
        return design if design.parts else None

    def read_table(self) -> tuple[scheduler.Serving, exits.Recorded | None, exits.Criterion | None]:
        """Read the table, recorded samples and the usual criterion, for tenants with traffic of their own.

        Exit rates, where no samples are recorded, are the table's. Raises UsageError and SchedulerError.
        """
        if self.table is None:
            raise UsageError("simulate needs a DESIGN or TABLE.json (or --study, or --replay)")
        recorded, thresholds, measured = self._recorded()
        criterion = None if self.criteria is None else exits.parse_criterion(self.criteria)
        if criterion is None and thresholds:
            criterion = exits.Criterion.of_thresholds(thresholds[:-1])
        rates = numbers("--exit-rates", self.exit_rates)
        ruled = criterion is not None or recorded is not None
        serving = read_serving(self.table, measured or rates, assumed=ruled)
        return serving, recorded, criterion

    def read(self) -> tuple[scheduler.Serving, comparison.Source]:
        """Read the table and the source of requests. Raises UsageError and SchedulerError in one sentence."""
        if self.table is None:
            raise UsageError("simulate needs a DESIGN or TABLE.json (or --study, or --replay)")
        recorded, thresholds, measured = self._recorded()
        rates = numbers("--exit-rates", self.exit_rates)
        if measured is not None:
            if rates:
                raise UsageError(
                    "--exit-rates and --confidences both say how many leave at each exit; give one of them"
                )
            rates = measured
        criterion = None if self.criteria is None else exits.parse_criterion(self.criteria)
        if criterion is not None and (rates or self.thresholds is not None):
            raise UsageError("--criteria says who leaves where, so neither --exit-rates nor --thresholds fits it")
        serving = read_serving(self.table, rates, assumed=criterion is not None)
        source = self._source(serving)
        rows = {
            "--confidences": recorded is not None,
            "--true-exit-rates": source.truth.exit_rates is not None,
            f"the column exit of {self.traffic}": bool(source.trace_exits),
            **({} if criterion is None or recorded is not None else {"--criteria": True}),
        }
        if len(both := [what for what, given in rows.items() if given]) > 1:
            raise UsageError(f"{' and '.join(both)} all say who really leaves where; give one of them")
        source = dataclasses.replace(source, recorded=recorded, thresholds=thresholds)
        if criterion is None:
            if self.power is not None:
                raise UsageError("--power is for the energies that --criteria or --tenants ask about; give one of them")
            return serving, source
        return apply_criterion(criterion, serving, source, read_power(self.power) or serving.power)

    def _source(self, serving: scheduler.Serving) -> comparison.Source:
        """Read or describe the arrivals."""
        slo_ns = None if self.slo is None else scheduler.parse_duration_ns(self.slo, "--slo")
        exit_rates = numbers("--true-exit-rates", self.true_exit_rates)
        if self.true_rate is not None and not self.true_rate > 0:
            raise UsageError(f"--true-rate must be above zero, not {self.true_rate:g}")
        truth = comparison.Truth(
            exit_rates=exit_rates,
            latency_factor=self.latency_factor,
            rate_per_s=self.true_rate,
            objectives=parse_objectives(self.objectives),
        )
        if self.traffic.endswith(".csv"):
            if self.true_rate is not None or self.objectives is not None:
                raise UsageError("--true-rate and --objectives are for drawn traffic; a trace has its own arrivals")
            return comparison.Source.of_trace(
                models.read_text(Path(self.traffic), "a trace in CSV"),
                slo_ns=slo_ns,
                rate_per_s=self.rate,
                source=self.traffic,
                truth=truth,
                stages=serving.latency.stages,
            )
        if self.rate is None or slo_ns is None:
            missing = "--rate" if self.rate is None else "--slo"
            raise UsageError(f"{missing} must be given with {self.traffic} traffic")
        truth = dataclasses.replace(truth, traffic=self.traffic)
        return comparison.Source(rate_per_s=self.rate, slo_ns=slo_ns, count=self.requests, truth=truth)

    def _recorded(self) -> tuple[exits.Recorded | None, tuple[float, ...], tuple[float, ...] | None]:
        """Read recorded confidences, one threshold an exit (of the last, 0), and the rates that follow.

        Images without labels give rates only.
        """
        if self.confidences is None:
            if self.thresholds is not None:
                raise UsageError("--thresholds needs --confidences, which they are compared with")
            return None, (), None
        thresholds, labelled = numbers("--thresholds", self.thresholds), True
        if self.confidences.suffix == ".onnx":
            recorded, own, labelled = record_network(self.confidences, self.data)
            thresholds = own if thresholds is None else thresholds
        else:
            recorded = exits.read_confidence_file(models.regular_file(self.confidences))
        import numpy as np

        count = np.shape(recorded.correct)[1]
        if self.criteria is not None:
            return (recorded if labelled else None), (), None
        if thresholds is None or len(thresholds) not in (count - 1, count):
            came = "none" if thresholds is None else str(len(thresholds))
            raise UsageError(f"--thresholds must be {count - 1}, one for every exit but the last, not {came}")
        limits = (*thresholds[: count - 1], 0.0)
        rates = recorded.exit_rates(limits)
        return (recorded if labelled else None), limits if labelled else (), rates


def apply_criterion(
    criterion: exits.Criterion,
    serving: scheduler.Serving,
    source: comparison.Source,
    power: exits.PowerModel | None = None,
) -> tuple[scheduler.Serving, comparison.Source]:
    """Let a criterion decide the exits; policies believe the rates that it gives on an idle NPU.

    Raises CriterionError where it asks what is not known.
    """
    import numpy as np

    profile, recorded = exits.ExitProfile.of_stages(serving.latency, serving.macs, power), source.recorded
    if recorded is None and "confidence" in criterion.quantities:
        raise UsageError(f"--criteria '{criterion}' needs the confidence of each sample: give --confidences")
    if recorded is not None:
        profile = dataclasses.replace(profile, accuracy=recorded.accuracy, samples=recorded.samples)
    ruled = dataclasses.replace(source, criteria=exits.Bound(criterion, profile))
    counts = np.bincount(ruled.exits_alone(), minlength=profile.exits)
    rates = tuple(float(share) for share in counts / counts.sum())
    return dataclasses.replace(serving, exit_rates=rates), ruled


def parse_objectives(text: str | None) -> tuple[tuple[float, int], ...]:
    """Read shares of requests with objectives of their own. Raises UsageError.

    >>> parse_objectives("50ms=20%,800ms=10%")
    ((0.2, 50000000), (0.1, 800000000))
    """
    tables = []
    for part in [] if text is None else text.split(","):
        slo, equals, share = part.partition("=")
        try:
            tables.append((float(share.removesuffix("%")) / 100, scheduler.parse_duration_ns(slo, "--objectives")))
        except ValueError as error:
            if isinstance(error, scheduler.SchedulerError):
                raise
            equals = ""
        if not equals or not share.endswith("%"):
            raise UsageError(f"--objectives must be DURATION=SHARE% such as 50ms=20%, not '{part}'")
    return tuple(tables)


def read_serving(path: Path, rates: tuple[float, ...] | None, *, assumed: bool = False) -> scheduler.Serving:
    """Read a design or a latency table; `rates` replace its exit rates.

    `assumed`: it may be without any. Raises SchedulerError and DesignError.
    """
    text = models.read_text(path, "a design or a table in JSON")
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return scheduler.Serving.loads(text, str(path))  # says what is wrong
    if isinstance(raw, dict) and raw.get("parts"):
        raise UsageError(
            f"'{path}' is a design for several networks, which are served together: say by which tenants with --tenants"
        )
    if not isinstance(raw, dict) or (rates is None and not assumed):
        return scheduler.Serving.loads(text, str(path))
    if "digest" in raw:
        design = dse.Design.loads(text, str(path))
        return scheduler.Serving.of(design, (1 / design.stages,) * design.stages if rates is None else rates)
    if rates is None and isinstance(rows := raw.get("latency_ns"), list) and rows:
        rates = (1 / len(rows),) * len(rows)
    return scheduler.Serving.loads(json.dumps(raw | ({} if rates is None else {"exit_rates": list(rates)})), str(path))


def design_file(path: Path) -> Path:
    """Return the design of a project or a bundle; any path that is none as it is."""
    for folder in (path / "bundle", path):
        if (folder / DESIGN_FILE).is_file():
            return folder / DESIGN_FILE
    return path


def record_network(path: Path, data: Path | None) -> tuple[exits.Recorded, tuple[float, ...], bool]:
    """Record an ONNX network's int16 form at every exit on images; give its thresholds, and if there are
    labels.

    Raises UsageError for a layer table.
    """
    network = models.read_model(path)
    if not isinstance(network, models.Network):
        raise UsageError(f"confidences come from a network with weights (ONNX), and '{path}' is a layer table")
    images = read_labelled_images(network, data)
    confidences, correct = numeric.record_exits(quantise_network(network, images), images)
    return exits.Recorded(confidences=confidences, correct=correct), network.thresholds, images.labelled
