"""Units fetched in advance and spent without a round trip.

A process fetches up to `size` units of a FIXED window with PARTIAL: they are booked on the server before the first is
spent, so all processes together never admit more than the budget. A batch ends with its window, whose end is reckoned
from before the fetch was sent, so it cannot outlive it. Nearing the end of a budget fetches get smaller, so that no
idle process sits on its last units.

A refusal is held for a moment too: without that, callers above their budget would cost a round trip each, and they
are the ones who come most often. A lowered limit or DEL therefore takes effect at the next fetch, which is at most
`hold` seconds after a refusal, and otherwise when the units in hand are spent.
"""

import threading
import time
from dataclasses import dataclass, field

from redis.exceptions import WatchError


@dataclass
class Batch:
    rule: object = None
    units: int = 0
    ends: float = 0.0  # by this process's monotonic clock
    window: int = -1  # the window's end by the server's clock, in ms: its name
    left: int = 0  # what the server had left after the last fetch
    refused: tuple = None
    refused_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Batches:
    def __init__(self, gate, counters, workers, hold=0.1, keys=10_000, clock=time.monotonic):
        self.gate = gate
        self.counters = counters
        self.workers = workers
        self.hold = hold
        self.keys = keys
        self.clock = clock
        self.held = {}
        self.lock = threading.Lock()
        self.swept = 0.0

    def take(self, key, rule, size):
        """One unit of the key: a decision of five numbers as from Redis, about this unit."""
        batch = self._batch(key)
        if batch is None:  # No room to hold what is left of a batch
            return self._fetch(key, Batch(), rule, 1)
        with batch.lock:  # One fetch at a time per key; those who come meanwhile find its units
            now = self.clock()
            if batch.units and now >= batch.ends:
                self.counters.add("batch_lapsed", batch.units)
                batch.units = 0
            if batch.units:
                return self._spend(batch, now)
            if batch.refused and now < batch.refused_until and batch.rule == rule:
                self.counters.add("batch_held_refusals")
                passed = int((now - batch.refused_until + self.hold) * 1000)
                allowed, limit, left, wait, reset = batch.refused
                return [allowed, limit, left, max(1, wait - passed) if wait > 0 else wait, max(1, reset - passed)]
            return self._fetch(key, batch, rule, size)

    def _fetch(self, key, batch, rule, size):
        if batch.rule == rule and self.clock() < batch.ends:
            size = min(size, max(1, batch.left // (2 * self.workers)))
        asked = self.clock()

        def ask(client):
            # The expiry comes in the same exchange. It tells this window from the next when units are given back.
            with client.pipeline(transaction=True) as pipe:
                pipe.execute_command("RL.FIXED", key, *rule.words[1:], "COST", size, "PARTIAL")
                pipe.execute_command("PEXPIRETIME", key)
                return pipe.execute()

        decision, window = self.gate.run(ask)
        granted, _, left, wait, reset = decision
        batch.rule, batch.left = rule, left
        if not granted:
            batch.refused = tuple(decision)
            batch.refused_until = asked + self.hold if wait < 0 else min(asked + self.hold, asked + wait / 1000)
            return decision
        batch.refused = None
        batch.units, batch.window = granted, window
        # The server's reset is rounded up to a millisecond, and its clock may be a trifle slower than ours.
        batch.ends = asked + (reset - 1) / 1000
        self.counters.add("batch_fetched", granted)
        return self._spend(batch, asked)

    def _spend(self, batch, now):
        batch.units -= 1
        self.counters.add("batch_spent")
        limit = batch.rule.budget
        return [1, limit, min(limit, batch.left + batch.units), 0, max(1, int((batch.ends - now) * 1000) + 1)]

    def _batch(self, key):
        with self.lock:
            batch = self.held.get(key)
            if batch is None:
                now = self.clock()
                if len(self.held) >= self.keys and now >= self.swept + 1:
                    self.swept = now
                    self.held = {name: b for name, b in self.held.items() if b.lock.locked() or b.ends > now}
                if len(self.held) >= self.keys:
                    return None
                batch = self.held[key] = Batch()
            return batch

    def give_back(self):
        """On shutdown: unspent units of windows that are still open go back. Returns how many did."""
        returned = 0
        for key, batch in list(self.held.items()):
            with batch.lock:
                units, batch.units = batch.units, 0
                if not units:
                    continue
                back = 0
                if self.clock() < batch.ends:
                    try:
                        back = self.gate.run(lambda client: refund(client, key, batch, units))
                    except Exception:  # Redis is away: the units lapse with their window
                        back = 0
                self.counters.add("batch_returned", back)
                self.counters.add("batch_lapsed", units - back)
                returned += back
        return returned


def refund(client, key, batch, units):
    """Gives units back to the very window they came from.

    After DEL, or when the window has ended on the way, another window may be open under the same key; giving back
    there what came from elsewhere would let that one admit more than its limit. The expiry is the window's name, and
    WATCH sees to it that it is still the same when the units arrive.
    """
    with client.pipeline(transaction=True) as pipe:
        pipe.watch(key)
        for _ in range(10):
            if pipe.execute_command("PEXPIRETIME", key) != batch.window:
                return 0
            pipe.multi()
            pipe.execute_command("RL.REFUND", key, *batch.rule.words, "COST", units)
            try:
                return pipe.execute()[0][0]
            except WatchError:  # Somebody else spent in between, most likely in the same window
                pipe.watch(key)
    return 0
