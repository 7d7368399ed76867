#!/usr/bin/env python3
"""Draws what the limiters admit: the pictures in docs/pictures, from the replies of the module in a real server.

    scripts/pictures.py            records and draws
    scripts/pictures.py --check    records, and fails if a picture that is kept is not what would be drawn now

The server's clock is held, so every run gets the same replies at the same instants and a picture is the same to the
byte. Each recording is also held to what the limiter promises. Python's standard library only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from traffic import ROOT, Answer, HeldServer, Limiter, ServerError, Unheld, limiters, most_within, server_options

# Behind traffic, which knows the folder.
from plot import FAINT, GRID, INK, box, sheet, stroke, words

FOLDER = ROOT / "docs" / "pictures"

LIMIT, PERIOD_S, SUB_WINDOWS = 10, 10, 5
PERIOD_MS = 1000 * PERIOD_S
RULES = limiters(LIMIT, PERIOD_S, SUB_WINDOWS)

NUMBERS = f"Limit {LIMIT} in {PERIOD_S} s; buckets: capacity {LIMIT}, rate {LIMIT} in {PERIOD_S} s."

ADMITTED, FILL, OVER, OVER_FILL, REFUSED = "#1f6feb", "#b6d1f8", "#c0392b", "#eba59d", "#b9c1cb"
SUMS = [("went ahead in the last 10 s", FILL), ("of these above the limit", OVER_FILL), ("the limit", "limit")]


@dataclass(frozen=True)
class Traffic:
    name: str
    about: str
    instants_ms: list[int]


ATTACK = [0, *range(8_000, 12_000, 200), *range(28_000, 32_000, 200)]
END_MS = 40_000
TRAFFICS = [
    Traffic("steady", "8 calls in 10 s", list(range(0, END_MS, 1250))),
    Traffic("bursts", "15 calls every 8 s", [b + 40 * n for b in range(1000, END_MS, 8000) for n in range(15)]),
    Traffic("at the boundary", "20 calls in 4 s, twice", ATTACK),
    Traffic("overload", "30 calls in 10 s", [n * 1000 // 3 for n in range(3 * END_MS // 1000)]),
]
Recording = list[tuple[Limiter, list[Answer]]]


class Broken(Exception):
    """A recording that does not keep what the limiter promises."""


def turns(answers: Sequence[Answer]) -> list[int]:
    """When the admitted calls go ahead."""
    return [answer.turn_ms for answer in answers if answer.allowed]


def recorded(held: HeldServer, traffic: Traffic, rules: Sequence[Limiter] = RULES) -> Recording:
    recording = list(zip(rules, held.record(rules, traffic.instants_ms), strict=True))
    for rule, answers in recording:
        most = most_within(turns(answers), PERIOD_MS)
        if most > rule.most:
            raise Broken(f"{rule.name}, {traffic.name}: {most} in less than {PERIOD_S} s, and {rule.most} promised")
    return recording


def alike(recording: Recording) -> list[tuple[str, Limiter, list[Answer]]]:
    """Neighbours that gave the same answers share a row."""
    rows: list[tuple[str, Limiter, list[Answer]]] = []
    for rule, answers in recording:
        if rows and rows[-1][2] == answers:
            rows[-1] = (f"{rows[-1][0]}, {rule.name}", *rows[-1][1:])
        else:
            rows.append((rule.name, rule, answers))
    return rows


def path(data: str, fill: str = "none", line: str = "none", width: float = 1.5) -> str:
    return f'<path d="{data}" fill="{fill}" stroke="{line}" stroke-width="{width}" stroke-linejoin="round"/>'


def dashed(x1: float, x2: float, y: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y:.1f}H{x2:.1f}" stroke="{colour}" stroke-width="1" stroke-dasharray="4 3"/>'


def ticks(instants: Sequence[int], scale: Scale, y: float, length: float, colour: str) -> str:
    data = "".join(f"M{scale.x(instant):.1f} {y:.1f}v{length:.1f}" for instant in instants if instant <= scale.end_ms)
    return path(data, line=colour, width=1) if data else ""


def staircase(corners: Sequence[tuple[float, float]]) -> str:
    """A path from corner to corner, along and then up or down, in tenths; steps too narrow to be seen become one."""
    places = [(round(10 * x), round(10 * y)) for x, y in corners]
    (x, y), rest = places[0], places[1:]
    data = f"M{x / 10:g} {y / 10:g}"
    for index, (next_x, next_y) in enumerate(rest):
        if index + 1 < len(rest) and rest[index + 1][0] - x < 5:
            continue
        data += f"h{(next_x - x) / 10:g}" * (next_x != x) + f"v{(next_y - y) / 10:g}" * (next_y != y)
        x, y = next_x, next_y
    return data


@dataclass(frozen=True)
class Scale:
    """Where a panel lies, and what its edges mean."""

    left: float
    width: float
    bottom: float
    height: float
    end_ms: int
    top: float

    def x(self, at_ms: float) -> float:
        return self.left + self.width * at_ms / self.end_ms

    def y(self, value: float) -> float:
        return self.bottom - self.height * value / self.top

    def frame(self, steps: Sequence[int], seconds: int = 10) -> list[str]:
        along = [f"M{self.left:g} {self.y(step):.1f}h{self.width:g}" for step in steps]
        marks = range(0, self.end_ms + 1, 1000 * seconds)
        up = [f"M{self.x(at_ms):.1f} {self.bottom:g}v{-self.height:g}" for at_ms in marks]
        return [path("".join(along + up), line=GRID, width=1)]

    def values(self, steps: Sequence[int]) -> list[str]:
        return [words(self.left - 6, self.y(step) + 3.5, str(step), 10, "end", FAINT) for step in steps]

    def seconds(self, y: float, step: int, last: bool = True) -> list[str]:
        """Marks under a panel; without the last one where another panel follows."""
        marks = range(0, self.end_ms // 1000 + last, step)
        return [words(self.x(1000 * at), y, f"{at} s", 10, "middle", FAINT) for at in marks]


def running(scale: Scale, instants: Sequence[int]) -> list[str]:
    """How many went ahead in the period that ends at each instant; what is above the limit in another colour."""
    changes = Counter(instants)
    changes.subtract(instant + PERIOD_MS for instant in instants)
    steps, count = [(0, 0)], 0
    for at_ms in sorted(changes):
        if changes[at_ms] and at_ms < scale.end_ms:
            count += changes[at_ms]
            steps.append((at_ms, count))

    def line(least: int) -> str:
        corners = [(scale.left, scale.y(least))]
        corners += [(scale.x(at_ms), scale.y(max(value, least))) for at_ms, value in steps]
        return staircase([*corners, (scale.left + scale.width, scale.y(max(count, least)))])

    parts = [path(f"{line(0)}V{scale.bottom:.1f}H{scale.left:.1f}Z", fill=FILL)]
    if max(value for _, value in steps) > LIMIT:
        parts.append(path(f"{line(LIMIT)}V{scale.y(LIMIT):.1f}H{scale.left:.1f}Z", fill=OVER_FILL))
    return [*parts, path(line(0), line=ADMITTED)]


def bars(scale: Scale, counts: Counter[int], colour: str) -> str:
    """A bar for each second of the panel."""
    base, wide = f"{scale.bottom:.1f}", scale.x(1000) - scale.x(0) - 2
    shown = sorted((second, count) for second, count in counts.items() if 1000 * second < scale.end_ms)
    each = [f"M{scale.x(1000 * at) + 1:.1f} {base}V{scale.y(count):.1f}h{wide:.1f}V{base}Z" for at, count in shown]
    return path("".join(each), fill=colour)


def legend(x: float, y: float, entries: Sequence[tuple[str, str]]) -> list[str]:
    parts = []
    for label, colour in entries:
        mark = dashed(x - 2, x + 14, y - 4, OVER) if colour == "limit" else box(x, y - 9, 10, 10, colour)
        parts += [mark, words(x + 18, y, label, 11)]
        x += 36 + len(label) * 6.4
    return parts


def boundary(held: HeldServer) -> str:
    """The picture of the guarantee: twice the limit around the end of a window."""
    traffic = TRAFFICS[2]
    rows = alike([row for row in recorded(held, traffic) if not row[0].shaped])
    left, width, tall, pitch, first = 176.0, 530.0, 78.0, 122.0, 104.0
    parts = [
        words(16, 28, "What passes around the end of a window", 17, bold=True),
        words(16, 48, f"One call at 0 s, then twenty in 4 s around 10 s and around 30 s. {NUMBERS}", 11, colour=FAINT),
        *legend(16, 72, [*SUMS, ("refused", REFUSED)]),
    ]
    for number, (name, rule, answers) in enumerate(rows):
        scale = Scale(left, width, first + number * pitch + tall, tall, END_MS, 20)
        most = most_within(turns(answers), PERIOD_MS)
        admitted = [answer.at_ms for answer in answers if answer.allowed]
        refused = [answer.at_ms for answer in answers if not answer.allowed]
        middle = scale.bottom - tall / 2
        parts += [
            *scale.frame([0, 10, 20]),
            *running(scale, turns(answers)),
            dashed(left, left + width, scale.y(LIMIT), OVER),
            *scale.values([0, 10, 20]),
            ticks(admitted, scale, scale.bottom + 4, 9, ADMITTED),
            ticks(refused, scale, scale.bottom + 4, 9, REFUSED),
            *wrapped(16, middle - 12, name, rule),
            words(left + width + 16, middle - 4, str(most), 22, colour=OVER if most > LIMIT else ADMITTED, bold=True),
            words(left + width + 54, middle - 12, f"most in {PERIOD_S} s", 11),
            words(left + width + 54, middle + 3, f"{len(admitted)} of {len(answers)} passed", 11, colour=FAINT),
            words(left + width + 16, middle + 22, "never more than", 10, colour=FAINT),
            words(left + width + 16, middle + 35, f"{rule.promise}: {rule.most}", 10, colour=FAINT),
        ]
    bottom = first + (len(rows) - 1) * pitch + tall
    parts += scale.seconds(bottom + 28, 10)
    note = "curve: units that went ahead in the 10 s before; ticks: each call"
    parts.append(words(left, bottom + 46, note, 10, colour=FAINT))
    return sheet(860, bottom + 60, "What passes at the end of a window, per limiter", parts)


def wrapped(x: float, y: float, name: str, rule: Limiter) -> list[str]:
    """The name of a row, bold, and its rule below."""
    lines = name.split(", ")
    parts = [words(x, y + 15 * index, line, 13, bold=True) for index, line in enumerate(lines)]
    rest = " ".join(str(word) for word in rule.rule[1:])
    return [*parts, words(x, y + 15 * len(lines) + 2, f"key {rest}", 10, colour=FAINT)]


def every(held: HeldServer) -> str:
    """All limiters under all traffics."""
    left, width, gap, tall, pitch, first = 176.0, 158.0, 12.0, 60.0, 78.0, 128.0
    parts = [
        words(16, 28, "The same traffic through each limiter", 17, bold=True),
        words(16, 48, f"{NUMBERS} SHAPE counts calls at their turns.", 11, colour=FAINT),
        *legend(16, 72, SUMS),
    ]
    for column, traffic in enumerate(TRAFFICS):
        x = left + column * (width + gap)
        parts += [
            words(x, first - 28, traffic.name, 13, bold=True),
            words(x, first - 13, f"{traffic.about}: {len(traffic.instants_ms)} calls", 10, colour=FAINT),
        ]
        for row, (rule, answers) in enumerate(recorded(held, traffic)):
            scale = Scale(x, width, first + row * pitch + tall, tall, END_MS, 28)
            passed = turns(answers)
            most = most_within(passed, PERIOD_MS)
            parts += [*scale.frame([0, 10, 20]), *running(scale, passed)]
            parts.append(dashed(x, x + width, scale.y(LIMIT), OVER))
            told = f"{len(passed)} passed, most {most}"
            parts.append(words(x + width - 2, scale.bottom - tall + 8, told, 10, "end", OVER if most > LIMIT else INK))
            if column == 0:
                parts += [*scale.values([0, 10, 20]), *wrapped(16, scale.bottom - tall / 2, rule.name, rule)]
        parts += scale.seconds(first + (len(RULES) - 1) * pitch + tall + 15, 10, column + 1 == len(TRAFFICS))
    bottom = first + (len(RULES) - 1) * pitch + tall
    parts.append(words(left, bottom + 32, "upwards: units in the 10 s before", 10, colour=FAINT))
    return sheet(860, bottom + 46, "What each limiter admits under four kinds of traffic", parts)


def overload(held: HeldServer) -> str:
    """How a limiter spreads what it admits, when three times the limit asks."""
    traffic = TRAFFICS[3]
    rows = alike(recorded(held, traffic))
    left, width, tall, pitch, first = 176.0, 560.0, 56.0, 84.0, 96.0
    asked = Counter(instant // 1000 for instant in traffic.instants_ms)
    parts = [
        words(16, 28, "How what is admitted is spread, when three times the limit asks", 17, bold=True),
        words(16, 48, f"Three calls a second for {END_MS // 1000} s. {NUMBERS}", 11, colour=FAINT),
        *legend(16, 72, [("asked in a second", "#e3e8ee"), ("went ahead in that second", ADMITTED)]),
    ]
    for number, (name, rule, answers) in enumerate(rows):
        scale = Scale(left, width, first + number * pitch + tall, tall, END_MS, 3)
        passed = turns(answers)
        by_second = Counter(instant // 1000 for instant in passed)
        shown = sum(1 for instant in passed if instant < END_MS)
        middle = scale.bottom - tall / 2
        parts += [
            *scale.frame([0, 1, 2, 3]),
            bars(scale, asked, "#e3e8ee"),
            bars(scale, by_second, ADMITTED),
            *scale.values([0, 1, 2, 3]),
            *wrapped(16, middle - 6, name, rule),
            words(left + width + 14, middle + 2, str(shown), 20, colour=ADMITTED, bold=True),
            words(left + width + 14, middle + 17, f"of {len(answers)} in {END_MS // 1000} s", 11, colour=FAINT),
        ]
        if rule.shaped:
            longest = max(answer.wait_ms for answer in answers if answer.allowed)
            note = f"a call is told its turn: at most {longest / 1000:.1f} s ahead"
            parts.append(words(left, scale.bottom + 15, note, 10, colour=FAINT))
    bottom = first + (len(rows) - 1) * pitch + tall
    parts += scale.seconds(bottom + 30, 10)
    parts.append(words(left, bottom + 46, "upwards: calls per second", 10, colour=FAINT))
    return sheet(860, bottom + 58, "Calls per second that each limiter admits under overload", parts)


def shape(held: HeldServer) -> str:
    """A burst of twelve: refused at once, told to wait, or told to wait for no longer than they would."""
    rules = [
        Limiter("LEAKY", ("LEAKY", 10, 10, "10s"), "capacity + rate", 20),
        Limiter("LEAKY SHAPE", ("LEAKY", 10, 10, "10s", "SHAPE"), "the rate", 10),
        Limiter("LEAKY SHAPE WITHIN 5s", ("LEAKY", 10, 10, "10s", "SHAPE", "WITHIN", "5s"), "the rate", 10),
    ]
    traffic = Traffic("a burst", "", list(range(0, 1200, 100)))
    width, gap, first, line = 252.0, 26.0, 130.0, 17.0
    count = len(traffic.instants_ms)
    parts = [
        words(16, 28, f"A burst of {count} calls, and when each goes ahead", 17, bold=True),
        words(16, 48, "Capacity 10, rate 10 in 10 s. One call every 100 ms, the first on top.", 11, colour=FAINT),
        *legend(16, 72, [("goes ahead", ADMITTED), ("waits for its turn", FILL), ("refused", OVER)]),
    ]
    for column, (rule, answers) in enumerate(recorded(held, traffic, rules)):
        left = 32 + column * (width + gap)
        scale = Scale(left, width, first + count * line, count * line, 12_000, count)
        admitted = sum(1 for answer in answers if answer.allowed)
        parts += [
            words(left, first - 26, rule.name, 13, bold=True),
            words(left, first - 11, f"{admitted} admitted, {count - admitted} refused", 11, colour=FAINT),
            *scale.frame([], 2),
            stroke(left, scale.bottom, left + width, scale.bottom, GRID),
        ]
        for number, answer in enumerate(answers):
            y = first + number * line + line / 2
            x, go = scale.x(answer.at_ms), scale.x(answer.turn_ms)
            if column == 0:
                parts.append(words(left - 6, y + 3.5, str(number + 1), 10, "end", FAINT))
            if not answer.allowed:
                parts.append(path(f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6", line=OVER, width=1.8))
                wait = f"again in {answer.wait_ms / 1000:.1f} s"
                parts.append(words(x + 9, y + 3.5, wait, 10, colour=OVER))
                continue
            if go > x:
                parts.append(stroke(x, y, go, y, FILL, 5))
            parts.append(f'<circle cx="{go:.1f}" cy="{y:.1f}" r="4" fill="{ADMITTED}"/>')
        parts += scale.seconds(scale.bottom + 16, 2, column + 1 == len(rules))
    return sheet(860, first + count * line + 30, "When each call of a burst goes ahead, with and without SHAPE", parts)


def sub_windows(held: HeldServer) -> str:
    """How long one unit counts, by the moment at which it was admitted: the price of constant memory."""
    left, width, tall, first = 64.0, 600.0, 250.0, 92.0
    low, high = 9.5, 15.2
    # The thinner on top of the thicker, for where two fall together.
    curves = [
        (None, "exact log", INK, 2.0),
        (2, "BUCKETS 2", "#e3a39b", 7.0),
        (5, "BUCKETS 5", "#d9822b", 4.0),
        (20, "BUCKETS 20", ADMITTED, 2.0),
    ]

    def y(seconds: float) -> float:
        return first + tall * (high - seconds) / (high - low)

    def x(at_ms: int) -> float:
        return left + width * at_ms / PERIOD_MS

    about = "By the moment of its admission: the exact log, and counters of 2, 5 and 20 sub-windows."
    parts = [
        words(16, 28, "How long a unit counts in a sliding window of 10 s", 17, bold=True),
        words(16, 48, about, 11, colour=FAINT),
        words(16, 80, "seconds until the unit is free again", 11, colour=FAINT),
    ]
    for seconds in range(10, 16):
        parts.append(stroke(left, y(seconds), left + width, y(seconds), GRID))
        parts.append(words(left - 8, y(seconds) + 3.5, str(seconds), 10, "end", FAINT))
    for at in range(0, PERIOD_S + 1, 1):
        parts += [stroke(x(1000 * at), y(low), x(1000 * at), y(low) + 4, FAINT)]
        parts.append(words(x(1000 * at), y(low) + 17, f"{at} s", 10, "middle", FAINT))
    parts.append(stroke(left, y(low), left + width, y(low), FAINT))
    parts.append(words(left + width, y(low) + 34, "when the unit was admitted, on the clock", 10, "end", FAINT))
    for row, (buckets, label, colour, thick) in enumerate(curves):
        times = counted_ms(held, buckets)
        data, before = "", None
        for at_ms, waited_ms in times:
            data += f"{'M' if before is None or waited_ms > before else 'L'}{x(at_ms):.1f} {y(waited_ms / 1000):.1f}"
            before = waited_ms
        parts.append(path(data, line=colour, width=thick))
        longest, least = max(waited for _, waited in times), min(waited for _, waited in times)
        bound = PERIOD_MS + (-(-PERIOD_MS // buckets) if buckets else 0)
        if longest > bound or least < PERIOD_MS:
            raise Broken(f"{label}: a unit counted for {least} to {longest} ms, and {PERIOD_MS} to {bound} is promised")
        at = first + 24 + row * 56
        spread = f"{least / 1000:g} s" + (f" to {longest / 1000:g} s" if longest > least else "")
        parts += [
            stroke(left + width + 18, at - 4, left + width + 38, at - 4, colour, thick),
            words(left + width + 44, at, label, 12, bold=True),
            words(left + width + 44, at + 15, spread, 11),
            words(left + width + 44, at + 29, f"promised: to {bound / 1000:g} s", 10, colour=FAINT),
        ]
    return sheet(860, first + tall + 46, "How long a unit counts in an exact log and in sub-windows", parts)


def counted_ms(held: HeldServer, buckets: int | None) -> list[tuple[int, int]]:
    """For moments of one period: how long a limit of one refuses after an admission, as told and then tried."""
    rest = ["BUCKETS", buckets] if buckets else []
    call = ["RL.SLIDING", "unit", 1, f"{PERIOD_S}s", *rest]
    edges = range(0, PERIOD_MS + 1, -(-PERIOD_MS // (buckets or 1)))
    moments = {*range(0, PERIOD_MS, 250), *edges, *(edge - 1 for edge in edges if edge)}
    times = []
    for at_ms in sorted(moments):
        held.client.call("FLUSHALL")
        held.set_ms(at_ms)
        first, second = held.client.call(*call), held.client.call(*call)
        wait_ms = second[3]
        held.set_ms(at_ms + wait_ms - 1)
        early = held.client.call(*call)
        held.set_ms(at_ms + wait_ms)
        again = held.client.call(*call)
        if [reply[0] for reply in (first, second, early, again)] != [1, 0, 0, 1]:
            raise Broken(f"{call} at {at_ms} ms: the stated wait of {wait_ms} ms is not the shortest that helps")
        times.append((at_ms, wait_ms))
    return times


PICTURES = {"boundary": boundary, "every": every, "overload": overload, "shape": shape, "sub-windows": sub_windows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="draw nothing; fail if a picture is not what it would be")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the pictures")
    server_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rl-pictures-") as folder:
        try:
            with HeldServer(options.server, options.module, Path(folder)) as held:
                drawn = {f"{name}.svg": draw(held) for name, draw in PICTURES.items()}
        except Unheld as reason:
            print(f"pictures: skipped, {reason}")
            return 0 if options.check else 1
    options.out.mkdir(parents=True, exist_ok=True)
    kept = {file.name: file.read_text() for file in options.out.glob("*.svg")}
    stale = sorted(name for name, text in drawn.items() if kept.get(name) != text)
    if not options.check:
        for name in stale:
            (options.out / name).write_text(drawn[name])
        print(f"pictures: {len(drawn)} drawn, {len(stale)} of them new or changed")
        return 0
    for name in stale:
        print(f"pictures: {name} is not what the limiters do; scripts/pictures.py draws it anew", file=sys.stderr)
    if not stale:
        print(f"pictures: all {len(drawn)} are what the limiters do")
    return 1 if stale else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Broken, ServerError, OSError) as error:
        sys.exit(f"pictures: {error}")
