#!/usr/bin/env python3
"""How the price of a decision grows: with the keys, the log, the sub-windows, the rules, the connections.

Times are the server's own, from its command statistics and latency histogram, in microseconds; where
redis-benchmark is the load, the server's processor time per call is given too, with all that it does around the
command. The dearest single call is given with them. Every section is a table, and a curve for bench/plot.py.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import machine
import seeding
import tables
from run import ROOT, Load, found_server
from server import Server, ServerError, Word, command_time, cpu_seconds, encode, find_tool, settle_tables
from workloads import PLAIN, RANDOM, Workload, admitted, anything, refused

SECTIONS = ("keys", "sliding", "left", "buckets", "all", "connections", "largest")
LIMITS = (10, 100, 1000, 10_000, 100_000)
KEYS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 5_000_000)
TRIM = 250


class Growth:
    """The server, and the sections that are measured on it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        stalled = machine.stalls(options.server_core)
        settings = ["--latency-tracking-info-percentiles", "50 99 99.9 100"]
        self.server = Server(options.server, [options.module], settings, options.server_core)
        try:
            self.client = self.server.client()
            self.facts = {**machine.facts(self.client, [options.module]), "stalls": stalled}
            self.tool = find_tool(options.server, "benchmark")
        except BaseException:
            self.server.stop()
            raise

    def close(self) -> None:
        self.server.stop()

    # What all sections use.

    def empty(self) -> None:
        self.client.call("FLUSHALL", "SYNC")

    def stats(self, command: str) -> dict[str, float]:
        """Calls, mean, percentiles and the dearest call since the last reset."""
        found = command_time(self.client, command)
        if found.get("failed_calls"):
            raise ServerError(f"{command}: {found['failed_calls']:.0f} calls failed")
        return {
            "calls": found["calls"],
            "mean_us": found["usec_per_call"],
            "p50_us": found["p50"],
            "p99_us": found["p99"],
            "p99.9_us": found["p99.9"],
            "worst_us": found["p100"],
        }

    def counted(self, command: str, work: Callable[[], object]) -> dict[str, float]:
        self.client.call("CONFIG", "RESETSTAT")
        work()
        return self.stats(command)

    def load(self, workload: Workload, keys: int, pipeline: int = 32, connections: int = 50) -> dict[str, float]:
        """Rounds of redis-benchmark, and the server's own view of them."""
        bench = Load(self.tool, self.server, self.options.load_core, keys, False)
        first = bench.run(workload, pipeline, 20_000, connections)
        requests = max(20_000, int(first["rps"] * self.options.seconds))
        self.client.call("CONFIG", "RESETSTAT")
        before = cpu_seconds(self.client)
        runs = [bench.run(workload, pipeline, requests, connections) for _ in range(self.options.rounds)]
        spent = cpu_seconds(self.client) - before
        found = self.stats(workload.command)
        found["cpu_us"] = spent * 1e6 / (requests * self.options.rounds)
        found["rps"] = statistics.median(run["rps"] for run in runs)
        found.update(
            {
                f"client_{name}_ms": statistics.median(run[name] for run in runs)
                for name in ("p50", "p99", "p99.9")
                if all(name in run for run in runs)
            }
        )
        return found

    def send(self, commands: Sequence[Sequence[Word]], expected: Callable[[object], bool], batch: int = 32) -> None:
        """Pipelined calls whose verdict must be the expected one."""
        for first in range(0, len(commands), batch):
            for reply in self.client.pipeline(commands[first : first + batch]):
                if not expected(reply):
                    raise ServerError(f"{commands[first]}: answered {reply!r}")

    def paced(self, commands: Callable[[int], Sequence[Word]], per_ms: float, seconds: float) -> None:
        """Calls at an even pace. They are meant to be admitted: a few refusals are the machine's own hiccups."""
        sent, denied, began = 0, 0, time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            # After a hiccup of this program the backlog goes out in parts: a burst would not be an even pace.
            due = min(int(passed * 1000 * per_ms), sent + 64)
            if due == sent:
                time.sleep(0.0005)
                continue
            for reply in self.client.pipeline([commands(number) for number in range(sent, due)]):
                if not admitted(reply) and not refused(reply):
                    raise ServerError(f"{commands(sent)}: answered {reply!r}")
                denied += refused(reply)
            sent = due
        if denied > sent * 0.02:
            raise ServerError(f"{commands(0)}: {denied} of {sent} paced calls were refused")

    # The sections.

    def keys(self) -> list[dict[str, Any]]:
        """From one key to millions, taken at random. INCR works on the very counters of RL.FIXED."""
        families = [
            ("RL.FIXED", "fx", "999999999 1h", "", ["INCR"]),
            ("RL.TOKEN", "tk", "1000000000 100 1s", "", []),
            ("RL.LEAKY", "lk", "1000000000 100 1s", "", []),
            ("RL.SLIDING refused", "sl", "5 1h", "COST 5", []),
        ]
        found = []
        for count in [count for count in KEYS if count <= self.options.max_keys]:
            for title, prefix, numbers, fill, beside in families:
                command = title.split()[0]
                self.empty()
                seeding.by_command(self.client, f"{prefix}:a:", count, (command, "?", *numbers.split(), *fill.split()))
                settle_tables(self.client)
                key = f"{prefix}:a:{RANDOM}"
                measured = [(name, Workload(name, PLAIN, (name, key))) for name in beside]
                measured.append((title, Workload(title, PLAIN, (command, key, *numbers.split()))))
                for name, workload in measured:
                    found.append({"x": count, "series": name, **self.load(workload, count)})
                    self.say("keys", found[-1])
        self.empty()
        return found

    def sliding(self) -> list[dict[str, Any]]:
        """The exact log: filling from empty, full and refusing, and sliding, where every call trims and adds one."""
        found = []
        for limit in self.limits():
            keys = max(1, 20_000 // limit)
            names = [f"sl:a:{number:012d}" for number in range(keys)]
            self.empty()
            filling = [("RL.SLIDING", name, limit, "1h") for _ in range(limit) for name in names]
            counted = self.counted("rl.sliding", partial(self.send, filling, admitted))
            found.append({"x": limit, "series": "filling", **counted})
            self.say("sliding", found[-1])
            full = [("RL.SLIDING", names[number % keys], limit, "1h") for number in range(20_000)]
            counted = self.counted("rl.sliding", partial(self.send, full, refused))
            found.append({"x": limit, "series": "full, refused", **counted})
            self.say("sliding", found[-1])
            found.append({"x": limit, "series": "sliding", **self.steady(limit, names)})
            self.say("sliding", found[-1])
        self.empty()
        return found

    def steady(self, limit: int, names: list[str]) -> dict[str, float]:
        """Traffic at 80 % of the limit, for one period to fill the logs and for another to count."""
        self.empty()
        per_ms = 10.0 if limit * len(names) <= 20_000 else 20.0
        period_ms = int(limit * len(names) / per_ms * 0.8)

        def one(number: int) -> tuple[Word, ...]:
            return ("RL.SLIDING", names[number % len(names)], limit, f"{period_ms}ms")

        self.paced(one, per_ms, period_ms / 1000 * 1.1)
        counted = self.counted("rl.sliding", lambda: self.paced(one, per_ms, max(1.0, period_ms / 1000)))
        counted["entries"] = self.client.call("ZCARD", names[0])
        return counted

    def left(self) -> list[dict[str, Any]]:
        """A whole log has just left the window: each call until it is trimmed, and the same gone by expiry."""
        found = []
        for limit in self.limits():
            for cost in sorted({1, min(TRIM, limit - 1)}):
                runs = [self.just_left(limit, cost) for _ in range(self.options.repeats)]
                found.append(
                    {
                        "x": limit,
                        "series": f"COST {'1' if cost == 1 else 'as large as may be'}",
                        "cost": cost,
                        "first_us": min(run[0] for run in runs),
                        **spread(runs),
                    }
                )
                self.say("left", found[-1])
            found.append({"x": limit, "series": "the key itself expired", **self.expired(limit)})
            self.say("left", found[-1])
        self.empty()
        return found

    def fill_log(self, key: str, limit: int, units: int, period: str) -> None:
        costs = [TRIM] * (units // TRIM) + ([units % TRIM] if units % TRIM else [])
        self.send([("RL.SLIDING", key, limit, period, "COST", cost) for cost in costs], admitted)

    def just_left(self, limit: int, cost: int) -> list[float]:
        self.empty()
        key, period_s = "sl:left", 2
        period = f"{period_s}s"
        began = time.monotonic()
        self.fill_log(key, limit, limit - 1, period)
        filled = time.monotonic()
        if filled - began > period_s * 0.7:
            raise ServerError(f"the log of {limit} was filled too slowly: {filled - began:.1f} s")
        # One entry more, later than the rest: it keeps the key alive when all others have left.
        time.sleep(max(0.0, began + period_s * 0.8 - time.monotonic()))
        self.send([("RL.SLIDING", key, limit, period)], admitted)
        time.sleep(max(0.0, filled + period_s + 0.01 - time.monotonic()))
        before = self.client.call("ZCARD", key)
        if before != limit:
            raise ServerError(f"the log of {limit} holds {before} entries before the first call")
        each: list[float] = []
        while self.client.call("ZCARD", key) > 1 + len(each) * cost and len(each) < 1000:
            self.client.call("CONFIG", "RESETSTAT")
            reply = self.client.call("RL.SLIDING", key, limit, period, "COST", cost)
            if not admitted(reply):
                if not each:
                    raise ServerError(f"a log of {limit} that has left the window: answered {reply!r}")
                break
            each.append(command_time(self.client, "rl.sliding")["usec"])
        return each

    def expired(self, limit: int) -> dict[str, float]:
        """What the server itself pays when the next call finds the whole key expired."""
        self.empty()
        self.client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        key = "sl:gone"
        self.fill_log(key, limit, limit, "1h")
        self.client.call("PEXPIRE", key, 1)
        time.sleep(0.01)
        self.client.call("CONFIG", "RESETSTAT")
        self.send([("RL.SLIDING", key, limit, "1h")], admitted)
        took = command_time(self.client, "rl.sliding")["usec"]
        self.client.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")
        return {"calls": 1.0, "mean_us": took, "worst_us": took}

    def buckets(self) -> list[dict[str, Any]]:
        """From 2 to 360 sub-windows, all of them in use and moving on."""
        found = []
        for count in (2, 5, 10, 30, 60, 120, 240, 360):
            self.empty()
            period_ms = count * 5
            names = [f"bu:a:{number:012d}" for number in range(10)]

            one = partial(self.bucketed, names, count, period_ms)
            self.paced(one, 10.0, period_ms / 1000 * 2.2)
            seconds = max(1.0, self.options.seconds * 2)
            counted = self.counted("rl.sliding", partial(self.paced, one, 10.0, seconds))
            counted["fields"] = self.client.call("HLEN", names[0])
            found.append({"x": count, "series": "RL.SLIDING BUCKETS", **counted})
            self.say("buckets", found[-1])
        self.empty()
        return found

    @staticmethod
    def bucketed(names: list[str], count: int, period_ms: int, number: int) -> tuple[Word, ...]:
        return ("RL.SLIDING", names[number % len(names)], 999999999, f"{period_ms}ms", "BUCKETS", count)

    def all(self) -> list[dict[str, Any]]:
        """RL.ALL from 1 to 64 rules, each on a key of its own out of 10,000."""
        found = []
        for title, rule in (("FIXED rules", "FIXED 999999999 1h"), ("TOKEN rules", "TOKEN 1000000000 100 1s")):
            for count in (1, 2, 4, 8, 16, 32, 64):
                self.empty()
                words = ["RL.ALL"]
                for number in range(count):
                    words += [f"{title[0].lower()}{number}:{RANDOM}", rule]
                # The keys are the first and every second word: each placeholder gets a number of its own.
                workload = Workload("RL.ALL", PLAIN, tuple(words))
                found.append({"x": count, "series": title, **self.load(workload, 10_000, max(1, 32 // count))})
                self.say("all", found[-1])
        self.empty()
        return found

    def connections(self) -> list[dict[str, Any]]:
        """From 1 to 1000 connections, unpipelined, on 10,000 keys."""
        workloads = [
            Workload("GET", PLAIN, ("GET", f"fx:a:{RANDOM}")),
            Workload("RL.FIXED", PLAIN, ("RL.FIXED", f"fx:a:{RANDOM}", "999999999", "1h")),
            Workload("RL.TOKEN", PLAIN, ("RL.TOKEN", f"tk:a:{RANDOM}", "1000000000", "100", "1s")),
        ]
        self.empty()
        for workload in workloads[1:]:
            prefix = workload.words[1].replace(RANDOM, "")
            seeding.by_command(self.client, prefix, 10_000, (workload.words[0], "?", *workload.words[2:]))
        settle_tables(self.client)
        found = []
        for count in (1, 10, 50, 100, 250, 500, 1000):
            for workload in workloads:
                found.append({"x": count, "series": workload.name, **self.load(workload, 10_000, 1, count)})
                self.say("connections", found[-1])
        self.empty()
        return found

    def largest(self) -> list[dict[str, Any]]:
        """The dearest calls that are allowed: largest COST, longest log, most rules, most ids."""
        size = self.limits()[-1]
        calls = 40 if self.options.quick else 2000
        found = []
        for title, prepare, command in self.dearest(size, calls):
            # What takes ids away can be called until none is left.
            count = min(calls, size // TRIM) if "RELEASE" in title else calls
            runs = []
            try:
                for _ in range(self.options.repeats):
                    self.empty()
                    prepare()
                    runs.append(self.each(command, count))
            except ServerError as error:
                if "unknown command" not in str(error):
                    raise
                print(f"  largest: {title}: not in this module", file=sys.stderr)
                continue
            found.append({"x": 0, "series": title, **spread(runs)})
            self.say("largest", found[-1])
        self.empty()
        return found

    def each(self, command: Callable[[int], Sequence[Word]], calls: int) -> list[float]:
        """Single calls one after another, so that each is alone in the server: what each took, by its slow log."""
        requests = [encode(command(number)) for number in range(calls)]
        # What a call asks the server itself stands there too.
        self.client.call("CONFIG", "SET", "slowlog-max-len", calls * 8, "slowlog-log-slower-than", 0)
        self.client.call("SLOWLOG", "RESET")
        for request in requests:
            for reply in self.client.exchange(request, 1):
                if not anything(reply):
                    raise ServerError(f"{command(0)[0]}: {reply}")
        self.client.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        name = str(command(0)[0]).encode()
        taken = [float(entry[2]) for entry in self.client.call("SLOWLOG", "GET", -1) if entry[3][0] == name]
        self.client.call("SLOWLOG", "RESET")
        if len(taken) != calls:
            raise ServerError(f"{calls} calls, but {len(taken)} in the slow log")
        return taken[::-1]

    def dearest(self, size: int, calls: int) -> list[tuple[str, Callable[[], None], Callable[[int], Sequence[Word]]]]:
        """Title, what is prepared, the call."""
        per_log = size // TRIM

        def nothing() -> None:
            pass

        def full_logs() -> None:
            for number in range(max(1, calls // per_log)):
                self.fill_log(f"sl:{number}", size, size, "1h")

        def holders() -> None:
            ids = range(size)
            self.send([("RL.ACQUIRE", "ho", size, "1h", "ID", f"holder-{number:06d}") for number in ids], admitted, 500)

        def log(number: int) -> str:
            return f"sl:{number // per_log}"

        def ids(number: int) -> list[str]:
            return [f"holder-{each % size:06d}" for each in range(number * TRIM, number * TRIM + TRIM)]

        def rules(rule: Callable[[int], str], count: int = 64) -> Callable[[int], list[Word]]:
            return lambda number: ["RL.ALL", *(word for part in range(count) for word in (f"al:{part}", rule(part)))]

        per_rule = TRIM // 64
        return [
            (
                "RL.SLIDING COST 250 into logs up to the longest",
                nothing,
                lambda n: ("RL.SLIDING", log(n), size, "1h", "COST", TRIM),
            ),
            (
                "RL.SLIDING COST 250, longest log, refused",
                full_logs,
                lambda n: ("RL.SLIDING", "sl:0", size, "1h", "COST", TRIM),
            ),
            (
                "RL.CHARGE COST 250 into the longest log",
                full_logs,
                lambda n: ("RL.CHARGE", log(n), "SLIDING", size, "1h", "COST", TRIM),
            ),
            (
                "RL.REFUND COST 250 from the longest log",
                full_logs,
                lambda n: ("RL.REFUND", log(n), "SLIDING", size, "1h", "COST", TRIM),
            ),
            (
                "RL.PEEK of the longest log",
                full_logs,
                lambda n: ("RL.PEEK", "sl:0", "SLIDING", size, "1h", "COST", TRIM),
            ),
            (
                "RL.TOKEN, largest numbers",
                nothing,
                lambda n: ("RL.TOKEN", "tk", 10**15 - 1, 10**15 - 1, "3650d", "COST", 10**12 + n),
            ),
            (
                "RL.LEAKY, largest numbers",
                nothing,
                lambda n: ("RL.LEAKY", "lk", 10**15 - 1, 10**15 - 1, "3650d", "COST", 10**12 + n),
            ),
            (
                "RL.SLIDING BUCKETS 360",
                nothing,
                lambda n: ("RL.SLIDING", "bu", 10**15 - 1, "360ms", "BUCKETS", 360, "COST", 10**9),
            ),
            ("RL.ALL of 64 FIXED", nothing, rules(lambda part: "FIXED 999999999 1h")),
            ("RL.ALL of 64 TOKEN", nothing, rules(lambda part: "TOKEN 1000000000 100 1s")),
            (
                "RL.ALL of 64 SLIDING, 250 units in all",
                nothing,
                rules(lambda part: f"SLIDING {size} 1h COST {per_rule + (part < TRIM % 64)}"),
            ),
            ("RL.ALL of 10 BUCKETS 360", nothing, rules(lambda part: "SLIDING 999999999 360ms BUCKETS 360", 10)),
            ("RL.ALL of 60 BUCKETS 60", nothing, rules(lambda part: "SLIDING 999999999 60ms BUCKETS 60", 60)),
            ("RL.ACQUIRE, most holders, refused", holders, lambda n: ("RL.ACQUIRE", "ho", size, "1h")),
            ("RL.RENEW of 250 ids, most holders", holders, lambda n: ("RL.RENEW", "ho", "1h", *ids(n))),
            ("RL.RELEASE of 250 ids, most holders", holders, lambda n: ("RL.RELEASE", "ho", *ids(n))),
        ]

    def limits(self) -> list[int]:
        return [limit for limit in LIMITS if limit <= self.options.max_limit]

    @staticmethod
    def say(section: str, point: dict[str, Any]) -> None:
        print(
            f"  {section}: {point['series']} at {point['x']:,}: {point['mean_us']:.2f} us", file=sys.stderr, flush=True
        )


def spread(runs: list[list[float]]) -> dict[str, float]:
    """The times of calls that were made from the same state several times over.

    What a call took in the quickest of its runs is its own price; what it took in one of them alone is the machine's.
    """

    def permille(times: list[float]) -> float:
        return times[min(len(times) - 1, int(len(times) * 0.999))]

    taken = sorted(took for run in runs for took in run)
    # The runs may differ in length by a call or two, where time decides how much there is to do.
    own = sorted(min(same) for same in zip(*runs, strict=False))
    return {
        "calls": float(len(taken)),
        "mean_us": statistics.mean(taken),
        "p50_us": statistics.median(taken),
        "p99.9_us": permille(taken),
        "worst_us": taken[-1],
        "own_p99.9_us": permille(own),
        "own_worst_us": own[-1],
    }


TITLES = {
    "keys": ("Keys", "keys"),
    "sliding": ("The exact log", "limit"),
    "left": ("A log that has just left the window", "limit"),
    "buckets": ("Sub-windows", "BUCKETS"),
    "all": ("Rules of one RL.ALL", "rules"),
    "connections": ("Connections, unpipelined", "connections"),
    "largest": ("The largest calls that are allowed", ""),
}
COLUMNS = {
    "calls": "calls",
    "rps": "per second",
    "cpu_us": "CPU us",
    "mean_us": "mean us",
    "p50_us": "p50 us",
    "p99.9_us": "p99.9 us",
    "worst_us": "worst us",
    "own_p99.9_us": "p99.9 us, quickest",
    "own_worst_us": "worst us, quickest",
    "first_us": "first us, quickest",
    "client_p50_ms": "client p50 ms",
    "client_p99.9_ms": "client p99.9 ms",
    "fields": "fields",
    "entries": "entries",
}


def rows(points: list[dict[str, Any]], axis: str) -> tuple[list[str], list[list[object]]]:
    used = [name for name in COLUMNS if any(name in point for point in points)]
    found = []
    for point in points:
        values = [
            int(point[name]) if name in ("calls", "fields", "entries") and name in point else point.get(name)
            for name in used
        ]
        found.append(([point["x"]] if axis else []) + [point["series"], *values])
    return ([axis] if axis else []) + ["what", *(COLUMNS[name] for name in used)], found


def price(point: dict[str, Any]) -> float:
    """What a call costs the server: all its processor time where that was taken, else the time of the command alone."""
    return point.get("cpu_us") or point["mean_us"]


def law(points: list[dict[str, Any]]) -> list[str]:
    """How the mean grows from the smallest to the largest, and the exponent of the power law through all points."""
    found = []
    for series in dict.fromkeys(point["series"] for point in points):
        curve = [(point["x"], price(point)) for point in points if point["series"] == series and point["x"] > 0]
        if len(curve) > 1:
            exponent = slope(curve)
            found.append(
                f"{series}: {curve[0][1]:.2f} us at {curve[0][0]:,}, {curve[-1][1]:.2f} us at {curve[-1][0]:,} "
                f"({curve[-1][1] / curve[0][1]:.2f} times); it grows like the power {exponent:.2f}"
            )
    return found


def slope(curve: list[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms."""
    across = [math.log(x) for x, _ in curve]
    up = [math.log(max(y, 1e-9)) for _, y in curve]
    middle, level = statistics.mean(across), statistics.mean(up)
    spread = sum((x - middle) ** 2 for x in across)
    return sum((x - middle) * (y - level) for x, y in zip(across, up, strict=True)) / spread


def report(data: dict[str, Any], style) -> str:
    lines = machine.lines(data["machine"])
    parts = ["\n".join(f"- {line}" if style is tables.markdown else line for line in lines)]
    for section, points in data["sections"].items():
        title, axis = TITLES[section]
        parts += [f"{'### ' if style is tables.markdown else ''}{title}", style(*rows(points, axis))]
        if axis and (found := law(points)):
            parts.append("\n".join(f"- {line}" for line in found))
    over = [(TITLES[s][0], p) for s, points in data["sections"].items() for p in points if p.get("p99.9_us", 0) >= 1000]
    verdict = "; ".join(f"{title}, {p['series']} at {p['x']:,}: {p['p99.9_us']:.0f} us" for title, p in over)
    parts.append(f"p99.9 of server time at or above 1 ms: {verdict or 'nowhere'}.")
    worst_section, worst = max(
        ((s, p) for s, points in data["sections"].items() for p in points), key=lambda each: each[1]["worst_us"]
    )
    parts.append(
        f"The worst single call seen: {worst['worst_us']:,.0f} us "
        f"({TITLES[worst_section][0]}, {worst['series']}, {worst['x']:,})."
    )
    return "\n\n".join(parts) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=Path("redis-server"))
    parser.add_argument("--module", type=Path, default=ROOT / "target/release/libredis_limiters.so")
    parser.add_argument(
        "--sections", type=lambda text: text.split(","), default=list(SECTIONS), help=f"of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--max-keys", type=int, default=KEYS[-1])
    parser.add_argument("--max-limit", type=int, default=LIMITS[-1], help="the longest log")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5, help="of the largest calls, and of a log that has left")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small sizes and short rounds: shows that it works")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench")
    options = parser.parse_args()
    options.server = found_server(parser, options.server)
    options.module = options.module.resolve()
    if not options.module.is_file():
        parser.error(f"{options.module} is not there")
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    if options.quick:
        options.rounds, options.seconds, options.repeats = 1, 0.2, 2
        options.max_keys, options.max_limit = min(options.max_keys, 10_000), min(options.max_limit, 1000)
    return options


def main() -> None:
    options = arguments()
    growth = Growth(options)
    try:
        sections = {name: getattr(growth, name)() for name in options.sections}
        facts = growth.facts
    finally:
        growth.close()
    data = {"kind": "growth", "machine": facts, "sections": sections}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "growth.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "growth.md").write_text(report(data, tables.markdown))
    print(report(data, tables.text))


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
