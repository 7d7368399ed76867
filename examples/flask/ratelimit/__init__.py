"""Rate limits for Flask, decided by the redis-limiters module.

rules.py       what a limit is, and which limits a route has
identity.py    who is asking
gate.py        the one way to Redis: short time-outs, no retries, a pause after a failure
emergency.py   the local limit while Redis cannot be asked
batch.py       units fetched in advance and spent without a round trip
answers.py     headers and bodies
counters.py    this application's own numbers, over all worker processes
status.py      /rate-limit-status and /metrics, for administrators
middleware.py  puts them together
"""

from .middleware import RateLimits
from .rules import Limit, Policy

__all__ = ["Limit", "Policy", "RateLimits"]
