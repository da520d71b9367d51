"""A plan as a picture: what runs where, over which links, how busy. SVG text in the ink of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from markupsafe import Markup

from fluidnpu.scheduler import placement
from fluidnpu.studies.drawing import PALETTE

from ..quantities import plain

WIDTH, LEAST_CARD = 1130.0, 214.0  # a picture with more columns than fit is wider, and the page scrolls it
HEAD_W, GAP, CARD_GAP = 168.0, 84.0, 18.0  # pixels: the front's box, between columns, between cards
TOP, JOB_H, BAR_H = 58.0, 27.0, 14.0
WIDE = 330.0  # a card from which on there is room for a line more on the right
MOST_LABELS = 4  # rates on the bands that enter a card
MOST_CARDS, MOST_SQUARES = 14, 20  # in a column, in a card
COLOURS = (PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[4], PALETTE[5], PALETTE[3])


@dataclass
class _Sheet:
    """Elements of a picture, in the order in which they are drawn; y grows downwards."""

    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, w: float, h: float, fill: str, edge: str = "none", round: float = 0) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, w):.1f}" height="{h:.1f}" rx="{round:g}" fill="{fill}" '
            f'stroke="{edge}"/>'
        )

    def text(self, x: float, y: float, words: str, *, size: float = 12, ink: str = "var(--ink)", **more: str) -> None:
        given = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" style="fill:{ink};font-size:{size:g}px"{given}>{escape(words)}</text>'
        )

    def flow(self, start: tuple[float, float], end: tuple[float, float], width: float, colour: str) -> None:
        middle = (start[0] + end[0]) / 2
        self.parts.append(
            f'<path d="M{start[0]:.1f} {start[1]:.1f} C{middle:.1f} {start[1]:.1f} {middle:.1f} {end[1]:.1f} '
            f'{end[0]:.1f} {end[1]:.1f}" fill="none" stroke="{colour}" stroke-width="{width:.1f}" opacity="0.55"/>'
        )


@dataclass(frozen=True, kw_only=True)
class _Card:
    """The place of one pool."""

    x: float
    y: float
    w: float
    h: float

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.w, self.y + self.h / 2


def plan_picture(fleet: placement.Fleet, plan: placement.Plan) -> Markup:
    """Draw the front, every pool with its devices, jobs and load, and the routes between them.

    A pool stands in the column of its place on its routes; bars are shares of a device's time and of its
    link.
    """
    sheet = _Sheet()
    columns = _columns(plan)
    shown = [column[:MOST_CARDS] for column in columns]
    width = max(LEAST_CARD, (WIDTH - HEAD_W - len(columns) * GAP) / len(columns))
    whole = HEAD_W + len(columns) * (GAP + width) + 2
    cards: dict[int, _Card] = {}
    heights = []
    for place, column in enumerate(shown):
        y = 4.0
        for pool in column:
            h = TOP + JOB_H * len(plan.pools[pool].jobs) + 3 * BAR_H + (14 if width >= WIDE else 30)
            cards[pool] = _Card(x=HEAD_W + GAP + place * (width + GAP), y=y, w=width, h=h)
            y += h + CARD_GAP
        left_out = len(columns[place]) - len(column)
        if left_out:
            sheet.text(HEAD_W + GAP + place * (width + GAP), y + 6, f"and {left_out} more pools", ink="var(--soft)")
            y += CARD_GAP
        heights.append(y)
    height = max(heights)
    colour = {network: COLOURS[k % len(COLOURS)] for k, network in enumerate(plan.networks)}
    head = _Card(x=2, y=height / 2 - 46, w=HEAD_W - 2, h=84)
    _flows(sheet, plan, cards, head, colour)
    _head(sheet, fleet, plan, head)
    for index, load in enumerate(placement.loads(fleet, plan)):
        if index in cards:
            _pool(sheet, fleet, plan.pools[index], load, cards[index], colour)
    title = f"the plan: {plan.form}, {len(plan.pools)} pools"
    return Markup(
        f'<div class="wide" tabindex="0"><svg viewBox="0 0 {whole:.0f} {height:.0f}" style="min-width:{min(whole, 3000):.0f}px" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif">{"".join(sheet.parts)}</svg></div>'
    )


def _columns(plan: placement.Plan) -> list[list[int]]:
    """Group pools by their furthest place on a route."""
    at = dict.fromkeys(range(len(plan.pools)), 0)
    for route in plan.routes:
        for place, pool in enumerate(route.pools):
            at[pool] = max(at[pool], place)
    return [[pool for pool in at if at[pool] == place] for place in range(max(at.values()) + 1)]


def _flows(
    sheet: _Sheet,
    plan: placement.Plan,
    cards: dict[int, _Card],
    head: _Card,
    colour: dict[str, str],
) -> None:
    """Draw what flows between two pools as a band; its width is the share of its network's rate."""
    total = dict.fromkeys(plan.networks, 0.0)
    bands: dict[tuple[int, int, str], float] = {}  # from a pool, -1 being the front, to a pool
    for route in plan.routes:
        total[route.network] += route.rate_per_s
        for start, end in zip((-1, *route.pools), route.pools, strict=False):
            bands[start, end, route.network] = bands.get((start, end, route.network), 0.0) + route.rate_per_s
    for pool, card in cards.items():
        enter = [(key, rate) for key, rate in bands.items() if key[1] == pool and (key[0] < 0 or key[0] in cards)]
        for nth, ((start, _, network), rate) in enumerate(sorted(enter), 1):
            begin = head.right if start < 0 else cards[start].right
            place = card.x, card.y + card.h * nth / (len(enter) + 1)
            width = 1.5 + 12 * rate / max(total[network], 1e-9) / len(plan.networks)
            sheet.flow(begin, place, width, colour[network])
            if len(enter) <= MOST_LABELS:
                halo = {"paint_order": "stroke", "stroke": "var(--paper)", "stroke_width": "3"}
                rate_text = f"{plain(rate, 4)}/s"
                sheet.text(place[0] - 6, place[1] - 6, rate_text, size=11, ink="var(--soft)", text_anchor="end", **halo)


def _head(sheet: _Sheet, fleet: placement.Fleet, plan: placement.Plan, card: _Card) -> None:
    sheet.box(card.x, card.y, card.w, card.h, "var(--paper)", "var(--faint)", 6)
    sheet.text(card.x + 12, card.y + 22, "front", size=14, font_weight="600")
    sheet.text(card.x + 12, card.y + 42, f"planned {plain(plan.rate_per_s, 4)} requests/s")
    if not fleet.head:
        sheet.text(card.x + 12, card.y + 62, "its link is no limit", size=11, ink="var(--soft)")
        return
    share = placement.head_load(fleet, plan)
    sheet.text(card.x + 12, card.y + 60, f"link '{fleet.head}': {100 * share:.0f} %", size=11, ink="var(--soft)")
    _bar(sheet, card.x + 12, card.y + 67, card.w - 24, [(share, "var(--soft)")])


def _pool(
    sheet: _Sheet,
    fleet: placement.Fleet,
    pool: placement.Pool,
    load: placement.Load,
    card: _Card,
    colour: dict[str, str],
) -> None:
    x, w = card.x + 14, card.w - 28
    sheet.box(card.x, card.y, card.w, card.h, "var(--paper)", "var(--faint)", 6)
    sheet.text(x, card.y + 22, f"{len(pool.devices)} x {pool.type}", size=14, font_weight="600")
    if pool.latency_ns:
        longest, wide = f"{pool.latency_ns / 1e6:.3g} ms at most", card.w >= WIDE
        place = (x + w, card.y + 22) if wide else (x, card.y + card.h - 10)
        sheet.text(*place, longest, size=11, ink="var(--soft)", text_anchor="end" if wide else "start")
    for k in range(min(len(pool.devices), MOST_SQUARES)):
        sheet.box(x + 14 * k, card.y + 31, 10, 10, "var(--grid)", "var(--faint)", 2)
    names = ", ".join(pool.devices) if len(pool.devices) <= 3 else f"{pool.devices[0]} ... {pool.devices[-1]}"
    after = x + 14 * min(len(pool.devices), MOST_SQUARES) + 6
    sheet.text(after, card.y + 40, _cut(names, (x + w - after) / 6.2), size=11, ink="var(--soft)")
    y = card.y + TOP
    for job in pool.jobs:
        blocks = fleet.types[pool.type].profiles[job.network].blocks
        name = f"{job.network}, " if len(colour) > 1 else ""
        _job(sheet, name, job, [bool(block.exit) for block in blocks], (x, y, w), colour[job.network])
        y += JOB_H
    y += 4
    rows: list[tuple[str, list[tuple[float, str]]]] = [
        (f"busy {100 * load.total:.0f} %", [(share, colour[name]) for name, share in load.busy.items()]),
        (f"link in {_pct(load.link_in)}", [(load.link_in, "var(--soft)")]),
        (f"link out {_pct(load.link_out)}", [(load.link_out, "var(--soft)")]),
    ]
    for label, shares in rows:
        sheet.text(x, y + 9, label, size=11, ink="var(--soft)")
        _bar(sheet, x + 92, y + 2, w - 92, shares)
        y += BAR_H


def _job(
    sheet: _Sheet, name: str, job: placement.Job, exits: Sequence[bool], place: tuple[float, float, float], colour: str
) -> None:
    """Draw the network's blocks as a ruler with the job's own filled, a mark at each exit, and what it
    does.
    """
    x, y, w = place
    width = w / len(exits)
    sheet.box(x, y + 14, w, 6, "var(--line)")
    sheet.box(x + width * job.first, y + 14, width * (job.last - job.first + 1), 6, colour)
    for block, exit in enumerate(exits):
        if exit:
            sheet.box(x + width * (block + 1) - 1, y + 11, 1.6, 12, "var(--ink)")
    ramps = {"on": "", "last": ", its last exit only", "none": ", no exits"}[job.ramps]
    rate = f"{plain(job.rate_per_s, 4)}/s"
    label = f"{name}blocks {job.first}..{job.last}, batch {job.batch}{ramps}"
    sheet.text(x, y + 9, _cut(label, w / 6.0 - len(rate) - 1), size=11.5)
    sheet.text(x + w, y + 9, rate, size=11, ink="var(--soft)", text_anchor="end")


def _bar(sheet: _Sheet, x: float, y: float, w: float, shares: Sequence[tuple[float, str]]) -> None:
    sheet.box(x, y, w, 7, "var(--line)", round=2)
    at = x
    for share, colour in shares:
        wide = min(w * share, x + w - at)
        sheet.box(at, y, wide, 7, colour)
        at += wide


def _pct(share: float) -> str:
    """Write a share so that a small one is no zero.

    >>> _pct(0.5), _pct(0.0004), _pct(0.0)
    ('50 %', '<0.1 %', '0 %')
    """
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def _cut(text: str, most: float) -> str:
    """Shorten a text to a number of letters.

    >>> _cut("a longer text", 8), _cut("short", 8)
    ('a longe…', 'short')
    """
    keep = max(1, int(most))
    return text if len(text) <= keep else text[: keep - 1] + "…"
