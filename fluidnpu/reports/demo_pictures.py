"""Pictures of the demo's page: the network as ribbons of images, and requests over time.

SVG text in the colours of its page; numbers and labels in, markup out.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

WIDTH, TOP, TRUNK, FOOT = 1080.0, 92.0, 88.0, 262.0  # of the ribbons: the trunk's upper edge, its height, the lower end
ENTRY, GAP, CURVE = 64.0, 190.0, 14.0  # to the first stage, between two, inner radius of a way out
ROW, HEAD = 32.0, 46.0  # pixels of a request, and above the first


@dataclass(frozen=True, kw_only=True)
class StageBox:
    """A stage: MACs of its layers, ms of one image alone, shares of images that reach and leave it."""

    name: str
    macs: Sequence[int]
    ms: float
    reach: float
    leave: float


@dataclass(frozen=True, kw_only=True)
class Life:
    """A request: its runs as (start ns, end ns, stage, batch), and when another policy answered it."""

    name: str
    url: str
    arrival_ns: int
    runs: tuple[tuple[int, int, int, int], ...]
    other_ns: int


def data_url(image: npt.NDArray[Any]) -> str:
    """Give a grey image (H, W) or (H, W, 1) of uint8, or of floats in 0..1, as the URL of a PNG."""
    flat = image.reshape(image.shape[:2])
    grey = (flat if flat.dtype == np.uint8 else np.round(255 * flat)).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in grey)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def ribbons(stages: Sequence[StageBox], images: int) -> Markup:
    """Draw the stages side by side and the images through them.

    Width is their number; bars in a stage are layers.
    """
    pitch = (WIDTH + 30.0) / len(stages)
    wide, most = pitch - GAP, max(macs for stage in stages for macs in stage.macs)
    parts = [
        _box(0, TOP, ENTRY, TRUNK, "trunk"),
        _text(0, TOP - 26, f"{images:,}", "b"),
        _text(0, TOP - 9, "images", "m"),
    ]
    for index, stage in enumerate(stages):
        x, colour = ENTRY + pitch * index, f"s{index % 3 + 1}"
        end, onward = x + wide, max(0.0, TRUNK * (stage.reach - stage.leave))
        high, outer = TOP + TRUNK * stage.reach, CURVE + TRUNK * stage.leave
        parts.append(
            f'<path class="{colour}" d="M{end - 2:.1f},{TOP + onward:.2f} H{end:.1f} a{outer:.2f},{outer:.2f} 0 0 1 '
            f"{outer:.2f},{outer:.2f} V{FOOT} H{end + CURVE:.2f} V{high + CURVE:.2f} a{CURVE},{CURVE} 0 0 0 {-CURVE},{-CURVE} "
            f'H{end - 2:.1f} Z"/>'
        )
        if index < len(stages) - 1:
            parts.append(_box(end - 2, TOP, GAP + 4, onward, "trunk"))
            left = round(images * (stage.reach - stage.leave))
            parts.append(_text(end + GAP - 12, TOP - 9, f"{left:,} go on", "m", "end"))
        parts.append(f'<rect x="{x:.1f}" y="8" width="{wide:.1f}" height="186" rx="10" class="blk e{index % 3 + 1}"/>')
        parts.append(_text(x + 14, 32, f"Stage {index + 1}", "b"))
        parts.append(_text(end - 14, 32, f"+{stage.ms:.3f} ms", "m", "end"))
        parts.append(_text(x + 14, 51, f"{sum(stage.macs) / 1e6:.2f} M multiply-adds", "m"))
        step = (wide - 28) / len(stage.macs)
        for layer, macs in enumerate(stage.macs):
            tall = max(3.0, 104 * macs / most)
            parts.append(_box(x + 14 + step * layer, 180 - tall, step - 3, tall, colour))
    said = ", ".join(f"{round(images * s.leave)} leave at {s.name}" for s in stages)
    return _svg(parts, WIDTH, FOOT, f"{images} images enter; {said}")


def timeline(lives: Sequence[Life], exits: Sequence[str], width: int) -> Markup:
    """Draw requests over time for a page `width` pixels wide: arrival, runs, answer, the other's answer."""
    narrow = width < 600
    left, right, row = (76.0, 16.0, ROW + 14) if narrow else (150.0, 24.0, ROW)
    first = min(life.arrival_ns for life in lives)
    last = max(max(life.runs[-1][1], life.other_ns) for life in lives)
    floor = HEAD + row * len(lives)

    def at(ns: int) -> float:
        return left + (width - left - right) * (ns - first) / (last - first)

    parts = list(_ticks((last - first) / 1e6, 4 if narrow else 9, left, width - right, floor))
    for index, life in enumerate(lives):
        y = HEAD + row * index
        middle = y + row / 2 + (6 if narrow else 0)
        parts.append(f'<image href="{life.url}" x="0" y="{middle - 13:.1f}" width="26" height="26"/>')
        parts.append(_text(0 if narrow else 34, y + 9 if narrow else middle + 5, life.name, "sm" if narrow else ""))
        arrives, answered = at(life.arrival_ns), at(life.runs[-1][1])
        parts.append(_line(arrives, answered, middle, middle, "wait"))
        for start, end, stage, batch in life.runs:
            parts.append(_box(at(start), middle - 10, max(2.0, at(end) - at(start) - 1), 20, f"s{stage % 3 + 1}"))
            if batch > 1 and at(end) - at(start) > 14:
                parts.append(_text((at(start) + at(end)) / 2, middle + 5, str(batch), f"on{stage % 3 + 1}", "middle"))
        parts.append(_line(at(life.other_ns), at(life.other_ns), middle - 12, middle + 12, "other"))
        parts.append(f'<circle cx="{arrives:.1f}" cy="{middle:.1f}" r="3.6" class="arrives"/>')
        parts.append(f'<path d="M{answered:.1f},{middle - 6:.1f} l6,6 l-6,6 l-6,-6z" class="answered"/>')
    label = f"{len(lives)} requests over {(last - first) / 1e6:.2f} ms, to {', '.join(exits)}"
    return _svg(parts, width, floor + 24, f"{label}{', narrow' if narrow else ''}")


def _ticks(span_ms: float, most: int, left: float, right: float, floor: float) -> Iterator[str]:
    """Yield lines at round times."""
    step = next(s for s in (10.0**e * m for e in range(-4, 6) for m in (1, 2, 5)) if span_ms / s <= most)
    for number in range(int(span_ms / step) + 1):
        x = left + (right - left) * number * step / span_ms
        yield _line(x, x, HEAD - 8, floor, "grid")
        yield _text(x, HEAD - 16, f"{number * step:g} ms", "m", "middle")


def _svg(parts: Sequence[str], width: float, height: float, label: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:{width:.0f}px" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _box(x: float, y: float, w: float, h: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.2f}" rx="1.5" class="{kind}"/>'


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
