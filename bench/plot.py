#!/usr/bin/env python3
"""Pictures (SVG) of the results that the other scripts wrote as JSON. No library, no font from elsewhere."""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from growth import TITLES, price

INK, FAINT, GRID, PAPER = "#1f2933", "#5f6c7b", "#dfe4ea", "#ffffff"
SERVER, OURS, LUA, CELL = "#9aa5b1", "#1f6feb", "#d9822b", "#2f9e63"
LINES = ("#1f6feb", "#d9822b", "#2f9e63", "#8e44ad", "#c0392b", "#5f6c7b")
FONT = 'font-family="DejaVu Sans, Verdana, Helvetica, sans-serif"'


@dataclass(frozen=True)
class Bar:
    """One bar: its value, and the least and the most of the rounds where there were any."""

    label: str
    value: float
    colour: str
    least: float | None = None
    most: float | None = None


def words(
    x: float, y: float, content: str, size: int = 12, anchor: str = "start", colour: str = INK, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {where} fill="{colour}"{weight}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {where} fill="{colour}" rx="2"/>'


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def sheet(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """The picture with its own background, so that it can be read on any page."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{escape(title, quote=True)}" {FONT}>'
    )
    return (
        "\n".join(
            [
                head,
                f"<title>{escape(title)}</title>",
                f'<rect width="100%" height="100%" fill="{PAPER}"/>',
                *parts,
                "</svg>",
            ]
        )
        + "\n"
    )


def rounded_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(title: str, subtitle: str, unit: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Horizontal bars in groups, the figure at the end of each."""
    left, right, line, gap = 210, 90, 22, 12
    width = 860
    shown = [(name, group) for name, group in groups if group]
    top = max(max(bar.most or 0, bar.value) for _, group in shown for bar in group)
    step = rounded_up(top / 5)
    ticks = [step * each for each in range(math.ceil(top / step) + 1)]
    scale = (width - left - right) / ticks[-1]
    height = 92 + sum(len(group) * line + gap for _, group in shown) + 34
    parts = [words(16, 28, title, 17, bold=True), words(16, 48, subtitle, 11, colour=FAINT), *legend(16, 68)]
    bottom = height - 40
    for tick in ticks:
        x = left + tick * scale
        parts += [
            stroke(x, 82, x, bottom, GRID),
            words(x, bottom + 16, number(tick) if tick else "0", 10, "middle", FAINT),
        ]
    parts.append(words(width - right, bottom + 32, unit, 10, "end", FAINT))
    y = 92.0
    for _, group in shown:
        for bar in group:
            parts += [
                words(left - 8, y + 14, bar.label, 12, "end"),
                box(left, y + 2, max(1.0, bar.value * scale), line - 6, bar.colour),
            ]
            end = bar.value
            if bar.least is not None and bar.most is not None:
                middle = y + line / 2 - 1
                parts.append(stroke(left + bar.least * scale, middle, left + bar.most * scale, middle, INK))
                end = max(end, bar.most)
            parts.append(words(left + end * scale + 6, y + 14, number(bar.value), 11, colour=INK))
            y += line
        y += gap
    return sheet(width, height, title, parts)


def legend(x: float, y: float) -> list[str]:
    parts = []
    for label, colour in (
        ("yardsticks", SERVER),
        ("this module", OURS),
        ("Lua script", LUA),
        ("redis-cell", CELL),
    ):
        parts += [
            box(x, y - 9, 10, 10, colour),
            words(x + 15, y, label, 11),
        ]
        x += 30 + len(label) * 6.6
    return parts


def colour_of(title: str) -> str:
    if title.startswith("RL."):
        return OURS
    if title.startswith("Lua"):
        return LUA
    return CELL if title.startswith("CL.") else SERVER


def grouped(titles: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Titles by algorithm, ours first."""
    kinds = {"fixed": "fixed", "sliding": "sliding", "token": "token", "throttle": "token", "leaky": "leaky"}
    groups: dict[str, list[str]] = {name: [] for name in ("server", "fixed", "sliding", "token", "leaky")}
    for title in titles:
        groups[next((group for word, group in kinds.items() if word in title.lower()), "server")].append(title)
    return [
        (name, sorted(found, key=lambda t: (not t.startswith("RL."), t)) if name != "server" else found)
        for name, found in groups.items()
    ]


def throughput(data: dict[str, Any]) -> dict[str, str]:
    """One picture per setup and path, at the deepest pipeline."""
    pictures = {}
    runs = [run for run in data["runs"] if run["kind"] == "throughput"]
    for setup in dict.fromkeys(run["setup"] for run in runs):
        deepest = max(run["pipeline"] for run in runs if run["setup"] == setup)
        for path in ("admitted", "refused", "new key"):
            rates: dict[str, list[float]] = {}
            for run in runs:
                if run["setup"] == setup and run["pipeline"] == deepest and run["path"] in (path, "plain"):
                    rates.setdefault(run["name"], []).append(run["rps"] / 1000)
            groups = [
                (
                    name,
                    [Bar(t, statistics.median(rates[t]), colour_of(t), min(rates[t]), max(rates[t])) for t in titles],
                )
                for name, titles in grouped(list(rates))
            ]
            what = {"admitted": "Admitted calls", "refused": "Refused calls", "new key": "First calls of new keys"}[
                path
            ]
            if any(titles for name, titles in groups if name != "server"):
                about = f"{setup}, pipeline {deepest}, median of {data['how']['rounds']} rounds (line: least to most)"
                pictures[f"throughput-{setup.replace('+', '-')}-{path.replace(' ', '-')}"] = bars(
                    f"{what}: thousand per second",
                    f"{data['machine']['server']}, {about}",
                    "thousand per second",
                    groups,
                )
    return pictures


def callgrind(data: dict[str, Any]) -> dict[str, str]:
    """Instructions per command, all paths in one picture."""
    counts = {count["title"]: count["instructions"] for count in data["counts"]}
    groups = [(name, [Bar(t, counts[t], colour_of(t)) for t in titles]) for name, titles in grouped(list(counts))]
    how = data["how"]
    subtitle = f"{data['machine']['server']}, pipelines of {how['pipeline']}, {how['keys']:,} warm keys, callgrind"
    return {"callgrind": bars("Instructions that the server executes per command", subtitle, "instructions", groups)}


def memory(data: dict[str, Any]) -> dict[str, str]:
    """Bytes per key."""
    sizes = {family["title"]: family["bytes_per_key"] for family in data["families"]}
    # A long log would make all others look alike; it stands in the table.
    sizes = {title: size for title, size in sizes.items() if "100 entries" not in title}
    groups = [
        (name, [Bar(t.replace("RL.SLIDING BUCKETS", "BUCKETS"), sizes[t], colour_of(t)) for t in titles])
        for name, titles in grouped(list(sizes))
    ]
    about = "names of 16 bytes, tables and expiries included"
    subtitle = f"{data['machine']['server']}, {data['how']['keys']:,} keys of each kind, {about}"
    return {"memory": bars("Bytes of memory per key", subtitle, "bytes", groups)}


def growth(data: dict[str, Any]) -> dict[str, str]:
    """A picture of two logarithmic axes for each section with a curve."""
    pictures = {}
    for section, points in data["sections"].items():
        title, axis = TITLES[section]
        curves: dict[str, list[tuple[float, float]]] = {}
        tails: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            if point["x"] > 0 and price(point) > 0:
                curves.setdefault(point["series"], []).append((point["x"], price(point)))
                tails.setdefault(point["series"], []).append((point["x"], point.get("p99.9_us", point["worst_us"])))
        if curves:
            kind = "processor time of one call" if "cpu_us" in points[0] else "mean time of one call"
            subtitle = f"{data['machine']['server']}: {kind} (solid), p99.9 of the command's time (dashed)"
            pictures[f"growth-{section}"] = lines(title, subtitle, axis, curves, tails)
    return pictures


def decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9) + 1)]


def lines(
    title: str,
    subtitle: str,
    axis: str,
    curves: dict[str, list[tuple[float, float]]],
    tails: dict[str, list[tuple[float, float]]],
) -> str:
    """Curves over two logarithmic axes."""
    width, height, left, right, top, bottom = 860, 440, 70, 230, 70, 56
    across = [x for curve in curves.values() for x, _ in curve]
    up = [y for curve in [*curves.values(), *tails.values()] for _, y in curve if y > 0]
    xs = across_ticks(across)
    ys = decades(min(up), max(up))
    if len(ys) == 1:
        ys.append(ys[0] * 10)
    span = math.log(max(across) / min(across)) or 1.0

    def x_of(x: float) -> float:
        return left + math.log(x / min(across)) / span * (width - left - right)

    def y_of(y: float) -> float:
        return height - bottom - math.log(max(y, ys[0]) / ys[0]) / math.log(ys[-1] / ys[0]) * (height - top - bottom)

    parts = [words(16, 28, title, 17, bold=True), words(16, 48, subtitle, 11, colour=FAINT)]
    for tick in ys:
        parts += [
            stroke(left, y_of(tick), width - right, y_of(tick), GRID),
            words(left - 8, y_of(tick) + 4, f"{tick:g} us", 10, "end", FAINT),
        ]
    for tick in xs:
        parts += [
            stroke(x_of(tick), top, x_of(tick), height - bottom, GRID),
            words(x_of(tick), height - bottom + 16, short(tick), 10, "middle", FAINT),
        ]
    parts.append(words((left + width - right) / 2, height - 14, axis, 11, "middle", FAINT))
    for index, (name, curve) in enumerate(curves.items()):
        colour = LINES[index % len(LINES)]
        parts += [
            path(curve, x_of, y_of, colour, ""),
            path(tails[name], x_of, y_of, colour, ' stroke-dasharray="4 4" opacity="0.7"'),
        ]
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in curve]
        y = top + 10 + index * 22
        parts += [
            stroke(width - right + 16, y, width - right + 40, y, colour, 2),
            words(width - right + 46, y + 4, name, 11),
        ]
    return sheet(width, height, title, parts)


def across_ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten, or where they are too few the values themselves."""
    powers = [tick for tick in decades(min(values), max(values)) if min(values) <= tick <= max(values)]
    return powers if len(powers) > 3 else sorted(set(values))


def short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def path(curve: Sequence[tuple[float, float]], x_of, y_of, colour: str, more: str) -> str:
    points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{more}/>'


KINDS = {"throughput": throughput, "callgrind": callgrind, "memory": memory, "growth": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "results", type=Path, nargs="+", help="JSON files of run.py, callgrind.py, growth.py, memory.py"
    )
    parser.add_argument("--out", type=Path, help="the folder for the pictures (that of each file, when not given)")
    options = parser.parse_args()
    for result in options.results:
        data = json.loads(result.read_text())
        folder = options.out or result.parent
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in KINDS[data["kind"]](data).items():
            (folder / f"{name}.svg").write_text(picture)
            print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
