"""Runs each line of standard input as a command, words with tabs between, and prints the reply as one line.

Arguments: `cluster` or `sentinel`, then ports with commas between. Behind sentinels a command whose connection fails or
whose server is no primary is tried again for a while, as an application would.
"""

import sys
import time

import redis.exceptions
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import MasterNotFoundError, Sentinel

PATIENCE = 25
AGAIN = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    MasterNotFoundError,
)


def shown(reply):
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, list):
        return " ".join(f"[{shown(item)}]" if isinstance(item, list) else shown(item) for item in reply)
    return str(reply)


def connect(way, ports):
    if way == "cluster":
        return RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port) for port in ports])
    sentinel = Sentinel([("127.0.0.1", port) for port in ports], socket_timeout=2)
    return sentinel.master_for("limits", socket_timeout=2)


def main():
    way, ports = sys.argv[1], [int(port) for port in sys.argv[2].split(",")]
    client = connect(way, ports)
    for line in sys.stdin:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                print(shown(client.execute_command(*line.rstrip("\n").split("\t"))), flush=True)
            except AGAIN as error:
                if way == "sentinel" and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                print(f"!{type(error).__name__}: {error}", flush=True)
            except (redis.exceptions.RedisError, redis.exceptions.RedisClusterException) as error:
                print(f"!{type(error).__name__}: {error}", flush=True)
            break


main()
