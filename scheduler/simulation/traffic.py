"""Traffic: arrivals from distributions or a trace, exits drawn by rates; generators are explicit.

>>> [r.arrival_ns // 10**6 for r in poisson(100.0, 3, slo_ns=200_000_000, rng=np.random.default_rng(0))]
[6, 16, 17]
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SchedulerError, TrafficError
from ..policy import Request
from .units import parse_duration_ns
from .world import check_rates

_NS = 1_000_000_000
FEW_BURSTS, FEW_PERIODS = 40, 4  # that a run must see to stand for its traffic
LONGEST_S = 1e8  # three years; int64 nanoseconds hold ninety times as much


def requests_at(arrivals_ns: Sequence[int] | NDArray[np.int64], slo_ns: int) -> list[Request]:
    """Make requests 0, 1, ... with these arrivals (n,), sorted, and one objective. Raises TrafficError."""
    check_objective(slo_ns)
    if len(arrivals_ns) and not 0 <= arrivals_ns[-1] <= 2 * LONGEST_S * _NS:
        raise TrafficError(f"the arrivals must fit into {2 * LONGEST_S:g} s, and these do not")
    return [Request(i, int(at), int(at) + slo_ns) for i, at in enumerate(arrivals_ns)]


def poisson(rate_per_s: float, count: int, *, slo_ns: int, rng: np.random.Generator) -> list[Request]:
    """Draw Poisson arrivals: exponential gaps of mean 1/rate in whole nanoseconds. Raises TrafficError."""
    check_load(rate_per_s, count)
    return requests_at(np.cumsum(rng.exponential(_NS / rate_per_s, count)).astype(np.int64), slo_ns)


def bursty(
    rate_per_s: float,
    count: int,
    *,
    slo_ns: int,
    rng: np.random.Generator,
    burst: float = 2.0,
    share: float = 0.2,
    dwell_ns: int | None = None,
) -> list[Request]:
    """Draw arrivals of a two-state Markov-modulated Poisson process with mean rate `rate_per_s`.

    In a burst the rate is `burst` times the mean; bursts last `dwell_ns` on average (exponential; by default
    1 s, or less where the run would see fewer than FEW_BURSTS of them) and take `share` of the time. Raises
    TrafficError.
    """
    check_load(rate_per_s, count)
    if dwell_ns is None:
        dwell_ns = max(1, min(_NS, round(count / rate_per_s * _NS * share / FEW_BURSTS))) if share > 0 else _NS
    if not (0 < share < 1 and burst >= 1 and burst * share <= 1 and dwell_ns > 0):
        raise TrafficError(
            f"bursts need 0 < share < 1, 1 <= burst <= 1/share and a dwell above zero, not {share:g}, {burst:g} and {dwell_ns} ns"
        )
    if dwell_ns / share > LONGEST_S * _NS:
        raise TrafficError(f"dwell over share must be at most {LONGEST_S:g} s, not {dwell_ns / share / _NS:g} s")
    rates = (rate_per_s * (1 - share * burst) / (1 - share), rate_per_s * burst)
    dwells = (dwell_ns * (1 - share) / share, float(dwell_ns))
    arrivals: list[NDArray[np.float64]] = []
    have, now, state = 0, 0.0, int(rng.random() < share)
    while have < count:  # given their number, the arrivals within one stay are uniform
        stay = rng.exponential(dwells[state])
        if rates[state] * stay / _NS > 4 * count + 1_000_000:  # more than anyone asked for
            times = now + np.cumsum(rng.exponential(_NS / rates[state], count))
        else:
            times = now + np.sort(rng.random(rng.poisson(rates[state] * stay / _NS))) * stay
        arrivals.append(times)
        have, now, state = have + len(times), now + stay, 1 - state
    return requests_at(np.concatenate(arrivals)[:count].astype(np.int64), slo_ns)


def diurnal(
    rate_per_s: float,
    count: int,
    *,
    slo_ns: int,
    rng: np.random.Generator,
    swing: float = 0.4,
    period_ns: int | None = None,
) -> list[Request]:
    """Draw Poisson arrivals, by thinning, at a rate that is a sine of this period around the mean.

    It swings by `swing` (0..1) of the mean. By default the period is 600 s, or less where the run would see
    fewer than FEW_PERIODS of it. Raises TrafficError.
    """
    check_load(rate_per_s, count)
    if period_ns is None:
        period_ns = max(1, min(600 * _NS, round(count / rate_per_s * _NS / FEW_PERIODS)))
    if not (0 <= swing <= 1 and 0 < period_ns <= LONGEST_S * _NS):
        raise TrafficError(
            f"a diurnal load needs a swing in 0..1 and a period above zero and up to {LONGEST_S:g} s, not {swing:g} and {period_ns} ns"
        )
    arrivals: list[NDArray[np.float64]] = []
    have, now = 0, 0.0
    while have < count:
        times = now + np.cumsum(rng.exponential(_NS / (rate_per_s * (1 + swing)), count))
        now = float(times[-1])
        keep = rng.random(count) * (1 + swing) < 1 + swing * np.sin(2 * np.pi * times / period_ns)
        arrivals.append(times[keep])
        have += int(keep.sum())
    return requests_at(np.concatenate(arrivals)[:count].astype(np.int64), slo_ns)


def generate(text: str, rate_per_s: float, count: int, *, slo_ns: int, rng: np.random.Generator) -> list[Request]:
    """Generate traffic by name. Raises TrafficError.

    Names: `poisson`, `bursty:burst=2:share=0.2:dwell=1s` (or `mmpp:...`), `diurnal:swing=0.4:period=600s`.
    """
    name, options = _parse(text)
    make = {"poisson": poisson, "bursty": bursty, "diurnal": diurnal}[name]
    return make(rate_per_s, count, slo_ns=slo_ns, rng=rng, **options)


def coverage(text: str, rate_per_s: float, count: int) -> str:
    """Return a remark where a run sees too few of the periods asked for; empty for any other traffic.

    >>> coverage("diurnal:period=600s", 100, 20_000)
    'a run of 200 s covers 0.33 periods of 600 s: the mean rate is that of the part it sees'
    """
    if text.partition(":")[0] not in ("bursty", "mmpp", "diurnal"):
        return ""
    name, options = _parse(text)
    seconds = count / rate_per_s
    if name == "diurnal" and (period := options.get("period_ns")):
        periods = seconds * _NS / period
        if periods < 2:
            return (
                f"a run of {seconds:.3g} s covers {periods:.2g} periods of {period / _NS:.3g} s: "
                "the mean rate is that of the part it sees"
            )
    if name == "bursty" and (dwell := options.get("dwell_ns")):
        bursts = seconds * _NS * options.get("share", 0.2) / dwell
        if bursts < FEW_BURSTS / 2:
            return f"a run of {seconds:.3g} s sees about {bursts:.2g} bursts of {dwell / _NS:.3g} s, which is few"
    return ""


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of traffic and its parameters. Raises TrafficError."""
    name, *settings = text.split(":")
    name = "bursty" if name == "mmpp" else name
    kinds = {"poisson": (), "bursty": ("burst", "share", "dwell"), "diurnal": ("swing", "period")}
    if name not in kinds:
        raise TrafficError(f"traffic must be one of {', '.join(kinds)}, not {name!r}")
    options: dict[str, Any] = {}
    for part in settings:
        key, _, value = part.partition("=")
        if key not in kinds[name]:
            raise TrafficError(
                f"parameters of {name} traffic must be among: {', '.join(kinds[name]) or 'none'}; not {part!r}"
            )
        try:
            if key in ("dwell", "period"):
                options[f"{key}_ns"] = parse_duration_ns(value, f"{key} of {name} traffic")
            else:
                options[key] = float(value)
        except SchedulerError as error:
            raise TrafficError(str(error)) from None
        except ValueError:
            raise TrafficError(f"{key} of {name} traffic must be a number, not {value!r}") from None
    return name, options


def read_trace(
    text: str, *, slo_ns: int | None = None, source: str = "trace", stages: int | None = None
) -> tuple[list[Request], NDArray[np.int64] | None]:
    r"""Read requests from CSV with columns `arrival_ms` and, if known, `slo_ms` and `exit` (from 0).

    Raises TrafficError naming the line.

    Arrivals must not go back in time; exits must be those of `stages` stages, if their number is given.
    Without an `slo_ms` column all requests have `slo_ns`. The second value are the exits (requests,), if
    recorded.

    >>> requests, exits = read_trace("arrival_ms,slo_ms\n0,20\n3.5,40\n")
    >>> requests[1], exits
    (Request(id=1, arrival_ns=3500000, deadline_ns=43500000), None)
    """
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), skipinitialspace=True)
    names = [name.strip() for name in rows.fieldnames or []]
    rows.fieldnames = names
    if "arrival_ms" not in names or len(set(names)) < len(names):
        raise TrafficError(
            f"{source} line 1 must name a column arrival_ms, and each column once, not {','.join(names)!r}"
        )
    if "slo_ms" not in names and slo_ns is None:
        raise TrafficError(f"{source} line 1 must name a column slo_ms, or an objective must be given")
    requests: list[Request] = []
    exits: list[int] = []
    last = 0
    for row in _lines(rows, source):
        try:
            at = round(float(row["arrival_ms"]) * 1e6)
            slo = round(float(row["slo_ms"]) * 1e6) if "slo_ms" in names else slo_ns or 0
            leave = int(row["exit"]) if "exit" in names else 0
            if None in row:
                raise ValueError("too many")
        except (TypeError, ValueError, OverflowError):
            raise TrafficError(
                f"{source} line {rows.line_num} must hold numbers for {', '.join(names)}, not {list(row.values())}"
            ) from None
        if wrong := _wrong(at, last, slo, leave, stages):
            raise TrafficError(f"{source} line {rows.line_num} must {wrong}, not {list(row.values())}")
        requests.append(Request(len(requests), at, at + slo))
        exits.append(leave)
        last = at
    if not requests:
        raise TrafficError(f"{source} must hold at least one request")
    return requests, np.array(exits, np.int64) if "exit" in names else None


def _lines(rows: csv.DictReader[str], source: str) -> Iterator[dict[str, str]]:
    """Yield the lines below the header; TrafficError where the text is not CSV."""
    try:
        yield from rows
    except csv.Error as error:
        raise TrafficError(f"{source} line {rows.line_num + 1} must be CSV: {error}") from None


def _wrong(at: int, last: int, slo: int, leave: int, stages: int | None) -> str:
    """Return the rule that a line of a trace breaks; empty if none."""
    if not 0 <= at <= LONGEST_S * _NS:
        return f"hold an arrival from 0 to {LONGEST_S * 1e3:g} ms"
    if at < last:
        return "not go back in time"
    if not 0 < slo <= LONGEST_S * _NS:
        return f"hold an objective above 0 and up to {LONGEST_S * 1e3:g} ms"
    if leave < 0 or (stages is not None and leave >= stages):
        return "hold an exit from 0" + ("" if stages is None else f" to {stages - 1}, as the latency table has")
    return ""


def draw_exits(exit_rates: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the exit (count,) of each of `count` samples independently with these shares."""
    check_rates(exit_rates, len(exit_rates))
    edges = np.cumsum(exit_rates)[:-1]
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def halve_early_exits(exit_rates: Sequence[float]) -> tuple[float, ...]:
    """Halve the shares of the early exits; the last exit takes the rest.

    >>> halve_early_exits([0.2, 0.3, 0.5])
    (0.1, 0.15, 0.75)
    """
    early = tuple(rate / 2 for rate in exit_rates[:-1])
    return (*early, 1 - sum(early))


def check_objective(slo_ns: int) -> None:
    """Raise TrafficError unless the objective is above zero and whole nanoseconds can hold the deadlines."""
    if not 0 < slo_ns <= LONGEST_S * _NS:
        raise TrafficError(f"the latency objective must be above zero and at most {LONGEST_S:g} s, not {slo_ns} ns")


def check_load(rate_per_s: float, count: int) -> None:
    """Raise TrafficError unless there is at least one request and whole nanoseconds can hold the arrivals."""
    if not 0 < rate_per_s <= _NS:
        raise TrafficError(f"the arrival rate must be above zero and at most one a nanosecond, not {rate_per_s:g}/s")
    if count < 1:
        raise TrafficError(f"there must be at least one request, not {count}")
    if count > LONGEST_S * rate_per_s:
        raise TrafficError(f"the arrivals must fit into {LONGEST_S:g} s, and {count} at {rate_per_s:g}/s do not")
