"""Charges limiters through redis-py's cluster client until its standard input ends, then says what was granted.

Arguments: milliseconds to rest between calls, ports with commas between, then one argument per limiter: name and words
with tabs between. Says `saw MOVED` and `saw ASK` at the first redirection of each kind.
"""

import collections
import sys
import threading
import time

import redis.exceptions
from redis.cluster import ClusterNode, RedisCluster

seen = collections.Counter()
said = threading.Lock()


def say(line):
    with said:
        print(line, flush=True)


def count_redirections():
    """The client follows redirections silently; each is an exception inside of it."""
    made = redis.exceptions.AskError.__init__

    def counted(error, *words, **options):
        kind = "MOVED" if isinstance(error, redis.exceptions.MovedError) else "ASK"
        seen[kind] += 1
        if seen[kind] == 1:
            say(f"saw {kind}")
        made(error, *words, **options)

    redis.exceptions.AskError.__init__ = counted


def main():
    rest, ports = int(sys.argv[1]) / 1000, [int(port) for port in sys.argv[2].split(",")]
    limiters = [word.split("\t") for word in sys.argv[3:]]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    count_redirections()
    client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port) for port in ports])
    admitted, errors = collections.Counter(), collections.Counter()
    while not over.is_set():
        for name, *words in limiters:
            try:
                admitted[name] += client.execute_command(*words)[0] > 0
            except (redis.exceptions.RedisError, redis.exceptions.RedisClusterException) as error:
                errors[f"{type(error).__name__}: {error}"] += 1
            time.sleep(rest)
        if not seen["rounds"]:
            say("charging")
        seen["rounds"] += 1
    for name, units in admitted.items():
        say(f"admitted {name} {units}")
    for kind in ("MOVED", "ASK"):
        say(f"redirected {kind} {seen[kind]}")
    for error, times in errors.items():
        say(f"error {times} {' '.join(error.split())}")
    say("done")


main()
