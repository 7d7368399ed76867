"""The local limit of an open route while Redis cannot be asked: the budget divided by the number of processes.

All processes together admit at most the budget in any period: each keeps an exact log of its own share, rounded down.
A budget below the number of processes therefore admits nobody blindly.
"""

import threading
import time
from collections import deque


class Log:
    def __init__(self):
        self.entries = deque()  # (when it leaves, units), the oldest first
        self.units = 0

    def forget(self, now):
        while self.entries and self.entries[0][0] <= now:
            self.units -= self.entries.popleft()[1]

    def wait(self, room, now):
        """Seconds until at least `room` more units have left; 0: none need to."""
        for leaves, units in self.entries if room > 0 else ():
            room -= units
            if room <= 0:
                return leaves - now
        return 0

    def add(self, leaves, units):
        self.entries.append((leaves, units))
        self.units += units


class Emergency:
    def __init__(self, workers, identities=10_000, clock=time.monotonic):
        self.workers = workers
        self.identities = identities
        self.clock = clock
        self.logs = {}
        self.lock = threading.Lock()
        self.swept = 0.0

    def admit(self, asked, cost):
        """asked: (key, Rule) of every limit. None: all have room and are charged. Else seconds to wait, -1 for ever."""
        if any(cost > rule.budget // self.workers for _, rule in asked):
            return -1
        now = self.clock()
        with self.lock:
            waits = [self._wait(key, rule, cost, now) for key, rule in asked]
            if any(waits):
                return max(waits)
            for key, rule in asked:
                self.logs.setdefault(key, Log()).add(now + rule.window_ms / 1000, cost)
        return None

    def _wait(self, key, rule, cost, now):
        log = self.logs.get(key)
        if log:
            log.forget(now)
            return log.wait(log.units + cost - rule.budget // self.workers, now)
        # A table that anybody can fill must have an end. Newcomers then wait until somebody's entries are over.
        if len(self.logs) >= self.identities and now >= self.swept + 1:
            self.swept = now
            self.logs = {name: log for name, log in self.logs.items() if log.entries and log.entries[-1][0] > now}
        return 0 if len(self.logs) < self.identities else 1
