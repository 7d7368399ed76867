"""The one way to Redis: short time-outs, no retries, a pause after a failure.

Two kinds of trouble are kept apart. `Unavailable`: Redis cannot be asked now, and the route's policy says what to do.
`Fault`: Redis was asked and answered with an error that no waiting mends (ERR, WRONGTYPE, NOPERM, a wrong password).
A fault never opens a route, or whoever can cause one could switch the limits off.
"""

import random
import threading
import time

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

# A server that says one of these is there, and will serve again without anybody changing a program or a key.
PASSING = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "OOM", "MISCONF", "NOREPLICAS")


class Unavailable(Exception):
    pass


class Fault(Exception):
    pass


def kind_of(error):
    # The order matters: in redis-py a wrong password and "max number of clients" are connection errors too.
    if isinstance(error, (exceptions.AuthenticationError, exceptions.AuthorizationError)):
        return "fault"
    if str(error).startswith("max number of clients"):
        return "fault"
    if isinstance(error, (exceptions.TimeoutError, TimeoutError)):
        return "timeout"
    if isinstance(error, (exceptions.BusyLoadingError, exceptions.ReadOnlyError, exceptions.OutOfMemoryError,
                          exceptions.ClusterDownError, exceptions.MasterDownError, exceptions.TryAgainError)):
        return "state"
    if isinstance(error, (exceptions.ConnectionError, OSError)):
        return "connection"
    # In a pipeline redis-py puts words of its own before those of the server.
    words = str(error).rsplit("of pipeline caused error: ", 1)[-1]
    return "state" if words.split(" ", 1)[0] in PASSING else "fault"


class Gate:
    def __init__(self, url, counters, timeout=0.1, pause=0.5, clock=time.monotonic):
        # redis-py repeats a failed call up to three times by itself. A decision must not be repeated: the first may
        # have been charged. And a server in trouble must not get every request three times.
        self.client = redis.Redis.from_url(
            url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0),
            health_check_interval=0, max_connections=64, decode_responses=False)
        self.counters = counters
        self.timeout = timeout
        self.pause = pause
        self.clock = clock
        self.lock = threading.Lock()
        self.rest_until = None  # None: Redis is well
        self.probing = False

    def run(self, ask):
        """ask(client), with every trouble turned into Unavailable or Fault."""
        probe = self._may_ask()
        started = self.clock()
        try:
            answer = ask(self.client)
        except (redis.RedisError, OSError) as error:
            kind = kind_of(error)
            self.counters.add(f"errors_{kind}")
            if kind == "fault":
                # The server is there, whatever it thinks of us.
                self._well()
                raise Fault(str(error)) from error
            self._unwell()
            raise Unavailable(str(error)) from error
        else:
            self._well()
            return answer
        finally:
            if probe:
                with self.lock:
                    self.probing = False
            self.counters.add("round_trips")
            self.counters.took(self.clock() - started)

    def _may_ask(self):
        """Whether this call is the one that tries out whether Redis is back. During a pause nobody asks."""
        with self.lock:
            if self.rest_until is None:
                return False
            if self.probing or self.clock() < self.rest_until:
                self.counters.add("pauses")
                raise Unavailable("Redis failed a moment ago and is left alone for now")
            self.probing = True
            return True

    def _unwell(self):
        with self.lock:
            # Spread, so that many processes do not come back in the same moment.
            self.rest_until = self.clock() + self.pause * random.uniform(0.8, 1.2)

    def _well(self):
        if self.rest_until is not None:
            with self.lock:
                self.rest_until = None
