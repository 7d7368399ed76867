"""Limiters, the traffic that is driven through them, and what they promise; for pictures.py and demo.py.

Every limiter sees the same calls at the same instants on a real server, and what it answers is all that is known of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))

from server import Client, Server, ServerError, Word  # noqa: E402 (found in the folder named above)

__all__ = ["ROOT", "Answer", "HeldServer", "Limiter", "Server", "ServerError", "Unheld", "limiters", "server_options"]

# 2026-01-01 00:00:00 UTC, in microseconds: time 0 of every picture, and a multiple of every period used here.
TIME_ZERO_US = 1_767_225_600_000_000


class Unheld(Exception):
    """This server's clock cannot be held."""


@dataclass(frozen=True)
class Limiter:
    """A rule, and the most units that may pass in any one period under it, in words and as a number."""

    name: str
    rule: tuple[Word, ...]
    promise: str
    most: int

    def call(self, key: str) -> tuple[Word, ...]:
        return (f"RL.{self.rule[0]}", key, *self.rule[1:])

    @property
    def shaped(self) -> bool:
        return "SHAPE" in self.rule


def limiters(limit: int, period_s: int, sub_windows: int) -> list[Limiter]:
    """Each limiter with the same limit, the buckets with the limit as capacity and as rate."""
    period = f"{period_s}s"
    twice = 2 * limit
    return [
        Limiter("FIXED", ("FIXED", limit, period), "2 x limit", twice),
        Limiter("FIXED ALIGN", ("FIXED", limit, period, "ALIGN"), "2 x limit", twice),
        Limiter("SLIDING", ("SLIDING", limit, period), "the limit", limit),
        Limiter("SLIDING BUCKETS", ("SLIDING", limit, period, "BUCKETS", sub_windows), "the limit", limit),
        Limiter("TOKEN", ("TOKEN", limit, limit, period), "capacity + rate", twice),
        Limiter("LEAKY", ("LEAKY", limit, limit, period), "capacity + rate", twice),
        Limiter("LEAKY SHAPE", ("LEAKY", limit, limit, period, "SHAPE"), "the rate", limit),
    ]


@dataclass(frozen=True)
class Answer:
    """When a call came, in milliseconds after time 0, and the reply that it got."""

    at_ms: int
    allowed: int
    wait_ms: int

    @property
    def turn_ms(self) -> int:
        """When an admitted call goes ahead: at once, but for SHAPE."""
        return self.at_ms + self.wait_ms


def most_within(instants: Sequence[int], length: int) -> int:
    """The most of these ascending instants in any span that is shorter than this length."""
    most = first = 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= length:
            first += 1
        most = max(most, last - first + 1)
    return most


class HeldServer:
    """A server whose wall clock stands where it is put."""

    def __init__(self, binary: Path, module: Path, folder: Path) -> None:
        compiler = os.environ.get("CC", "cc")
        if shutil.which(compiler) is None:
            raise Unheld("there is no C compiler to build the clock with")
        library = folder / "heldclock.so"
        source = ROOT / "tests" / "server" / "heldclock.c"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        self._clock = (folder / "clock").open("w+b", buffering=0)
        self.set_ms(0)
        held = ["env", f"LD_PRELOAD={library}", f"HELDCLOCK={self._clock.name}"]
        self.server = Server(binary, [module.resolve()], wrapper=held)
        try:
            self.client: Client = self.server.client()
            if self.client.call("TIME") != [b"%d" % (TIME_ZERO_US // 1_000_000), b"0"]:
                raise Unheld("this server's clock cannot be held")
        except BaseException:
            self.server.stop()
            raise

    def set_ms(self, after_zero_ms: int) -> None:
        now_us = TIME_ZERO_US + 1000 * after_zero_ms
        os.pwrite(self._clock.fileno(), struct.pack("<q", now_us), 0)

    def record(self, rules: Sequence[Limiter], instants_ms: Iterable[int]) -> list[list[Answer]]:
        """What each limiter answered to one call at each of these instants, from an empty server on."""
        self.client.call("FLUSHALL")
        answers: list[list[Answer]] = [[] for _ in rules]
        for at_ms in instants_ms:
            self.set_ms(at_ms)
            for rule, heard in zip(rules, answers, strict=True):
                allowed, _, _, wait_ms, _ = self.client.call(*rule.call(f"key:{rule.name}"))
                heard.append(Answer(at_ms, allowed, wait_ms))
        return answers

    def __enter__(self) -> HeldServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.server.stop()
        self._clock.close()


def server_options(parser: argparse.ArgumentParser) -> None:
    """--server and --module, with the defaults of the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cached = cache / "redis-limiters/servers/redis-7.0/redis-server"
    server = os.environ.get("RL_SERVER") or (cached if cached.exists() else shutil.which("redis-server") or cached)
    module = os.environ.get("RL_MODULE") or ROOT / "target/release/libredis_limiters.so"
    parser.add_argument("--server", type=Path, default=Path(server), help="redis-server or valkey-server (RL_SERVER)")
    parser.add_argument("--module", type=Path, default=Path(module), help="this project's module (RL_MODULE)")
