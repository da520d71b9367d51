"""A certificate that runs, beside fixed thresholds, PAME's adaptation and Apparate's rules, in virtual time.

The samples are the recorded answers of the exits of PAME's study on Fashion-MNIST. Half of them, in a drawn
order, make the selection and PAME's plan; requests are drawn from the others. Five streams: nothing changes;
the half of the samples whose first exit is least sure comes in slowly, or all at once; or it alone is asked,
or the other half alone. At every moment of every run the true losses are compared with the certificate's
bound and with its promise, in all and since the last reset. The simulator serves some runs in all ways. More,
`--audits`, are of the certificate alone, in batches without a clock. Simulated: nothing here met a board.

    python -m benchmarks.certificate --runs 30 --audits 1000
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler import Request, World, make_policy, poisson, simulate
from fluidnpu.scheduler.exits import Criteria, ExitProfile, Promise, RuledExits
from fluidnpu.scheduler.policies import Setting
from fluidnpu.scheduler.simulation import ActiveExits, ExitSet, InForce, Watcher
from fluidnpu.scheduler.tuning import Adaptation, AdaptationPlan, Certifier, Goal, Utility, Watching, greedy
from fluidnpu.studies.pame.networks import table_of
from fluidnpu.studies.pame.recorded import shuffle_recording

STREAMS = ("none", "slow", "sudden", "harder", "easier")
WAYS = ("fixed", "pame", "apparate", "certificate")
PROMISE = Promise(eta=0.95, risk=0.05, share=0.2)
REQUESTS = 4000
AUDITED = 3000
LOAD = 0.5  # of what the NPU serves if nobody leaves early
SLO_NS = 10**8


@cache
def world() -> tuple[AdaptationPlan, NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the plan of one half of the samples, and of the other confidences and classes (N, exits + 1) and
    truths (N,).
    """
    found, table = shuffle_recording("fashion"), table_of("fashion")
    answers, goal = found.answers(own_last=True), Goal(eta=PROMISE.eta, batch=8)
    half = len(answers) // 2
    chain, _ = greedy(table, answers[:half], goal)
    plan = AdaptationPlan(
        names=table.names,
        goal=goal,
        chain=chain,
        confidence=answers.confidence[:half],
        classes=found.classes[:half],
        truths=found.labels[:half],
        reference=answers.reference[:half],
        times=table,
    )
    return plan, answers.confidence[half:], found.classes[half:], found.labels[half:]


def drawn(stream: str, requests: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the samples of a stream."""
    sure = world()[1][:, 0]
    order = np.argsort(sure, kind="stable")
    hard, easy = order[: len(order) // 2], order[len(order) // 2 :]
    if stream == "harder":
        return rng.choice(hard, requests)
    if stream == "easier":
        return rng.choice(easy, requests)
    share = np.full(requests, 0.5)
    if stream == "slow":
        share = np.linspace(0.5, 1.0, requests)
    elif stream == "sudden":
        share[requests // 2 :] = 1.0
    return np.where(rng.random(requests) < share, rng.choice(hard, requests), rng.choice(easy, requests))


class Audited(Certifier):
    """A certificate whose every moment is compared with the truth, which the simulator knows."""

    def __init__(self, *more: Any, **options: Any) -> None:
        self.broken: set[str] = set()  # what did not hold at some moment
        self.truth: dict[str, int] = {"whole": 0, "stretch": 0}
        self.resets_seen = 0
        super().__init__(*more, **options)

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Any],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        """Count true losses, and look."""
        assert self._classes is not None
        on = super().ran(now_ns, force, stage, requests, reasons, labels, confidences)
        left = [request.id for request, reason in zip(requests, reasons, strict=True) if reason]
        lost = sum(self._classes[id][stage] != self._classes[id][-1] for id in left)
        self.truth = {name: count + lost for name, count in self.truth.items()}
        self.look()
        return on

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Look after a result, too."""
        super().shadow_ended(now_ns, request_id, label)
        self.look()

    def look(self) -> None:
        """Compare bounds and promises with the truth of this moment."""
        certificate = self.certificate
        if certificate.resets != self.resets_seen:
            self.resets_seen, self.truth["stretch"] = certificate.resets, 0
        for name, tally in (("whole", certificate.whole), ("stretch", certificate.stretch)):
            if self.truth[name] > tally.lost:
                self.broken.add(f"bound, {name}")
            if self.truth[name] > (1 - self.promise.eta) * tally.answers + 1e-9:
                self.broken.add(f"promise, {name}")


@dataclass(frozen=True, kw_only=True)
class Served:
    """One run: shares of 1, times in ms.

    `kept`: answers that are the last exit's, and `worst` those in any tenth of the run. `precision`: right
    answers over those of the last exit. `later_ms`: the average of the second half.
    """

    kept: float
    worst: float
    precision: float
    early: float
    average_ms: float
    later_ms: float
    p99_ms: float
    npu_ms: float  # a request
    shadow_share: float  # of the NPU's time
    certified: float = 1.0
    changes: int = 0
    resets: int = 0
    broken: tuple[str, ...] = field(default=())


def served(way: str, stream: str, seed: int, requests: int = REQUESTS, promise: Promise = PROMISE) -> Served:
    """Serve a stream in one of the ways; the same seed draws the same samples and arrivals for all."""
    plan, sure, said, truths = world()
    rng = np.random.default_rng([40, STREAMS.index(stream), seed])
    rows = drawn(stream, requests, rng)
    confidences: Mapping[int, Sequence[float]] = dict(enumerate(sure[rows].tolist()))
    classes: Mapping[int, Sequence[int]] = dict(enumerate(said[rows].tolist()))
    times, early = plan.part_times, len(plan.names)
    rate = LOAD * 1e9 / times.single_ns(1)
    arrivals = poisson(rate, requests, slo_ns=SLO_NS, rng=rng)
    criteria = Criteria(ExitProfile(latency=times.whole), "false")
    first = plan.exits if way in ("fixed", "pame") else ExitSet((1.0,) * early)
    active = ActiveExits(times, first, plan.rates, criteria.obey)
    watch: Watcher | None = None
    if way == "pame":
        watch = Adaptation(active, plan, Watching(), seed=seed, classes=classes)
    elif way == "apparate":
        watch = Utility(active, promise.eta, classes, confidences)
    elif way == "certificate":
        batch = times.whole.b_max
        watch = Audited(active, promise, batch=batch, seed=seed, classes=classes, confidences=confidences)
    believed = Setting(latency=active.now.latency, exit_rates=plan.rates, rate_per_s=rate, slo_ns=SLO_NS)
    schedule = simulate(
        arrivals,
        make_policy("fluid", believed),
        World(
            latency=active.now.latency,
            exits=RuledExits(rule=criteria, confidences=confidences),
            exit_rates=plan.rates,
            active=active,
            watch=watch,
        ),
    )
    exit, took = np.array(schedule.exit), np.array(schedule.end_ns) - [arrival.arrival_ns for arrival in arrivals]
    same = said[rows, exit] == said[rows, -1]
    busy = sum(schedule.run_end_ns) - sum(run.start_ns for run in schedule.runs)
    shadow_ns = watch.counts.shadow_ns if isinstance(watch, Adaptation) else getattr(watch, "shadow_ns", 0)
    tenths = [float(part.mean()) for part in np.array_split(same, 10)]
    found = Served(
        kept=float(same.mean()),
        worst=min(tenths),
        precision=float((said[rows, exit] == truths[rows]).sum() / (said[rows, -1] == truths[rows]).sum()),
        early=float((exit < early).mean()),
        average_ms=float(took.mean()) / 1e6,
        later_ms=float(took[requests // 2 :].mean()) / 1e6,
        p99_ms=float(np.quantile(took, 0.99)) / 1e6,
        npu_ms=busy / requests / 1e6,
        shadow_share=shadow_ns / busy,
    )
    if not isinstance(watch, Audited):
        return found
    return Served(
        **asdict(found)
        | {
            "certified": watch.certificate.whole.kept,
            "changes": watch.changes,
            "resets": watch.certificate.resets,
            "broken": tuple(sorted(watch.broken)),
        }
    )


def audited(stream: str, seed: int, requests: int = AUDITED, promise: Promise = PROMISE) -> Audited:
    """Take a stream through the exits in batches without a clock; shadows arrive up to 3 batches later."""
    plan, sure, said, _ = world()
    rng = np.random.default_rng([41, STREAMS.index(stream), seed])
    rows = drawn(stream, requests, rng)
    last = len(plan.names)
    times = plan.part_times
    active = ActiveExits(times, ExitSet((1.0,) * last), (0.0,) * last + (1.0,))
    batch = times.whole.b_max
    watch = Audited(active, promise, batch=batch, seed=seed, classes=dict(enumerate(said[rows].tolist())))
    asked = [Request(k, k, requests + k + 1) for k in range(requests)]
    due: deque[tuple[int, int]] = deque()  # when a shadow arrives, in batches, and whose it is
    for number, start in enumerate(range(0, requests, batch)):
        here = np.arange(start, min(start + batch, requests))
        for stage in range(last + 1):
            active.adopt()
            limit = active.now.exits.thresholds[stage] if stage < last else -1.0
            seen = sure[rows[here], stage]
            leaves = seen > (1.0 if limit is None else limit)
            ids = here.tolist()
            on = watch.ran(
                number,
                active.now,
                stage,
                [asked[k] for k in ids],
                ["left" if leaf else "" for leaf in leaves],
                said[rows[here], stage].tolist(),
                seen.tolist(),
            )
            due.extend((number + int(rng.integers(4)), id) for id in on)
            here = here[~leaves]
            if not len(here):
                break
        for _ in range(len(due)):
            when, id = due.popleft()
            if when <= number:
                watch.shadow_ended(number, id, None)
            else:
                due.append((when, id))
    return watch


def summary(runs: Sequence[Served]) -> dict[str, Any]:
    """Return means over runs, and how many broke what at any moment."""
    keys = [key for key in asdict(runs[0]) if key != "broken"]
    means = {key: float(np.mean([getattr(run, key) for run in runs])) for key in keys}
    missed = sum(run.kept < PROMISE.eta for run in runs)
    broken = {what: sum(what in run.broken for run in runs) for what in sorted({b for run in runs for b in run.broken})}
    return {"runs": len(runs), "below_eta_at_the_end": missed, "broken_at_some_moment": broken, **means}


def main() -> None:
    """Serve all streams in all ways, and print a line for each; --out keeps the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5, help="in the simulator, each stream and way")
    parser.add_argument("--audits", type=int, default=50, help="of the certificate alone, each stream")
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=STREAMS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--out", type=Path, help="a file for the numbers, in JSON")
    asked = parser.parse_args()
    rows = []
    for stream in asked.streams:
        for way in WAYS if asked.runs else ():
            began = time.process_time()
            runs = [served(way, stream, seed, asked.requests) for seed in range(asked.runs)]
            row = {"stream": stream, "way": way, "requests": asked.requests, **summary(runs)}
            rows.append(row)
            shares = " ".join(f"{name} {100 * row[name]:.2f} %" for name in ("kept", "worst", "precision", "early"))
            times = " ".join(f"{name} {row[name]:.3f}" for name in ("average_ms", "later_ms", "p99_ms", "npu_ms"))
            print(
                f"{stream:7} {way:12} {asked.runs:5} runs  {shares} shadows {100 * row['shadow_share']:.1f} %  {times}"
            )
            print(
                f"{'':7} below eta at the end {row['below_eta_at_the_end']}, broken at some moment "
                f"{row['broken_at_some_moment']}, resets {row['resets']:.3f}, {time.process_time() - began:.0f} CPU s",
                flush=True,
            )
            if asked.out is not None:
                asked.out.write_text(json.dumps(rows, indent=1) + "\n")
    broken: dict[str, Counter[str]] = {stream: Counter() for stream in asked.streams}
    ended: dict[str, list[float]] = {stream: [] for stream in asked.streams}
    for seed in range(asked.audits):
        for stream in asked.streams:  # in turn, so that a run that is cut short has as many of each
            watch = audited(stream, seed)
            broken[stream].update(watch.broken)
            ended[stream].append(watch.certificate.whole.kept)
        if seed + 1 == asked.audits or (seed + 1) % 50 == 0:
            print(f"audited {seed + 1} runs of each stream, {AUDITED} answers: broken at some moment", end=" ")
            print({stream: dict(found) for stream, found in broken.items()}, end=" ")
            print({stream: f"{100 * np.mean(each):.2f} % certified" for stream, each in ended.items()}, flush=True)


if __name__ == "__main__":
    main()
