"""What a limit is, and which limits a route has."""

import json
import os
import re
import threading
from dataclasses import dataclass

UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LARGEST = 999_999_999_999_999


def milliseconds(text):
    match = re.fullmatch(r"([1-9][0-9]{0,14})(ms|[smhdw])", text)
    if not match:
        raise ValueError(f"not a period: {text!r}; write 250ms, 10s, 5m, 1h")
    return int(match[1]) * UNIT_MS[match[2]]


def whole(text):
    if not re.fullmatch(r"0|[1-9][0-9]{0,14}", text):
        raise ValueError(f"not a whole number: {text!r}")
    return int(text)


@dataclass(frozen=True)
class Rule:
    """The words of a rule as the module reads them, and the numbers in them that this application needs."""

    words: tuple
    budget: int
    window_ms: int  # FIXED, SLIDING: the period. TOKEN: the time from empty to full

    @classmethod
    def parse(cls, text):
        words = text.split()
        match words:
            case ["FIXED", limit, period] | ["SLIDING", limit, period]:
                return cls(tuple(words), whole(limit), milliseconds(period))
            case ["SLIDING", limit, period, "BUCKETS", buckets] if 2 <= whole(buckets) <= 360:
                return cls(tuple(words), whole(limit), milliseconds(period))
            case ["TOKEN", capacity, rate, period] if whole(rate) > 0:
                full_ms = -(-whole(capacity) * milliseconds(period) // whole(rate))
                return cls(tuple(words), whole(capacity), full_ms)
        raise ValueError(f"not a rule: {text!r}; write FIXED 5 1m, SLIDING 100 1m [BUCKETS 60] or TOKEN 20 2 1s")

    @property
    def algorithm(self):
        return self.words[0]

    def text(self, cost=1):
        return " ".join((*self.words, "COST", str(cost)))


@dataclass(frozen=True)
class Limit:
    """One limit: its name in keys and headers, its rule, and whose budget it is.

    `per` is "caller" (an API key's account, else the address), "address" (whoever calls, by address) or "everyone".
    """

    name: str
    rule: str
    per: str = "caller"

    def __post_init__(self):
        # The name becomes a string in header fields and a part of keys.
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", self.name):
            raise ValueError(f"a limit's name is made of a-z, 0-9 and -: {self.name!r}")
        if self.per not in ("caller", "address", "everyone"):
            raise ValueError(f"per caller, address or everyone, not {self.per!r}")
        Rule.parse(self.rule)


@dataclass(frozen=True)
class Policy:
    """What a route asks for: one limit, or several of which all must have room or none is charged."""

    limits: tuple
    unavailable: str = "closed"  # what to do while Redis cannot be asked: "open" or "closed"
    cost: object = None  # a function of no arguments that reads the request's cost; None: 1
    batch: int = 0  # above 0: fetch that many units at a time and spend them in this process

    def __post_init__(self):
        if self.unavailable not in ("open", "closed"):
            raise ValueError(f"unavailable is open or closed, not {self.unavailable!r}")
        if not 1 <= len(self.limits) <= 64:
            raise ValueError("a policy has 1 to 64 limits")
        if self.batch and (len(self.limits) > 1 or self.cost):
            raise ValueError("a batch is for one limit and a cost of 1")
        if self.batch:
            refuse_batch(Rule.parse(self.limits[0].rule))


def refuse_batch(rule):
    # A unit of a log or a bucket that is spent later than it was booked may fall into a period in which its
    # place has been given away again. A fixed window has an end that both sides know, so only there it is exact.
    if rule.algorithm != "FIXED":
        raise ValueError(f"a batch needs a FIXED rule, not {rule.algorithm}: only a window has an end")


class Rules:
    """The rules in force: those of the code, unless a file that an administrator edits has another.

    The file is JSON, from a limit's name to its rule: {"feed": "FIXED 200 1m"}. It is looked at before every
    decision and read again when it has changed; a file that cannot be read leaves the rules as they were.
    """

    def __init__(self, path=None, complain=print):
        self.path = path
        self.complain = complain
        self.seen = None
        self.changed = {}
        self.parsed = {}
        self.lock = threading.Lock()

    def of(self, limit, batch=False):
        self._look()
        text = self.changed.get(limit.name, limit.rule)
        rule = self.parsed.get(text)
        if rule is None:
            rule = self.parsed[text] = Rule.parse(text)
        if batch and rule.algorithm != "FIXED":
            rule = Rule.parse(limit.rule)
        return rule

    def _look(self):
        if not self.path:
            return
        try:
            found = os.stat(self.path)
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        except FileNotFoundError:
            stamp = None
        with self.lock:
            if stamp == self.seen:
                return
            self.seen = stamp
            try:
                if stamp is None:
                    self.changed = {}
                    return
                with open(self.path, encoding="utf-8") as file:
                    read = json.load(file)
                for text in read.values():
                    Rule.parse(text)
                self.changed = read
            except (OSError, ValueError, AttributeError, TypeError) as error:
                self.complain(f"{self.path} is not used: {error}")
