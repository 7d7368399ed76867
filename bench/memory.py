#!/usr/bin/env python3
"""Bytes per key: what the server's memory grows by for many keys of each limiter, beside Lua's and redis-cell's.

Counted is `used_memory` after and before, divided by the keys: names, values, expiries and tables together. Every
key's name has 16 bytes. Buckets have been used twice, so that they hold a fraction as in real use.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import seeding
import tables
from run import ROOT, found_server
from server import Client, Server, ServerError, info, settle_tables


@dataclass(frozen=True)
class Family:
    """Keys of one kind, and how they are made."""

    title: str
    needs: str
    fill: Callable[[Client, str, int], None]


def command(words: str, times: int = 1) -> Callable[[Client, str, int], None]:
    def fill(client: Client, prefix: str, keys: int) -> None:
        for _ in range(times):
            seeding.by_command(client, prefix, keys, tuple(words.split()))

    return fill


def script(name: str, words: str, times: int = 1, passes: int = 1) -> Callable[[Client, str, int], None]:
    def fill(client: Client, prefix: str, keys: int) -> None:
        for _ in range(passes):
            seeding.by_script(client, prefix, keys, name, tuple(words.split()), times)

    return fill


def ten_subwindows(client: Client, prefix: str, keys: int) -> None:
    """Ten of ten sub-windows in use, written as the module stores them."""
    seeding.by_command(client, prefix, keys, ("RL.SLIDING", "?", "100", "1h", "BUCKETS", "10"))
    first = f"{prefix}{0:012d}"
    end = int(client.call("HKEYS", first)[0])
    older = [word for back in range(1, 10) for word in (str(end - back * 360_000), "7")]
    seeding.by_command(client, prefix, keys, ("HSET", "?", *older))
    reply = client.call("RL.PEEK", first, "SLIDING", 100, "1h", "BUCKETS", 10)
    # One unit from the call above, and one that the call asked about would take.
    if reply[2] != 100 - 9 * 7 - 1 - 1:
        raise ServerError(f"the sub-windows written here are not understood: {reply}")


FAMILIES = [
    Family("a counter with a TTL (SET PX)", "", command("SET ? 5 PX 3600000")),
    Family("RL.FIXED", "rl", command("RL.FIXED ? 1000 1h COST 5")),
    Family("RL.TOKEN", "rl", command("RL.TOKEN ? 1000 100 1h", 2)),
    Family("RL.LEAKY", "rl", command("RL.LEAKY ? 1000 100 1h", 2)),
    Family("RL.SLIDING, 1 entry", "rl", command("RL.SLIDING ? 100 1h")),
    Family("RL.SLIDING, 10 entries", "rl", command("RL.SLIDING ? 100 1h COST 10")),
    Family("RL.SLIDING, 100 entries", "rl", command("RL.SLIDING ? 100 1h COST 100")),
    Family("RL.SLIDING BUCKETS, 1 of 10 in use", "rl", command("RL.SLIDING ? 100 1h BUCKETS 10")),
    Family("RL.SLIDING BUCKETS, 10 of 10 in use", "rl", ten_subwindows),
    Family("RL.ACQUIRE, 1 lease", "rl", command("RL.ACQUIRE ? 10 1h")),
    Family("Lua fixed", "", script("fixed", "1000 3600000")),
    Family("Lua token", "", script("token", "1000 0.0000277777 1", passes=2)),
    Family("Lua leaky", "", script("leaky", "1000 0.0000277777 1", passes=2)),
    Family("Lua sliding, 1 entry", "", script("sliding", "100 3600000 ?")),
    Family("Lua sliding, 10 entries", "", script("sliding", "100 3600000 ?", 10)),
    Family("CL.THROTTLE", "cell", command("CL.THROTTLE ? 1000 100 3600 1", 2)),
]


def settled(client: Client) -> int:
    """`used_memory` once the tables have stopped moving."""
    settle_tables(client)
    return int(info(client, "memory")["used_memory"])


def weigh(client: Client, family: Family, number: int, keys: int) -> dict[str, Any]:
    client.call("FLUSHALL", "SYNC")
    client.call("SCRIPT", "FLUSH")
    before = settled(client)
    began = time.monotonic()
    prefix = f"m{chr(97 + number)}:x"
    family.fill(client, prefix, keys)
    after = settled(client)
    found = client.call("DBSIZE")
    if found != keys:
        raise ServerError(f"{family.title}: {found} keys instead of {keys}")
    sample = f"{prefix}{keys // 2:012d}"
    if client.call("PTTL", sample) <= 0:
        raise ServerError(f"{family.title}: a key without TTL")
    # A script's own text is a few hundred bytes: not worth a correction at these numbers of keys.
    return {
        "title": family.title,
        "bytes_per_key": (after - before) / keys,
        "memory_usage": client.call("MEMORY", "USAGE", sample),
        "encoding": client.call("OBJECT", "ENCODING", sample).decode(),
        "seconds": round(time.monotonic() - began, 1),
    }


def rows(families: list[dict[str, Any]]) -> tuple[list[str], list[list[object]]]:
    base = families[0]["bytes_per_key"]
    found = [
        [f["title"], round(f["bytes_per_key"], 1), f["memory_usage"], f["encoding"], f["bytes_per_key"] / base]
        for f in families
    ]
    return ["keys", "bytes per key", "MEMORY USAGE", "encoding", "to the counter"], found


def report(data: dict[str, Any], style) -> str:
    lines = machine.lines(data["machine"])
    head = "\n".join(f"- {line}" for line in lines) if style is tables.markdown else "\n".join(lines)
    return "\n\n".join([head, f"{data['how']['keys']:,} keys of each kind.", style(*rows(data["families"]))]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=Path("redis-server"))
    parser.add_argument("--module", type=Path, default=ROOT / "target/release/libredis_limiters.so")
    parser.add_argument("--no-module", action="store_true")
    parser.add_argument("--cell", type=Path, help="redis-cell's module")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench")
    options = parser.parse_args()
    options.server = found_server(parser, options.server)
    options.module = None if options.no_module else options.module
    options.modules = [path.resolve() for path in (options.module, options.cell) if path]
    return options


def main() -> None:
    options = arguments()
    at_hand = {"", "rl" if options.module else "", "cell" if options.cell else ""}
    families = []
    with Server(options.server, options.modules) as server, server.client() as client:
        facts = machine.facts(client, options.modules)
        # What a server allocates once, at its first keys, belongs to no family.
        weigh(client, FAMILIES[0], 0, 10_000)
        for number, family in enumerate(f for f in FAMILIES if f.needs in at_hand):
            families.append(weigh(client, family, number, options.keys))
            print(f"  {family.title}: {families[-1]['bytes_per_key']:.1f} bytes per key", file=sys.stderr, flush=True)
    data = {"kind": "memory", "machine": facts, "how": {"keys": options.keys}, "families": families}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "memory.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "memory.md").write_text(report(data, tables.markdown))
    print(report(data, tables.text))


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
