#!/usr/bin/env python3
"""Shows the limiters at work: the same calls go through each of them, side by side, for about twenty seconds.

    make demo                        builds the module first
    scripts/demo.py --plain          lines instead of bars, as where the output is no terminal

Starts a server of its own and stops it by its process id, also on Ctrl-C. All calls of a moment go in one transaction
between two readings of the server's clock, so the limiters see them at the same time, and what is said about a period
is true of the clock that decided. Exit status: 0; 1 if a limiter let more pass than it promises; 130 when
interrupted. Python's standard library only.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from traffic import Limiter, Server, ServerError, limiters, server_options

LIMIT, PERIOD_S, SUB_WINDOWS = 10, 2, 4
PERIOD_US = PERIOD_S * 1_000_000
# One moment of traffic, and of the picture.
TICK_US = 100_000
TICKS_PER_PERIOD = PERIOD_US // TICK_US


@dataclass(frozen=True)
class Act:
    """A kind of traffic: how many calls come in a tick, given its number and that of the one at a boundary."""

    name: str
    about: str
    calls: Callable[[int, int], int]


def at_the_boundary(tick: int, boundary: int) -> int:
    """One call a period earlier opens a window that ends with the tick of the boundary; then ten on either side."""
    return {-TICKS_PER_PERIOD: 1, -3: 5, -2: 5, 1: 5, 2: 5}.get(tick - boundary, 0)


ACTS = [
    Act("steady", "4 calls a second, all pass", lambda tick, _: 1 if tick % 5 in (0, 2) else 0),
    Act("overload", "20 calls a second: all at once, or spread?", lambda tick, _: 2),
    Act("bursts", "15 calls at once, twice", lambda tick, _: 15 if tick in (18, 40) else 0),
    Act("at the boundary", "20 calls around the end of a window", at_the_boundary),
]


@dataclass
class Lane:
    """A limiter and what it has answered: per admission the earliest and the latest it can have gone ahead, in us."""

    limiter: Limiter
    asked: int = 0
    passed: list[tuple[int, int]] = field(default_factory=list)
    most: int = 0
    first: int = 0

    def hear(self, reply: list[int], before_us: int, after_us: int) -> None:
        """A reply, and the server's clock before and behind the call."""
        self.asked += 1
        if not reply[0]:
            return
        # With SHAPE a call goes ahead at its turn and is counted there; the wait is rounded up to a millisecond.
        wait_us = 1000 * reply[3]
        self.passed.append((before_us + wait_us - (1000 if self.limiter.shaped else 0), after_us + wait_us))
        # Counted are those that went ahead within one period for certain.
        while self.passed[-1][1] - self.passed[self.first][0] >= PERIOD_US:
            self.first += 1
        self.most = max(self.most, len(self.passed) - self.first)

    def lately(self, now_us: int) -> int:
        """How many went ahead in the period that ends now."""
        return sum(1 for earliest_us, _ in self.passed[-4 * LIMIT :] if now_us - PERIOD_US < earliest_us <= now_us)

    def ahead(self, now_us: int) -> int:
        """How many have been told a turn that has not come."""
        return sum(1 for earliest_us, _ in self.passed[-2 * LIMIT :] if earliest_us > now_us)

    @property
    def kept(self) -> bool:
        return self.most <= self.limiter.most


class Screen:
    """The bars, drawn over the last ones."""

    COLOURS = {"in": "\033[34m", "over": "\033[31m", "dim": "\033[2m", "bold": "\033[1m", "end": "\033[0m"}

    def __init__(self) -> None:
        self.height = 0

    def paint(self, colour: str, text: str) -> str:
        return f"{self.COLOURS[colour]}{text}{self.COLOURS['end']}" if text else ""

    def bar(self, lane: Lane, now_us: int) -> str:
        """Two cells for each unit, with a mark behind the limit."""
        count = lane.lately(now_us)
        inside, over = min(count, LIMIT), max(0, count - LIMIT)
        drawn = self.paint("in", "██" * inside) + "  " * (LIMIT - inside)
        return f"{drawn}{self.paint('bold', '|')}{self.paint('over', '██' * over)}{'  ' * (LIMIT - over)} {count:3}"

    def show(self, act: Act, seconds_left: float, lanes: list[Lane], now_us: int) -> None:
        # A line that wraps would be two lines to go back over.
        columns = shutil.get_terminal_size().columns
        lines = [f"{self.paint('bold', act.name)}: {act.about}"[: columns + 8]]
        lines.append(self.paint("dim", f"passed in the last {PERIOD_S} s; | is the limit of {LIMIT}"))
        for lane in lanes:
            waiting = f", {lane.ahead(now_us)} wait" if lane.limiter.shaped else ""
            tail = f"  {len(lane.passed)} of {lane.asked}{waiting}" if columns >= 90 else ""
            lines.append(f"{lane.limiter.name:16}{self.bar(lane, now_us)}{tail}")
        lines.append(self.paint("dim", f"{seconds_left:.0f} s to go; Ctrl-C ends it"))
        back = f"\033[{self.height}A" if self.height else ""
        sys.stdout.write(back + "".join(f"\r{line}\033[K\n" for line in lines))
        sys.stdout.flush()
        self.height = len(lines)

    def end_act(self, *_: object) -> None:
        pass


class Lines:
    """One line per limiter and act, for where nothing can be drawn over."""

    def show(self, *_: object) -> None:
        pass

    def end_act(self, act: Act, before: list[tuple[int, int]], lanes: list[Lane]) -> None:
        print(f"{act.name}: {act.about}")
        for (asked, passed), lane in zip(before, lanes, strict=True):
            print(f"  {lane.limiter.name:16}{len(lane.passed) - passed:4} of {lane.asked - asked:3} passed", flush=True)


class Stop:
    """Whether a signal asked for the end: nothing is torn away in the middle, and the server is stopped in order."""

    def __init__(self) -> None:
        self.asked = False
        self.listen()

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, self.ask)

    def ask(self, *_: object) -> None:
        self.asked = True


class Show:
    """A server, and the same traffic through every limiter on it."""

    def __init__(self, server: Server, view: Screen | Lines, stop: Stop) -> None:
        self.client = server.client()
        self.lanes = [Lane(limiter) for limiter in limiters(LIMIT, PERIOD_S, SUB_WINDOWS)]
        self.view = view
        self.stop = stop

    def clock_us(self) -> int:
        seconds, rest = self.client.call("TIME")
        return 1_000_000 * int(seconds) + int(rest)

    def moment(self, calls: int) -> int:
        """So many calls to each limiter in one transaction; the server's clock behind them."""
        asked = [(lane, lane.limiter.call(f"demo:{lane.limiter.name}")) for lane in self.lanes for _ in range(calls)]
        before_us = self.clock_us()
        *queued, replies = self.client.pipeline([["MULTI"], *(words for _, words in asked), ["EXEC"]])
        after_us = self.clock_us()
        for reply in (*queued, replies, *(replies if isinstance(replies, list) else [])):
            if isinstance(reply, ServerError):
                raise reply
        for (lane, _), reply in zip(asked, replies, strict=True):
            lane.hear(reply, before_us, after_us)
        return after_us

    def run(self, seconds: float) -> bool:
        """All acts; whether they came to their end."""
        ticks = max(1, round(seconds * 1_000_000 / TICK_US / len(ACTS)))
        start = time.monotonic()
        for number, act in enumerate(ACTS):
            before = [(lane.asked, len(lane.passed)) for lane in self.lanes]
            # The first end of a window of the clock that leaves time for a call one period earlier.
            begun_us = self.clock_us()
            boundary_us = -(-(begun_us + PERIOD_US + 6 * TICK_US) // PERIOD_US) * PERIOD_US
            boundary = -(-(boundary_us - begun_us) // TICK_US)
            for tick in range(ticks):
                due = start + (number * ticks + tick) * TICK_US / 1_000_000
                time.sleep(max(0.0, due - time.monotonic()))
                if self.stop.asked:
                    return False
                now_us = self.moment(act.calls(tick, boundary))
                left = ((len(ACTS) - number) * ticks - tick) * TICK_US / 1_000_000
                self.view.show(act, left, self.lanes, now_us)
            self.view.end_act(act, before, self.lanes)
        return True

    def report(self) -> bool:
        """What was counted and what was promised; whether all of it was kept."""
        print(f"\n{'limiter':16}{'asked':>7}{'passed':>8}{f'most in {PERIOD_S} s':>13}   never more than")
        for lane in self.lanes:
            promise = f"{lane.limiter.most:2} ({lane.limiter.promise}){'' if lane.kept else '  BROKEN'}"
            print(f"{lane.limiter.name:16}{lane.asked:7}{len(lane.passed):8}{lane.most:13}   {promise}")
        return all(lane.kept for lane in self.lanes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=22, help="how long, in all (22)")
    parser.add_argument("--plain", action="store_true", help="lines instead of bars")
    server_options(parser)
    options = parser.parse_args()
    plain = options.plain or not sys.stdout.isatty()
    if not options.module.is_file():
        parser.error(f"{options.module} is missing: run \"make build\"")
    stop = Stop()
    # In a session of its own, so that a Ctrl-C reaches the server through us alone.
    with Server(options.server, [options.module.resolve()], wrapper=["setsid"]) as server:
        # The server's own start took one of the signals.
        stop.listen()
        print(f"Limit {LIMIT} in {PERIOD_S} s; buckets: capacity {LIMIT}, rate {LIMIT} in {PERIOD_S} s.")
        print(f"The server is process {server.process.pid}.\n", flush=True)
        show = Show(server, Lines() if plain else Screen(), stop)
        ended = show.run(options.seconds)
        kept = show.report()
    if not kept:
        return 1
    return 0 if ended else 130


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ServerError, OSError) as error:
        sys.exit(f"demo: {error}")
