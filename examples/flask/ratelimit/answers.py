"""Headers and bodies.

RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-10: lists of structured fields, one member
per limit, `q` the quota, `w` the window in seconds, `r` what is left, `t` the seconds until the quota is whole again.
The X-RateLimit trio is a habit and no standard; here it speaks of the tightest limit, and Reset is a time of day in
seconds since 1970. Bodies are problem details (RFC 9457) with the problem types of that draft.
"""

import time

from flask import jsonify

TYPES = "https://iana.org/assignments/http-problem-types#"


def up(ms):
    """Milliseconds to whole seconds, rounded up: whoever waits that long does not come too early."""
    return -(-ms // 1000)


def policy_field(rules):
    members = []
    for limit, rule in rules:
        member = f'"{limit.name}";q={rule.budget}'
        # A window that is no whole number of seconds cannot be said in this field, and a rounded one would not be
        # true. The time in which a bucket fills up may be rounded up.
        if rule.algorithm == "TOKEN" or rule.window_ms % 1000 == 0:
            member += f";w={up(rule.window_ms)}"
        members.append(member)
    return ", ".join(members)


def describe(headers, rules, replies):
    """The fields of a decision. Without replies nothing is known but the policy, and nothing else is said."""
    headers["RateLimit-Policy"] = policy_field(rules)
    if not replies:
        return
    headers["RateLimit"] = ", ".join(
        f'"{limit.name}";r={reply[2]};t={up(reply[4])}' for (limit, _), reply in zip(rules, replies))
    # The tightest: one that refuses before one that does not, then the one with the least left.
    _, limit, left, _, reset = min(replies, key=lambda reply: (reply[0] > 0, reply[2]))
    headers["X-RateLimit-Limit"] = str(limit)
    headers["X-RateLimit-Remaining"] = str(left)
    headers["X-RateLimit-Reset"] = str(up(time.time_ns() // 1_000_000 + reset))


def problem(status, title, detail, kind=None, **more):
    answer = jsonify({"type": TYPES + kind if kind else "about:blank", "title": title, "status": status,
                      "detail": detail, **more})
    answer.status_code = status
    answer.mimetype = "application/problem+json"
    # What one caller is told is nobody else's, and not even this caller's a moment later.
    answer.headers["Cache-Control"] = "no-store"
    return answer


def refused(rules, replies, wait_ms, cost):
    """429 with the wait, or, when no wait helps, a status that does not invite to come again."""
    over = [(limit, rule, reply) for (limit, rule), reply in zip(rules, replies) if not reply[0]]
    names = [limit.name for limit, _, _ in over]
    budgets = " and ".join(f"{limit.name} ({in_words(rule)}, per {limit.per})" for limit, rule, _ in over)
    facts = {"violated-policies": names, "limits": [
        {"name": limit.name, "rule": " ".join(rule.words), "per": limit.per, "limit": reply[1],
         "remaining": reply[2], "wait_ms": reply[3], "reset_after_ms": reply[4]} for limit, rule, reply in over]}
    if wait_ms >= 0:
        seconds = max(1, up(wait_ms))
        detail = f"This request costs {cost} and would exceed {budgets}. It was not charged. Try again in {seconds} s."
        answer = problem(429, "Quota exceeded", detail, "quota-exceeded", retry_after=seconds, **facts)
        answer.headers["Retry-After"] = str(seconds)
        return answer
    if any(reply[1] == 0 for _, _, reply in over):
        return problem(403, "Not allowed", f"Nothing is allowed here: {budgets}. No wait helps.", **facts)
    detail = f"This request costs {cost}, which {budgets} never admits at once. No wait helps; ask for less."
    return problem(422, "Request larger than its limit", detail, **facts)


def in_words(rule):
    match rule.words:
        case ["TOKEN", capacity, rate, period]:
            return f"up to {capacity} at once, {rate} more every {period}"
        case [algorithm, limit, period, *_]:
            return f"{limit} in {'a window of' if algorithm == 'FIXED' else 'any'} {period}"


def undecided(seconds, names, detail):
    """503: nobody knows whether this caller's budget is used up, so it is not the caller who is at fault."""
    answer = problem(503, "Limits cannot be checked", detail, "temporary-reduced-capacity",
                     **{"violated-policies": names})
    if seconds >= 0:
        answer.headers["Retry-After"] = str(max(1, -int(-seconds // 1)))
    return answer
