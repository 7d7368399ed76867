#!/usr/bin/env python3
"""Instructions per command: the whole server under callgrind, a figure that a busy machine does not move.

The server runs under valgrind with counting off. For each command the keys are warmed, one batch is sent to settle
what happens once, then counting is switched on for a number of pipelined commands, and its sum is divided by them.
Counted is what the server's process executes itself; the kernel's work is not in it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import machine
import tables
import workloads
from run import ROOT, found_server, modules_of, with_reply
from server import Server, ServerError, encode, settle_tables
from workloads import ADMITTED, NEW, RANDOM, Workload

# What is asked: the dividend, the divisor, the bound, and whether it is the most or the least.
GOALS = [
    ("RL.FIXED admitted", "INCR", 2.1, "most"),
    ("RL.TOKEN admitted", "INCR", 3.6, "most"),
    ("RL.LEAKY admitted", "INCR", 3.6, "most"),
    # A GET that finds nothing is the cheapest of all: against it the bounds are at their tightest.
    ("RL.FIXED refused", "GET missing", 2.1, "most"),
    ("RL.TOKEN refused", "GET missing", 3.2, "most"),
    ("RL.SLIDING refused", "GET missing", 3.5, "most"),
    ("RL.FIXED refused", "GET", 2.1, "most"),
    ("RL.TOKEN refused", "GET", 3.2, "most"),
    ("RL.SLIDING refused", "GET", 3.5, "most"),
    ("Lua token admitted", "RL.TOKEN admitted", 4.8, "least"),
    ("Lua sliding, logs to 100 admitted", "RL.SLIDING, logs to 100 admitted", 3.5, "least"),
    ("Lua fixed admitted", "RL.FIXED admitted", 3.7, "least"),
    # The one that does what RL.FIXED does: its refusals leave no trace.
    ("Lua fixed, checked first admitted", "RL.FIXED admitted", 3.7, "least"),
    ("CL.THROTTLE admitted", "RL.TOKEN admitted", 1.6, "least"),
]


def growing_logs(limit: int, with_module: bool) -> list[Workload]:
    """Logs that grow from empty to the limit while every call is admitted. Both rivals see the same lengths."""
    numbers = (str(limit), "3600000", RANDOM)
    script = ("EVALSHA", "sliding", "1", f"l{limit}:a:{RANDOM}", *numbers)
    own = ("RL.SLIDING", f"s{limit}:a:{RANDOM}", str(limit), "1h")
    found = [Workload(f"Lua sliding, logs to {limit}", ADMITTED, script, workloads.admitted, None, limit, "sliding")]
    if with_module:
        found.insert(0, Workload(f"RL.SLIDING, logs to {limit}", ADMITTED, own, workloads.admitted, None, limit))
    return found


def chosen(options: argparse.Namespace) -> list[Workload]:
    """The workloads, new keys apart, and the growing logs beside the steady ones."""
    listed = workloads.chosen(options.module is not None, options.cell is not None, options.reply_command)
    found = [w for w in listed if w.path != NEW or options.new_keys]
    for limit in (20, 100):
        found += growing_logs(limit, options.module is not None)
    if options.only:
        wanted = re.compile(options.only)
        found = [w for w in found if w.title in ("GET", "INCR") or wanted.search(w.title)]
    return found


class Counter:
    """The server under callgrind, and the switch of the counting."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        for tool in ("valgrind", "callgrind_control"):
            if shutil.which(tool) is None:
                raise ServerError(f"{tool} is not in the PATH (Debian: apt-get install valgrind)")
        self.folder = options.out / "callgrind"
        self.folder.mkdir(parents=True, exist_ok=True)
        wrapper = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.folder}/dump"]
        # The server's own chores would be counted too: as few of them as can be.
        settings = ["--hz", "1", "--dynamic-hz", "no"]
        for name, value in options.setting:
            settings += [f"--{name}", value]
        self.server = Server(options.server, options.modules, settings, None, wrapper, 120.0)
        try:
            self.client = self.server.client()
            self.client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
            if options.top_size is not None:
                self.client.call("CONFIG", "SET", "rl.top-size", options.top_size)
            self.hashes = workloads.load_scripts(self.client)
            self.facts = machine.facts(self.client, options.modules)
        except BaseException:
            self.server.stop()
            raise

    def _control(self, *words: str) -> None:
        done = subprocess.run(
            ["callgrind_control", *words, str(self.server.process.pid)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or "Error" in done.stderr:
            raise ServerError(f"callgrind_control {' '.join(words)} failed: {done.stdout} {done.stderr}")

    def count(self, workload: Workload) -> dict[str, Any]:
        """Instructions per command of one workload: of several counts the one in the middle, as now and then one of the
        server's own chores falls into one."""
        counts = [self._count_once(workload) for _ in range(self.options.rounds)]
        middle = statistics.median_low(count["instructions"] for count in counts)
        return next(count for count in counts if count["instructions"] == middle) | {
            "least": min(count["instructions"] for count in counts),
            "most": max(count["instructions"] for count in counts),
        }

    def _count_once(self, workload: Workload) -> dict[str, Any]:
        options = self.options
        self.client.call("FLUSHALL", "SYNC")
        known = workload.with_hashes(self.hashes)
        growing = known.path == ADMITTED and known.warm is None
        keys = max(1, options.commands // known.warm_times) if growing else options.keys
        workloads.warm(self.client, known, keys)
        settle_tables(self.client)
        batches = self._requests(known, keys)
        unique = 10**10
        if not growing and known.path != NEW:
            settle = [workloads.fill(known.words, key, unique + key) for key in range(keys)]
            self._judge(known, self.client.pipeline(settle))
        self._control("-z")
        self._control("-i", "on")
        replies = [self.client.exchange(request, size) for request, size in batches]
        self._control("-i", "off")
        for each in replies:
            self._judge(known, each)
        total = self._dump(workload)
        sent = sum(size for _, size in batches)
        return {"title": workload.title, "instructions": total / sent, "commands": sent}

    def _requests(self, workload: Workload, keys: int) -> list[tuple[bytes, int]]:
        """The commands in batches, made beforehand."""
        options = self.options
        batches = []
        for first in range(0, options.commands, options.pipeline):
            numbers = range(first, min(first + options.pipeline, options.commands))
            spread = options.commands if workload.path == NEW else keys
            commands = [encode(workloads.fill(workload.words, number % spread, number)) for number in numbers]
            batches.append((b"".join(commands), len(numbers)))
        return batches

    def _judge(self, workload: Workload, replies: list) -> None:
        for reply in replies:
            if not workload.expected(reply):
                raise ServerError(f"{workload.title}: answered {reply!r}")

    def _dump(self, workload: Workload) -> int:
        """Writes the counts out, keeps the profile under the workload's name, gives the sum."""
        before = set(self.folder.glob("dump*"))
        self._control("-d")
        written = [path for path in self.folder.glob("dump*") if path not in before]
        totals = 0
        kept = self.folder / f"{re.sub('[^A-Za-z0-9]+', '-', workload.title).strip('-')}.out"
        for path in written:
            match = re.search(r"^totals: (\d+)", path.read_text(errors="replace"), re.MULTILINE)
            if match and int(match.group(1)) > totals:
                totals = int(match.group(1))
                shutil.copyfile(path, kept)
            path.unlink()
        if totals == 0:
            raise ServerError(f"{workload.title}: callgrind counted nothing")
        return totals

    def close(self) -> None:
        self.server.stop()


def profile(folder: Path, title: str, functions: int) -> str:
    """The functions that most instructions of a workload stand in."""
    kept = folder / f"{re.sub('[^A-Za-z0-9]+', '-', title).strip('-')}.out"
    done = subprocess.run(
        ["callgrind_annotate", "--auto=no", "--threshold=100", str(kept)], capture_output=True, text=True, check=False
    )
    found = []
    for line in done.stdout.splitlines():
        match = re.match(r"\s*[\d,]+ \(\s*([\d.]+)%\)\s+(?:\S*/)?(.*?)(?: \[.*\])?$", line)
        if match and "PROGRAM TOTALS" not in line:
            found.append(f"  {match.group(1):>5} %  {match.group(2)}")
    return "\n".join([f"{title}:", *found[:functions]])


def rows(counts: list[dict[str, Any]], baseline: dict[str, float]) -> tuple[list[str], list[list[object]]]:
    known = {count["title"]: count["instructions"] for count in counts}
    headers = ["command", "instructions", "to GET", "to INCR"]
    headers += ["before", "change %"] if baseline else []
    found = []
    for title, value in known.items():
        row = [title, round(value), value / known["GET"], value / known["INCR"]]
        if baseline:
            before = baseline.get(title)
            row += [round(before) if before else None, (value / before - 1) * 100 if before else None]
        found.append(row)
    return headers, found


def goal_rows(counts: list[dict[str, Any]]) -> tuple[list[str], list[list[object]]]:
    known = {count["title"]: count["instructions"] for count in counts}
    found: list[list[object]] = []
    for dividend, divisor, bound, kind in GOALS:
        if dividend in known and divisor in known:
            ratio = known[dividend] / known[divisor]
            met = ratio <= bound if kind == "most" else ratio >= bound
            found.append([f"{dividend} / {divisor}", f"at {kind} {bound}", ratio, "met" if met else "missed"])
    return ["ratio", "asked", "counted", "verdict"], found


def report(data: dict[str, Any], baseline: dict[str, float], style) -> str:
    known = machine.lines(data["machine"])
    head = "\n".join(f"- {line}" for line in known) if style is tables.markdown else "\n".join(known)
    how = data["how"]
    parts = [
        head,
        f"Instructions of the server per command: {how['commands']:,} commands in pipelines of {how['pipeline']} "
        f"(the middle one of {how.get('rounds', 1)} counts) "
        f"on {how['keys']:,} warm keys, one connection, no AOF, no replica"
        + "".join(f", {name} {value}" for name, value in how.get("settings", []))
        + ".",
        style(*rows(data["counts"], baseline)),
    ]
    headers, found = goal_rows(data["counts"])
    if found:
        parts += ["Ratios that are asked for:", style(headers, found)]
    return "\n\n".join(parts) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=Path("redis-server"))
    parser.add_argument("--module", type=Path, default=ROOT / "target/release/libredis_limiters.so")
    parser.add_argument("--no-module", action="store_true", help="count the rest alone")
    parser.add_argument("--cell", type=Path, help="redis-cell's module")
    parser.add_argument("--reply-module", type=Path, help="another module with a command that only replies")
    parser.add_argument("--reply-command", help="that command with its words, __rand_int__ in its key")
    parser.add_argument("--commands", type=int, default=10_000, help="counted commands of each kind")
    parser.add_argument("--rounds", type=int, default=3, help="counts of each kind, of which the middle one is taken")
    parser.add_argument("--pipeline", type=int, default=32)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--new-keys", action="store_true", help="the paths that create keys too")
    parser.add_argument("--top-size", type=int, metavar="N", help="set rl.top-size, so that refusals are counted by key")
    parser.add_argument("--only", help="a regular expression of titles; GET and INCR are always among them")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show the N dearest functions of each")
    parser.add_argument(
        "--setting", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="a setting of the server"
    )
    parser.add_argument("--baseline", type=Path, help="an earlier callgrind.json, to show the change")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench")
    options = parser.parse_args()
    options.server = found_server(parser, options.server)
    options.out = options.out.absolute()
    options.module = None if options.no_module else options.module
    with_reply(options)
    options.modules = modules_of(options)
    for path in options.modules:
        if not path.is_file():
            parser.error(f"{path} is not there")
    return options


def main() -> None:
    options = arguments()
    baseline = {}
    if options.baseline:
        baseline = {c["title"]: c["instructions"] for c in json.loads(options.baseline.read_text())["counts"]}
    counter = Counter(options)
    counts = []
    try:
        for workload in chosen(options):
            counts.append(counter.count(workload))
            print(f"  {workload.title}: {counts[-1]['instructions']:,.0f}", file=sys.stderr, flush=True)
        facts = counter.facts
    finally:
        counter.close()
    how = {
        "commands": options.commands,
        "pipeline": options.pipeline,
        "keys": options.keys,
        "rounds": options.rounds,
        "settings": options.setting,
    }
    data = {"kind": "callgrind", "machine": facts, "how": how, "counts": counts}
    (options.out / "callgrind.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "callgrind.md").write_text(report(data, baseline, tables.markdown))
    print(report(data, baseline, tables.text))
    for count in counts if options.functions else []:
        print(profile(options.out / "callgrind", count["title"], options.functions) + "\n")


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
