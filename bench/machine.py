"""Where and on what a measurement was made: enough for a reader to judge it, and no names of folders."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from server import Client, info


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def facts(client: Client, modules: Sequence[Path]) -> dict[str, Any]:
    """Machine, server, modules and date."""
    server = info(client, "server")
    memory = info(client, "memory")
    if "valkey_version" in server:
        version = f"valkey {server['valkey_version']}"
    else:
        version = f"redis {server['redis_version']}"
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "server": version,
        "allocator": memory.get("mem_allocator", "unknown"),
        "server_compiler": f"gcc {server.get('gcc_version', 'unknown')}",
        "modules": loaded_modules(client, modules),
    }


def stalls(core: int | None, seconds: float = 2.0) -> dict[str, float]:
    """How long the machine itself keeps a program waiting: gaps in a loop that does nothing but read the clock.

    A single slow call can be the server's fault or the machine's. This says what the machine alone does.
    """
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        gaps = []
        last = began = time.perf_counter()
        while last - began < seconds:
            now = time.perf_counter()
            if now - last > 0.0002:
                gaps.append((now - last) * 1000)
            last = now
    finally:
        os.sched_setaffinity(0, before)
    over = sum(gap >= 1.0 for gap in gaps)
    return {"longest_ms": round(max(gaps, default=0.0), 2), "over_1ms_per_s": round(over / seconds, 1)}


def loaded_modules(client: Client, files: Sequence[Path]) -> list[dict[str, Any]]:
    """What the server says of its modules, and the digest of each file that was given."""
    found = []
    for entry in client.call("MODULE", "LIST"):
        pairs = dict(zip(entry[::2], entry[1::2], strict=False))
        found.append({"name": pairs[b"name"].decode(), "version": pairs[b"ver"]})
    digests = [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]} for path in files]
    return found + digests


def lines(known: dict[str, Any]) -> list[str]:
    """The same in words, for a person."""
    modules = [f"{m['name']} {m['version']}" for m in known["modules"] if "name" in m]
    found = [
        f"Date: {known['date']}",
        f"Machine: {known['processor']}, {known['cores']} cores, {known['memory_gib']} GiB, {known['kernel']}",
        f"Server: {known['server']}, {known['allocator']}, {known['server_compiler']}",
        f"Modules: {', '.join(modules) or 'none'}",
        f"Load average when it began: {' '.join(str(value) for value in known['load_average'])}",
    ]
    if stalled := known.get("stalls"):
        found.append(
            f"The server's core before it began: stalls of up to {stalled['longest_ms']} ms, "
            f"{stalled['over_1ms_per_s']} of 1 ms or more per second"
        )
    return found
