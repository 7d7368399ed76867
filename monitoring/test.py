#!/usr/bin/env python3
"""Proves the dashboard and the alerts on live servers, in about two minutes.

Starts a primary, a replica and a third server with the module, redis_exporter and Prometheus, all on loopback. Sends
traffic, then causes the condition of every alert and waits for that alert and for the panels that have to move with it.
At the end every query of the dashboard must have returned a series. Time runs faster: the durations in `alerts.yml` are
divided by twenty; `promtool` tests the file at its own. Needs Python 3.11 and nothing else: what is not on the PATH is
taken from Debian's packages, unpacked in the cache and not installed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "bench"))

from server import Client, Server, ServerError, free_port, wait_for  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "redis-limiters"
SERVER = Path(os.environ.get("RL_SERVER", CACHE / "servers/redis-7.0/redis-server"))
MODULE = Path(os.environ.get("RL_MODULE", ROOT / "target/release/libredis_limiters.so"))
PANICKING = Path(os.environ.get("RL_MODULE_PANIC", ROOT / "target/inject-panic/release/libredis_limiters.so"))
FASTER = 20
PATIENCE = 120.0


def tool(*names: str) -> str:
    """A program of the PATH, else of Debian's packages, which are unpacked in the cache."""
    for name in names:
        if found := shutil.which(name):
            return found
    asked = subprocess.run([ROOT / "scripts/need.sh", "prometheus"], stdout=subprocess.PIPE, text=True, check=True)
    found = shutil.which(names[-1], path=Path(asked.stdout.strip()) / "usr/bin")
    if found is None:
        sys.exit(f"monitoring/test.py: there is no {names[-1]} in {asked.stdout.strip()}")
    return found


def faster(text: str) -> str:
    """The rules in a time that runs faster."""
    seconds = {"m": 60, "h": 3600}
    return re.sub(r"(\[|for: |offset )(\d+)([mh])", lambda m: f"{m[1]}{int(m[2]) * seconds[m[3]] // FASTER}s", text)


class Watch:
    """redis_exporter and Prometheus, watching servers."""

    def __init__(self, servers: list[Server]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rl-monitoring-"))
        self.processes: list[subprocess.Popen] = []
        exporter, port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = (HERE / "prometheus.yml").read_text()
        config = config.replace("15s", "2s").replace("127.0.0.1:9121", f"127.0.0.1:{exporter}")
        targets = [f"redis://127.0.0.1:{server.port}" for server in servers]
        config = config.replace("redis://127.0.0.1:6379", "\n          - ".join(targets))
        (self.folder / "prometheus.yml").write_text(config)
        (self.folder / "alerts.yml").write_text(faster((HERE / "alerts.yml").read_text()))
        self.start(tool("redis_exporter", "prometheus-redis-exporter"), "--redis.addr=", "--include-config-metrics",
                   f"--script={HERE / 'rl_info.lua'}", f"--web.listen-address=127.0.0.1:{exporter}")
        self.start(tool("prometheus"), f"--config.file={self.folder / 'prometheus.yml'}",
                   f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}")

    def start(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, path: str, **words: str) -> dict:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def answers(self) -> bool:
        try:
            return bool(self.ask("query", query="redis_up")["result"])
        except OSError:
            return False

    def values(self, expr: str) -> list[float]:
        expr = expr.replace("$instance", ".*").replace("$__rate_interval", "15s")
        found = (float(series["value"][1]) for series in self.ask("query", query=expr)["result"])
        return [value for value in found if not math.isnan(value)]

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}


class Traffic(threading.Thread):
    """Callers of every command, none of them refused. What the server answers meanwhile is not their concern."""

    CALLS = """RL.FIXED f{} 999999999 1h|RL.SLIDING s{} 1000000 1h BUCKETS 60|RL.TOKEN t{} 1000000 1000 1s
RL.LEAKY l{} 1000000 1000 1s|RL.QUEUE q{} 1000000 1000000 1s 0s|RL.ACQUIRE h{} 1000 1h ID same|RL.PEEK f{} FIXED 5 1h"""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.over = threading.Event()

    def run(self) -> None:
        client = self.server.client()
        calls = self.CALLS.replace("\n", "|").split("|")
        for number in range(10**9):
            words = [call.format(number % 50).split() for call in calls]
            rules = ("FIXED 999999999 1h", "TOKEN 1000000 1000 1s")
            words.append(["RL.ALL", f"a{number % 50}", rules[0], f"b{number % 50}", rules[1]])
            client.pipeline(words)
            if self.over.wait(0.02):
                return

    def end(self) -> None:
        self.over.set()
        self.join()


class Proof:
    """The steps: a cause, and what has to be seen of it."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        panels = json.loads((HERE / "dashboard.json").read_text())["panels"]
        self.panels = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in panels}
        self.unseen = {expr for exprs in self.panels.values() for expr in exprs}
        self.alerts = set(re.findall(r"alert: (\w+)", (HERE / "alerts.yml").read_text()))

    def look(self) -> None:
        """Takes note of the queries that return something."""
        self.unseen = {expr for expr in self.unseen if not self.watch.values(expr)}

    def shown(self, title: str) -> float:
        return sum(sum(self.watch.values(expr)) for expr in self.panels[title])

    def step(self, what: str, alerts: str, rising: list[str], cause: Callable[[], object]) -> None:
        """Does something until its alerts fire and its panels have risen. What is in `alerts` must not fire before."""
        started, awaited = time.monotonic(), set(alerts.split())
        if early := awaited & self.watch.firing():
            raise ServerError(f"{what}: {early} fired before there was a cause")
        before = {title: self.shown(title) for title in rising}

        def seen() -> bool:
            cause()
            return awaited <= self.watch.firing() and all(self.shown(title) > before[title] for title in rising)

        try:
            wait_for(what, seen, PATIENCE, 0.25)
        except ServerError as error:
            now = {title: (value, self.shown(title)) for title, value in before.items()}
            raise ServerError(f"{error}: {awaited - self.watch.firing()} do not fire, panels {now}") from None
        self.look()
        self.alerts -= awaited
        moved = f", {', '.join(rising)} rose" if rising else ""
        print(f"ok: {what}: {alerts or 'no alert'}{moved} ({time.monotonic() - started:.0f} s)", flush=True)


def quiet(client: Client, *words: str) -> None:
    """A call whose error is the point."""
    client.pipeline([words])


def counters(client: Client) -> dict[str, int]:
    found = re.findall(rb"(rl_\w+):(\d+)\r\n", client.call("INFO", "rl"))
    return {name.decode(): int(value) for name, value in found}


def same_numbers(watch: Watch, server: Server, client: Client) -> None:
    """Every number of INFO rl arrives as it is, once the traffic has paused."""
    instance = f"redis://127.0.0.1:{server.port}"

    def agree() -> bool:
        series = watch.ask("query", query=f'redis_script_values{{instance="{instance}"}}')["result"]
        return {one["metric"]["key"]: int(float(one["value"][1])) for one in series} == counters(client)

    wait_for("the numbers of INFO rl in Prometheus", agree, PATIENCE)
    print(f"ok: {len(counters(client))} numbers of INFO rl arrive as they are", flush=True)


def causes(proof: Proof, primary: Server, replica: Server, third: Server) -> None:
    client, copy, other = primary.client(), replica.client(), third.client()

    def config(name: str, value: object) -> None:
        client.call("CONFIG", "SET", name, str(value))

    busy = ["Allowed per second", "Calls per second", "Mean time in the server", "Keys"]
    proof.step("callers come", "", busy, lambda: None)
    # A past to compare an attack with: the hour of the rule is three minutes here.
    time.sleep(20)
    if early := proof.watch.firing():
        raise ServerError(f"{early} fired while all was well")
    if proof.shown("Refused per second") or proof.shown("Errors per second"):
        raise ServerError("there are refusals or errors while all is well")
    proof.step("many are refused", "LimiterRefusalsJumped", ["Refused per second", "Share refused"],
               lambda: client.pipeline([("RL.FIXED", "full", "1", "1h")] * 200))
    proof.step("calls ask for more than there can be", "LimiterNever", [],
               lambda: client.call("RL.FIXED", "k", "1", "1h", "COST", "2"))
    proof.step("calls are wrong", "LimiterErrors", ["Errors per second", "Errors per second by the server's word"],
               lambda: quiet(client, "RL.FIXED", "k", "1", "hour"))

    config("maxmemory", 1_000_000)
    proof.step("the memory is full", "LimiterMemoryNearlyFull LimiterCallsRejected", [], lambda: None)
    config("maxmemory", 0)

    client.call("DEBUG", "POPULATE", "20000")
    proof.step("there are more keys", "", ["Keys", "Memory"], lambda: None)
    used = int(re.search(rb"used_memory:(\d+)", client.call("INFO", "memory")).group(1))
    config("maxmemory-policy", "allkeys-random")
    config("maxmemory", used - 1_000_000)
    proof.step("keys are evicted", "LimitersEvicted", ["Keys that ended, per second"],
               lambda: client.call("DEBUG", "POPULATE", "20000"))
    config("maxmemory", 0)
    config("maxmemory-policy", "noeviction")

    waiting = [primary.client() for _ in range(6)]
    for each in waiting:
        each._socket.sendall(b"RL.QUEUE line 100 1 1m 1h\r\n")
    proof.step("callers wait in line", "LimiterWaitersNearBound", ["Callers that RL.QUEUE holds back"], lambda: None)
    for each in waiting:
        each.close()

    copy.call("REPLICAOF", "127.0.0.1", str(free_port()))
    proof.step("a replica loses its primary", "LimiterReplicaLinkDown", [], lambda: None)
    copy.call("REPLICAOF", "127.0.0.1", str(primary.port))

    if PANICKING.is_file():
        proof.step("the module has a fault", "LimiterPanicked", [], lambda: quiet(other, "RL.FIXED", "k", "5", "1h"))
    else:
        proof.alerts -= {"LimiterPanicked"}
        print(f"SKIPPED: LimiterPanicked live, for {PANICKING} is not built; promtool shows it", flush=True)
    other.call("MODULE", "UNLOAD", "rl")
    proof.step("a server has no module", "LimiterModuleMissing", [], lambda: None)
    third.stop()
    proof.step("a server is gone", "LimiterDown", [], lambda: None)
    wait_for("the other alerts to end", lambda: proof.watch.firing() <= {"LimiterDown"}, PATIENCE, 0.25)
    print("ok: what is mended is not firing any more", flush=True)


def main() -> None:
    started = time.monotonic()
    promtool = tool("promtool")
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        subprocess.run([promtool, *words], cwd=HERE, check=True)
    servers = [Server(SERVER, [MODULE], ["--rl.queue-max-waiting", "5"])]
    watch, traffic = None, None
    try:
        servers.append(Server(SERVER, [MODULE], ["--replicaof", "127.0.0.1", str(servers[0].port)]))
        os.environ["RL_INJECT_PANIC"] = "key"
        third = PANICKING if PANICKING.is_file() else MODULE
        servers.append(Server(SERVER, [third], ["--enable-module-command", "local"]))
        watch = Watch(servers)
        wait_for("the first scrape", watch.answers, PATIENCE)
        proof = Proof(watch)
        same_numbers(watch, servers[0], servers[0].client())
        traffic = Traffic(servers[0])
        traffic.start()
        causes(proof, *servers)
        traffic.end()
        traffic = None
        same_numbers(watch, servers[0], servers[0].client())
        if proof.unseen or proof.alerts:
            raise ServerError(f"never seen: alerts {proof.alerts}, queries {proof.unseen}")
    except BaseException:
        if watch:
            print((watch.folder / "log").read_text(errors="replace")[-2000:], file=sys.stderr)
        raise
    finally:
        if traffic:
            traffic.end()
        if watch:
            watch.stop()
        for server in servers:
            server.stop()
    queries = sum(len(exprs) for exprs in proof.panels.values())
    print(f"all {queries} queries of the dashboard returned series; {time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(f"FAILED: {error}")
