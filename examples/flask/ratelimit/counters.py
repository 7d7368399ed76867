"""This application's own numbers, over all worker processes.

Each process counts into a file of its own in a shared folder, mapped into memory; reading adds the files up. The file
of a process that is gone stays, so that no sum ever goes down.
"""

import mmap
import os
import struct
import threading
from pathlib import Path

BOUNDS_MS = (0.5, 1, 2, 5, 10, 25, 50, 100, 250, 1000)
NAMES = {
    "allowed": "Requests admitted by a decision of Redis",
    "refused": "Requests refused by a decision of Redis, with a wait",
    "never": "Requests refused by a decision of Redis, without a wait that helps",
    "round_trips": "Exchanges with Redis for decisions, failed ones included",
    "errors_timeout": "Redis did not answer in time",
    "errors_connection": "Redis could not be reached, or the connection broke",
    "errors_state": "Redis answered that it cannot serve now, such as LOADING or READONLY",
    "errors_fault": "Redis answered ERR, WRONGTYPE, NOPERM or another error that no waiting mends",
    "pauses": "Decisions made without asking Redis, in the pause after a failure",
    "blind_admitted": "Requests admitted without a decision of Redis",
    "blind_refused": "Requests of open routes refused by the local emergency limit",
    "closed_refused": "Requests refused with 503 because Redis could not decide",
    "batch_fetched": "Units fetched in batches",
    "batch_spent": "Units of batches that admitted a request without a round trip of its own",
    "batch_lapsed": "Units of batches whose window ended, or that could not be given back",
    "batch_returned": "Units of batches given back on shutdown",
    "batch_held_refusals": "Refusals answered from the last refused fetch",
}
HISTOGRAM = [f"latency_{bound}" for bound in BOUNDS_MS] + ["latency_more", "latency_us"]
SLOTS = {name: index for index, name in enumerate([*NAMES, *HISTOGRAM])}
SIZE = 8 * len(SLOTS)


class Counters:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.lock = threading.Lock()
        # A process id comes back some day; a name that was never used does not.
        path = self.folder / f"{os.getpid()}-{os.urandom(4).hex()}.counters"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(descriptor, SIZE)
        self.map = mmap.mmap(descriptor, SIZE)
        os.close(descriptor)

    def add(self, name, n=1):
        at = SLOTS[name] * 8
        with self.lock:
            struct.pack_into("<Q", self.map, at, struct.unpack_from("<Q", self.map, at)[0] + n)

    def took(self, seconds):
        ms = seconds * 1000
        self.add(next((f"latency_{bound}" for bound in BOUNDS_MS if ms <= bound), "latency_more"))
        self.add("latency_us", round(seconds * 1e6))

    def totals(self):
        sums = dict.fromkeys(SLOTS, 0)
        for path in self.folder.glob("*.counters"):
            data = path.read_bytes()
            if len(data) == SIZE:
                for name, at in SLOTS.items():
                    sums[name] += struct.unpack_from("<Q", data, at * 8)[0]
        return sums

    def prometheus(self):
        sums = self.totals()
        lines = []
        for name, help_text in NAMES.items():
            metric = f"app_ratelimit_{name}_total"
            lines += [f"# HELP {metric} {help_text}.", f"# TYPE {metric} counter", f"{metric} {sums[name]}"]
        metric = "app_ratelimit_decision_seconds"
        lines += [f"# HELP {metric} Time of one exchange with Redis.", f"# TYPE {metric} histogram"]
        count = 0
        for bound in BOUNDS_MS:
            count += sums[f"latency_{bound}"]
            lines.append(f'{metric}_bucket{{le="{bound / 1000:g}"}} {count}')
        count += sums["latency_more"]
        lines += [f'{metric}_bucket{{le="+Inf"}} {count}', f"{metric}_sum {sums['latency_us'] / 1e6:.6f}",
                  f"{metric}_count {count}", ""]
        return "\n".join(lines)
