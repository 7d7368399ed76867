"""What is measured: each command once, with the state its keys are brought to and the verdict it must get.

A word `__rand_int__` is a number that differs from call to call, as redis-benchmark writes it: twelve digits.
The first one stands in the key. Every limiter is given the numbers that keep it on one path for a whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server import Client, ServerError, Word

RANDOM = "__rand_int__"
LUA = Path(__file__).parent / "lua"
SCRIPTS = ("fixed", "fixed_checked", "sliding", "token", "leaky")

ADMITTED, REFUSED, NEW, PLAIN = "admitted", "refused", "new key", "plain"


def anything(reply: object) -> bool:
    return not isinstance(reply, ServerError)


def admitted(reply: object) -> bool:
    return isinstance(reply, list) and isinstance(reply[0], int) and reply[0] > 0


def refused(reply: object) -> bool:
    return isinstance(reply, list) and reply[0] == 0


def cell_admitted(reply: object) -> bool:
    return isinstance(reply, list) and reply[0] == 0


def cell_refused(reply: object) -> bool:
    return isinstance(reply, list) and reply[0] == 1


@dataclass(frozen=True)
class Workload:
    """One command on one path."""

    name: str
    path: str
    words: tuple[str, ...]
    expected: Callable[[object], bool] = anything
    warm: tuple[str, ...] | None = None
    warm_times: int = 1
    script: str | None = None

    @property
    def title(self) -> str:
        return self.name if self.path == PLAIN else f"{self.name} {self.path}"

    @property
    def command(self) -> str:
        """The name under which the server counts it."""
        return "evalsha" if self.script else self.words[0].lower()

    def with_hashes(self, hashes: dict[str, str]) -> Workload:
        """The same with the script's name replaced by its hash."""
        if self.script is None:
            return self

        def known(words: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(hashes[self.script] if word == self.script else word for word in words)

        return Workload(
            self.name,
            self.path,
            known(self.words),
            self.expected,
            self.warm and known(self.warm),
            self.warm_times,
            self.script,
        )


def fill(words: tuple[str, ...], key: int, unique: int) -> list[Word]:
    """The words with a key's number, and a number of its own for every other placeholder."""
    filled: list[Word] = []
    number = key
    for word in words:
        if RANDOM in word:
            word = word.replace(RANDOM, f"{number:012d}")
            number = unique
        filled.append(word)
    return filled


def load_scripts(client: Client) -> dict[str, str]:
    """Name to hash, for every script of ours."""
    return {name: client.call("SCRIPT", "LOAD", (LUA / f"{name}.lua").read_text()).decode() for name in SCRIPTS}


def _own(name: str, prefix: str, refill: str, algorithm_refused: str, warm: str | None = None) -> list[Workload]:
    """A limiter of ours on its three paths: numbers that always admit, and numbers that admit once and last for an hour.

    New keys have the latter: those of a short window would expire by the hundred thousand while the next command is
    measured.
    """
    command = f"RL.{name}"
    fresh, full = f"{prefix}:a:{RANDOM}", f"{prefix}:r:{RANDOM}"
    allow, deny = tuple(refill.split()), tuple(algorithm_refused.split())
    return [
        Workload(command, ADMITTED, (command, fresh, *allow), admitted, (command, fresh, *allow)),
        Workload(command, REFUSED, (command, full, *deny), refused, (command, full, *deny, *(warm or "").split())),
        Workload(command, NEW, (command, f"{prefix}:n:{RANDOM}", *deny), admitted),
    ]


def own() -> list[Workload]:
    """The module's four limiters."""
    return [
        *_own("FIXED", "fx", "10000 1m", "1 1h"),
        *_own("SLIDING", "sl", "20 100ms", "20 1h", "COST 20"),
        *_own("TOKEN", "tk", "1000 100 1s", "1 1 1h"),
        *_own("LEAKY", "lk", "1000 100 1s", "1 1 1h"),
    ]


def _lua(
    title: str, script: str, prefix: str, allow: tuple[str, ...], deny: tuple[str, ...], warm_times: int = 1
) -> list[Workload]:
    fresh, full = f"{prefix}:a:{RANDOM}", f"{prefix}:r:{RANDOM}"
    first = ("EVALSHA", script, "1")
    return [
        Workload(title, ADMITTED, (*first, fresh, *allow), admitted, (*first, fresh, *allow), 1, script),
        Workload(title, REFUSED, (*first, full, *deny), refused, (*first, full, *deny), warm_times, script),
        Workload(title, NEW, (*first, f"{prefix}:n:{RANDOM}", *deny), admitted, None, 1, script),
    ]


def lua() -> list[Workload]:
    """The same four decisions, and a fixed window of another habit, as scripts."""
    minute, hour = "60000", "3600000"
    slow = "0.000000277777777777778"
    return [
        *_lua("Lua fixed", "fixed", "lf", ("10000", minute), ("1", hour)),
        *_lua("Lua fixed, checked first", "fixed_checked", "lc", ("10000", minute), ("1", hour)),
        *_lua("Lua sliding", "sliding", "ls", ("20", "100", RANDOM), ("20", hour, RANDOM), 20),
        *_lua("Lua token", "token", "lt", ("1000", "0.1", "1"), ("1", slow, "1")),
        *_lua("Lua leaky", "leaky", "ll", ("1000", "0.1", "1"), ("1", slow, "1")),
    ]


def cell() -> list[Workload]:
    """redis-cell's one command: a bucket of burst + 1 that gains `count` per period of seconds."""
    command = "CL.THROTTLE"
    fresh, full = f"ce:a:{RANDOM}", f"ce:r:{RANDOM}"
    allow, deny = ("999", "100", "1", "1"), ("0", "1", "3600", "1")
    return [
        Workload(command, ADMITTED, (command, fresh, *allow), cell_admitted, (command, fresh, *allow)),
        Workload(command, REFUSED, (command, full, *deny), cell_refused, (command, full, *deny)),
        Workload(command, NEW, (command, f"ce:n:{RANDOM}", *allow), cell_admitted),
    ]


def native() -> list[Workload]:
    """The server's own commands as the yardstick."""
    text, count, timed = f"ge:a:{RANDOM}", f"in:a:{RANDOM}", f"px:a:{RANDOM}"
    expiring = ("12345", "PX", "3600000")
    return [
        Workload("GET", PLAIN, ("GET", text), lambda reply: reply == b"value", ("SET", text, "value")),
        Workload("GET missing", PLAIN, ("GET", f"no:a:{RANDOM}")),
        Workload("INCR", PLAIN, ("INCR", count), anything, ("INCR", count)),
        Workload("SET PX", PLAIN, ("SET", timed, *expiring), anything, ("SET", timed, *expiring)),
        Workload("INCR", NEW, ("INCR", f"in:n:{RANDOM}")),
        Workload("SET PX", NEW, ("SET", f"px:n:{RANDOM}", *expiring)),
    ]


def reply_only(words: tuple[str, ...]) -> Workload:
    """A command of a module that does nothing but reply."""
    return Workload("reply only", PLAIN, words)


def chosen(with_module: bool, with_cell: bool, reply_words: tuple[str, ...] | None) -> list[Workload]:
    """Everything that the modules at hand allow."""
    found = native()
    if reply_words:
        found.append(reply_only(reply_words))
    if with_module:
        found += own()
    found += lua()
    if with_cell:
        found += cell()
    return found


def warm(client: Client, workload: Workload, keys: int, batch: int = 500) -> None:
    """Brings every key of a workload to the state its path begins from."""
    if workload.warm is None:
        return
    unique = 0
    pending: list[list[Word]] = []
    for key in range(keys):
        for _ in range(workload.warm_times):
            unique += 1
            pending.append(fill(workload.warm, key, unique))
        if len(pending) >= batch:
            _settle(client, workload, pending)
            pending = []
    _settle(client, workload, pending)


def _settle(client: Client, workload: Workload, commands: list[list[Word]]) -> None:
    for reply in client.pipeline(commands):
        if isinstance(reply, ServerError):
            raise ServerError(f"{workload.title}: {reply}")


def verify(client: Client, workload: Workload, keys: int, probes: int = 20) -> None:
    """The path is what it says: a few calls, spread over the keys, get the verdict that it names."""
    step = max(1, keys // probes)
    commands = [fill(workload.words, key, 10**11 + key) for key in range(0, keys, step)]
    for words, reply in zip(commands, client.pipeline(commands), strict=True):
        if not workload.expected(reply):
            raise ServerError(f"{workload.title}: {words} was answered {reply!r}")
