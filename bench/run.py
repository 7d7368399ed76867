#!/usr/bin/env python3
"""Throughput and latency on a real server: the limiters beside the server's own commands, Lua and redis-cell.

The server has one core and the load (redis-benchmark) another. Every round runs every command once, so that a
slow minute of the machine falls on all of them. Medians over the rounds are reported, the rounds are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import reply
import tables
import workloads
from server import Server, ServerError, command_time, cpu_seconds, find_tool, info, pinned, settle_tables, wait_for
from workloads import NEW, Workload

ROOT = Path(__file__).resolve().parent.parent
NEW_KEYS = 1_000_000_000
SETUPS = ("plain", "aof", "replica", "aof+replica")

# What is asked of the ratios of throughput, pipeline 32: ours, the rival, at least.
GOALS = [
    ("plain", "RL.FIXED admitted", "Lua fixed admitted", 3.3),
    ("plain", "RL.SLIDING admitted", "Lua sliding admitted", 4.0),
    ("plain", "RL.TOKEN admitted", "Lua token admitted", 4.5),
    ("plain", "RL.LEAKY admitted", "Lua leaky admitted", 4.5),
    ("plain", "RL.TOKEN admitted", "CL.THROTTLE admitted", 1.5),
    ("aof+replica", "RL.TOKEN admitted", "Lua token admitted", 3.0),
]
LATENCY_GOALS = {"p50": 1.05, "p99": 1.15}


@dataclass(frozen=True)
class Load:
    """How redis-benchmark is called."""

    tool: Path
    server: Server
    core: int | None
    keys: int
    unix: bool

    def run(self, workload: Workload, pipeline: int, requests: int, connections: int = 50) -> dict[str, float]:
        fresh = workload.path == NEW
        target = ["-s", self.server.socket_path] if self.unix else ["-h", "127.0.0.1", "-p", str(self.server.port)]
        command = [str(self.tool), *target, "-c", str(connections), "-P", str(pipeline), "-n", str(requests)]
        command += ["-r", str(NEW_KEYS if fresh else self.keys), "--precision", "3"]
        command += ["--dbnum", "1"] if fresh else []
        done = subprocess.run(
            [*command, *workload.words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            preexec_fn=pinned(self.core),
        )
        if done.returncode != 0:
            raise ServerError(f"{self.tool.name} failed: {done.stderr.strip() or done.stdout[-500:]}")
        return parse(done.stdout)


def parse(output: str) -> dict[str, float]:
    """Requests per second and the percentiles out of redis-benchmark's report, times in milliseconds."""
    rate = re.search(r"throughput summary: ([\d.]+) requests per second", output)
    summary = re.search(
        r"avg\s+min\s+p50\s+p95\s+p99\s+max\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", output
    )
    if rate is None or summary is None:
        raise ServerError(f"redis-benchmark's report is not understood: {output[-500:]!r}")
    found = {"rps": float(rate.group(1))}
    found.update(zip(("avg", "min", "p50", "p95", "p99", "max"), map(float, summary.groups()), strict=True))
    spread = re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds \(cumulative", output.split("Cumulative distribution")[0])
    beyond = [float(ms) for percent, ms in spread if float(percent) >= 99.9]
    if beyond:
        found["p99.9"] = beyond[0]
    return found


class Bench:
    """One setup: its servers, its warm keys, its runs."""

    def __init__(self, options: argparse.Namespace, setup: str, list_of: list[Workload]) -> None:
        self.options = options
        self.setup = setup
        self.servers: list[Server] = []
        self.runs: list[dict[str, Any]] = []
        try:
            self._start(list_of)
        except BaseException:
            self.close()
            raise

    def _start(self, list_of: list[Workload]) -> None:
        options = self.options
        settings = ["--client-output-buffer-limit", "replica 0 0 0"]
        if "aof" in self.setup:
            settings += ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"]
        self.primary = Server(options.server, options.modules, settings, options.server_core)
        self.servers.append(self.primary)
        self.client = self.primary.client()
        if "replica" in self.setup:
            self._attach_replica(settings[:2])
        hashes = workloads.load_scripts(self.client)
        self.workloads = [workload.with_hashes(hashes) for workload in list_of]
        self.facts = machine.facts(self.client, options.modules)
        tool = find_tool(options.server, "benchmark")
        self.load = Load(tool, self.primary, options.load_core, options.keys, options.unix)
        self.fresh = self.primary.client()
        self.fresh.call("SELECT", 1)
        for workload in self.workloads:
            workloads.warm(self.client, workload, options.keys)
            self._verify(workload)
        settle_tables(self.client)

    def _attach_replica(self, settings: list[str]) -> None:
        # The replica loads the modules too: what a module replicates as its own command needs it there.
        place = ["--replicaof", f"127.0.0.1 {self.primary.port}", *settings]
        replica = Server(self.options.server, self.options.modules, place, self.options.replica_core)
        self.servers.append(replica)
        self.replica_client = replica.client()
        wait_for("the replica to be in step", self._in_step)

    def _in_step(self) -> bool:
        there = info(self.replica_client, "replication")
        here = info(self.client, "replication")
        if there.get("master_link_status") != "up":
            return False
        return int(there["slave_repl_offset"]) >= int(here["master_repl_offset"])

    def _verify(self, workload: Workload) -> None:
        where = self.fresh if workload.path == NEW else self.client
        workloads.verify(where, workload, self.options.keys)

    def close(self) -> None:
        for server in reversed(self.servers):
            server.stop()

    def calibrate(self, pipelines: list[int]) -> dict[tuple[str, int], int]:
        """How many requests fill the time of a run."""
        found = {}
        for workload in self.workloads:
            for pipeline in pipelines:
                rate = self._measure(workload, pipeline, 10_000 * min(pipeline, 4))["rps"]
                found[workload.title, pipeline] = max(10_000, int(rate * self.options.seconds))
        return found

    def _measure(self, workload: Workload, pipeline: int, requests: int) -> dict[str, float]:
        if workload.path == NEW:
            self.fresh.call("FLUSHDB")
        self.client.call("CONFIG", "RESETSTAT")
        before = cpu_seconds(self.client)
        found = self.load.run(workload, pipeline, requests)
        found["cpu_us"] = (cpu_seconds(self.client) - before) * 1e6 / requests
        server = command_time(self.client, workload.command)
        if server.get("failed_calls") or server.get("calls", 0) < requests:
            raise ServerError(f"{workload.title}: the server counted {server}, {requests} calls were meant")
        found["server_avg_us"] = server["usec_per_call"]
        for name in ("p50", "p99", "p99.9"):
            if name in server:
                found[f"server_{name}_us"] = server[name]
        self._verify(workload)
        if "replica" in self.setup:
            wait_for("the replica to catch up", self._in_step)
        return found

    def round(self, number: int, pipeline: int, requests: dict[tuple[str, int], int]) -> None:
        """Every workload once, every other round in the opposite order."""
        for workload in in_turn(self.workloads, number):
            found = self._measure(workload, pipeline, requests[workload.title, pipeline])
            self._keep("throughput", workload, number, pipeline, found)

    def latency_round(self, number: int, requests: dict[tuple[str, int], int]) -> None:
        """Every workload right after a GET of its own, so that both saw the same machine. GET itself is the noise."""
        get = self.workloads[0]
        for workload in in_turn(self.workloads, number):
            # The order within a pair turns too: whoever comes second may find a warmer machine.
            order = (get, workload) if number % 2 == 0 else (workload, get)
            pair = [self._measure(each, 1, requests[get.title, 1]) for each in order]
            base, found = pair if number % 2 == 0 else reversed(pair)
            for name in ("avg", "p50", "p99", "p99.9"):
                if base.get(name) and found.get(name):
                    found[f"{name}_to_get"] = found[name] / base[name]
            self._keep("latency", workload, number, 1, found)

    def _keep(self, kind: str, workload: Workload, number: int, pipeline: int, found: dict[str, float]) -> None:
        about = {"kind": kind, "setup": self.setup, "round": number, "pipeline": pipeline}
        self.runs.append({**about, "title": workload.title, "name": workload.name, "path": workload.path, **found})
        print(
            f"  {self.setup} round {number + 1} pipeline {pipeline}: {workload.title}: {found['rps']:,.0f}/s",
            file=sys.stderr,
            flush=True,
        )

    def shorten_aof(self) -> None:
        """Keeps the append-only file small between rounds."""
        if "aof" not in self.setup:
            return
        self.client.call("BGREWRITEAOF")
        wait_for(
            "the AOF rewrite",
            lambda: (
                info(self.client, "persistence")["aof_rewrite_in_progress"] == "0"
                and info(self.client, "persistence")["aof_rewrite_scheduled"] == "0"
            ),
        )


def in_turn(workloads_: list[Workload], number: int) -> list[Workload]:
    """The list, begun further along in each round and walked backwards in every other."""
    start = number * 5 % len(workloads_)
    turned = workloads_[start:] + workloads_[:start]
    return turned if number % 2 == 0 else turned[::-1]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All setups, all rounds."""
    everything = workloads.chosen(options.module is not None, options.cell is not None, options.reply_command)
    if options.only:
        wanted = re.compile(options.only)
        everything = [w for w in everything if w.title == "GET" or wanted.search(w.title)]
    runs: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    stalled = machine.stalls(options.server_core)
    for setup in options.setups:
        plain = setup == "plain"
        chosen = everything if plain else [w for w in everything if w.path != NEW]
        pipelines = options.pipelines if plain else [max(options.pipelines)]
        print(f"setup {setup}: warming {options.keys:,} keys for each of {len(chosen)} commands", file=sys.stderr)
        bench = Bench(options, setup, chosen)
        try:
            facts = facts or {**bench.facts, "stalls": stalled}
            requests = bench.calibrate(sorted({*pipelines, 1} if plain and options.latency_rounds else pipelines))
            for number in range(options.rounds):
                for pipeline in pipelines:
                    bench.round(number, pipeline, requests)
                bench.shorten_aof()
            for number in range(options.latency_rounds if plain else 0):
                bench.latency_round(number, requests)
            runs += bench.runs
        finally:
            bench.close()
    facts["load_average_after"] = [round(value, 2) for value in os.getloadavg()]
    about = {
        "rounds": options.rounds,
        "latency_rounds": options.latency_rounds,
        "seconds_per_run": options.seconds,
        "keys": options.keys,
        "connections": 50,
        "transport": "unix socket" if options.unix else "TCP, loopback",
        "server_core": options.server_core,
        "load_core": options.load_core,
    }
    return {"kind": "throughput", "machine": facts, "how": about, "runs": runs}


def medians(runs: list[dict[str, Any]], kind: str) -> dict[tuple[str, str, int], dict[str, float]]:
    """Median of every figure by setup, title and pipeline."""
    grouped: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for run in runs:
        if run["kind"] == kind:
            grouped.setdefault((run["setup"], run["title"], run["pipeline"]), []).append(run)
    found = {}
    for where, group in grouped.items():
        names = {n for run in group for n, value in run.items() if isinstance(value, float)}
        found[where] = {n: statistics.median(run[n] for run in group if n in run) for n in names}
    return found


def spread_of_ratio(runs: list[dict[str, Any]], setup: str, ours: str, rival: str, pipeline: int) -> list[float]:
    """The ratio of two titles in every round."""

    def rates(title: str) -> dict[int, float]:
        return {
            run["round"]: run["rps"]
            for run in runs
            if run["kind"] == "throughput"
            and run["setup"] == setup
            and run["title"] == title
            and run["pipeline"] == pipeline
        }

    mine, theirs = rates(ours), rates(rival)
    return sorted(mine[number] / theirs[number] for number in mine.keys() & theirs.keys())


def throughput_rows(data: dict[str, Any], setup: str) -> tuple[list[str], list[list[object]]]:
    """Thousand requests per second at each pipeline, the server's own time, and the ratios at the deepest pipeline."""
    known = medians(data["runs"], "throughput")
    pipelines = sorted({pipeline for where, _, pipeline in known if where == setup})
    deepest = pipelines[-1]
    titles = [title for where, title, pipeline in known if where == setup and pipeline == deepest]
    titles.sort(key=place)
    get = known.get((setup, "GET", deepest))
    rows: list[list[object]] = []
    for title in titles:
        best = known[setup, title, deepest]
        rates = [known[setup, title, pipeline]["rps"] / 1000 for pipeline in pipelines]
        ratio = best["rps"] / get["rps"] if get else None
        rows.append([title, *rates, ratio, best["cpu_us"], best["server_avg_us"], best.get("server_p99.9_us")])
    headers = [
        "command",
        *(f"k/s, pipeline {pipeline}" for pipeline in pipelines),
        f"to GET, pipeline {deepest}",
        "CPU us per call",
        "command us",
        "command p99.9 us",
    ]
    return headers, rows


def place(title: str) -> int:
    """Where a title stands among the workloads as they are listed."""
    names = [workload.title for workload in workloads.chosen(True, True, ("-",))]
    return names.index(title) if title in names else len(names)


def latency_rows(data: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """Unpipelined latency in milliseconds, and the median of the ratios to the GET beside it."""
    known = medians(data["runs"], "latency")
    rows = []
    for (_, title, _), found in sorted(known.items(), key=lambda item: place(item[0][1])):
        shown = "GET (against GET: the noise)" if title == "GET" else title
        rows.append(
            [
                shown,
                found["p50"],
                found["p99"],
                found.get("p99.9"),
                found["avg_to_get"],
                found["p50_to_get"],
                found["p99_to_get"],
                found.get("p99.9_to_get"),
            ]
        )
    headers = ["command", "p50 ms", "p99 ms", "p99.9 ms", "avg to GET", "p50 to GET", "p99 to GET", "p99.9 to GET"]
    return headers, rows


def goal_rows(data: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """Each ratio that is asked for, what it came to, and how far the rounds lie apart."""
    known = medians(data["runs"], "throughput")
    rows: list[list[object]] = []
    for setup, ours, rival, goal in GOALS:
        depths = [pipeline for where, title, pipeline in known if where == setup and title == ours]
        if not depths or (setup, rival, max(depths)) not in known:
            continue
        deepest = max(depths)
        mine, theirs = known[setup, ours, deepest], known[setup, rival, deepest]
        ratio = mine["rps"] / theirs["rps"]
        spread = spread_of_ratio(data["runs"], setup, ours, rival, deepest)
        verdict = "met" if ratio >= goal else "missed"
        rows.append(
            [
                f"{ours} / {rival}, {setup}, pipeline {deepest}",
                f"at least {goal}",
                ratio,
                f"{spread[0]:.2f} to {spread[-1]:.2f}",
                theirs["cpu_us"] / mine["cpu_us"],
                verdict,
            ]
        )
    calm = medians(data["runs"], "latency")
    for (_, title, _), found in sorted(calm.items(), key=lambda item: place(item[0][1])):
        if title.startswith("RL.") and not title.endswith(NEW):
            for name, goal in LATENCY_GOALS.items():
                each = sorted(
                    run[f"{name}_to_get"] for run in data["runs"] if run["kind"] == "latency" and run["title"] == title
                )
                verdict = "met" if found[f"{name}_to_get"] <= goal else "missed"
                rows.append(
                    [
                        f"{title}: {name} / GET's, unpipelined",
                        f"at most {goal}",
                        found[f"{name}_to_get"],
                        f"{each[0]:.2f} to {each[-1]:.2f}",
                        None,
                        verdict,
                    ]
                )
    return ["ratio", "asked", "median", "rounds", "by CPU time", "verdict"], rows


def report(data: dict[str, Any], style) -> str:
    """All tables in one style."""
    how = data["how"]
    parts = [
        "\n".join(machine.lines(data["machine"])),
        f"{how['rounds']} rounds of {how['seconds_per_run']} s per command, {how['connections']} connections over "
        f"{how['transport']}, {how['keys']:,} keys. Server on core {how['server_core']}, load on core "
        f"{how['load_core']}. Medians.",
    ]
    for setup in dict.fromkeys(run["setup"] for run in data["runs"]):
        parts += [f"Throughput, {setup}:", style(*throughput_rows(data, setup))]
    if any(run["kind"] == "latency" for run in data["runs"]):
        parts += [
            f"Latency, unpipelined, {how['latency_rounds']} rounds, redis-benchmark's clock (steps of up to 8 us):",
            style(*latency_rows(data)),
        ]
    headers, rows = goal_rows(data)
    if rows:
        parts += ["Ratios that are asked for:", style(headers, rows)]
    if style is tables.markdown:
        parts[0] = "\n".join(f"- {line}" for line in machine.lines(data["machine"]))
    return "\n\n".join(parts) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--server",
        type=Path,
        default=Path("redis-server"),
        help="the server's binary; its folder's redis-benchmark is used",
    )
    parser.add_argument(
        "--module", type=Path, default=ROOT / "target/release/libredis_limiters.so", help="this project's module"
    )
    parser.add_argument("--no-module", action="store_true", help="measure the rest alone")
    parser.add_argument("--cell", type=Path, help="redis-cell's module, to measure CL.THROTTLE too")
    parser.add_argument("--reply-module", type=Path, help="another module with a command that only replies")
    parser.add_argument("--reply-command", help="that command with its words, __rand_int__ in its key")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--latency-rounds", type=int, help="rounds of unpipelined pairs with GET (as many as --rounds)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each command runs in each round")
    parser.add_argument("--pipelines", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--only", help="a regular expression of titles; GET is always among them")
    parser.add_argument(
        "--setups", type=lambda text: text.split(","), default=["plain"], help=f"of {', '.join(SETUPS)}"
    )
    parser.add_argument("--aof", action="store_true", help="also with an append-only file, everysec")
    parser.add_argument("--replica", action="store_true", help="also with a replica; with --aof, with both at once")
    parser.add_argument("--unix", action="store_true", help="over a unix socket instead of TCP")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--replica-core", type=int, help="the replica's core (the load's, when not given)")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench", help="the folder for the results")
    parser.add_argument("--quick", action="store_true", help="two short rounds: shows that it works, not how fast")
    return completed(parser, parser.parse_args())


def completed(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Checks what was asked and fills in what follows from it."""
    options.server = found_server(parser, options.server)
    if options.no_module:
        options.module = None
    with_reply(options)
    options.modules = modules_of(options)
    for path in options.modules:
        if not path.is_file():
            parser.error(f"{path} is not there")
    options.setups += [name for name in extra_setups(options) if name not in options.setups]
    if unknown := set(options.setups) - set(SETUPS):
        parser.error(f"no such setup: {', '.join(sorted(unknown))}")
    if options.quick:
        # Not fewer keys: a log of 20 in 100 ms has to keep room for its share of the calls.
        options.rounds, options.seconds = 2, 0.2
    if options.latency_rounds is None:
        options.latency_rounds = options.rounds
    options.replica_core = options.load_core if options.replica_core is None else options.replica_core
    available = os.sched_getaffinity(0)
    if not {options.server_core, options.load_core} <= available:
        parser.error(f"the cores at hand are {sorted(available)}: name two with --server-core and --load-core")
    if options.server_core == options.load_core:
        print("note: server and load share a core, the figures mix both", file=sys.stderr)
    return options


def with_reply(options: argparse.Namespace) -> None:
    """The command that only replies: the one that was named, else ours, compiled now."""
    if options.reply_command:
        options.reply_command = tuple(options.reply_command.split())
    elif module := reply.build(options.out):
        options.reply_module, options.reply_command = module, reply.WORDS


def modules_of(options: argparse.Namespace) -> list[Path]:
    """The modules to load, each once: the command that only replies may be the module's own."""
    named = (options.module, options.cell, options.reply_module)
    return list(dict.fromkeys(path.resolve() for path in named if path))


def extra_setups(options: argparse.Namespace) -> list[str]:
    if options.aof and options.replica:
        return ["aof+replica"]
    return ["aof"] * options.aof + ["replica"] * options.replica


def found_server(parser: argparse.ArgumentParser, given: Path) -> Path:
    """The binary as a path: a bare name is looked for in the PATH."""
    if given.is_file():
        return given.absolute()
    if (where := shutil.which(str(given))) is None:
        parser.error(f"no server: {given} is neither a file nor in the PATH (--server)")
    return Path(where)


def main() -> None:
    options = arguments()
    data = measure(options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "throughput.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "throughput.md").write_text(report(data, tables.markdown))
    print(report(data, tables.text))


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
