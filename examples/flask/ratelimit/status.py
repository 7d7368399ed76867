"""/rate-limit-status and /metrics, for administrators. They look with RL.PEEK and spend nothing."""

import hmac

from flask import Response, abort, jsonify, render_template, request

from .counters import NAMES
from .gate import Fault, Unavailable

SCANS = 20  # rounds of SCAN at most: the page must not walk a keyspace of millions


def add_status(app, limits, token):
    def guard():
        if not token:
            abort(404)
        given = request.headers.get("Authorization", "")
        password = request.authorization.password if request.authorization else None
        ok = hmac.compare_digest(given.encode(), f"Bearer {token}".encode())
        ok |= hmac.compare_digest((password or "").encode(), token.encode())
        if not ok:
            return Response("For administrators.\n", 401, {"WWW-Authenticate": 'Basic realm="limits"'},
                            mimetype="text/plain")
        return None

    @limits.exempt
    @app.get("/rate-limit-status")
    def rate_limit_status():
        if (refusal := guard()) is not None:
            return refusal
        known = {}
        for policy in [limits.default, *limits.policies.values()]:
            for limit in policy.limits if policy else ():
                known[limit.name] = limit
        wanted = request.args.get("identity", "")[:200]
        report = {"identity": wanted or None, "redis": "ok", "truncated": False, "limits": [],
                  "counters": limits.counters.totals()}
        try:
            report["limits"], report["truncated"] = look(limits, known, wanted)
            status = 200
        except (Unavailable, Fault) as error:
            report["redis"], status = str(error), 503
        wants_page = request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html"
        page = render_template("status.html", names=NAMES, roughly=roughly, **report) if wants_page else jsonify(report)
        answer = app.make_response(page)
        answer.status_code = status
        answer.headers["Cache-Control"] = "no-store"
        answer.vary.add("Accept")
        return answer

    @limits.exempt
    @app.get("/metrics")
    def metrics():
        if (refusal := guard()) is not None:
            return refusal
        return Response(limits.counters.prometheus(), mimetype="text/plain", headers={"Cache-Control": "no-store"})


def look(limits, known, wanted):
    if wanted:
        pairs, more = [(wanted, limit) for limit in known.values()], False
    else:
        pairs, more = in_use(limits, known)
    rules = [limits.rules.of(limit) for _, limit in pairs]

    def ask(client):
        with client.pipeline(transaction=False) as pipe:
            for (identity, limit), rule in zip(pairs, rules):
                # COST 0 gives the numbers as they are, COST 1 what the next request would be told.
                for cost in (0, 1):
                    pipe.execute_command("RL.PEEK", limits.key(limit, identity), *rule.words, "COST", cost)
            return pipe.execute(raise_on_error=False)

    replies = limits.gate.run(ask) if pairs else []
    rows = []
    for (identity, limit), rule, now, then in zip(pairs, rules, replies[0::2], replies[1::2]):
        row = {"identity": identity, "limit": limit.name, "rule": " ".join(rule.words), "per": limit.per}
        if isinstance(now, Exception) or isinstance(then, Exception):
            row["error"] = str(now if isinstance(now, Exception) else then)
        else:
            row |= {"budget": now[1], "remaining": now[2], "next_allowed": then[0] > 0, "wait_ms": then[3],
                    "reset_after_ms": now[4]}
        rows.append(row)
    # Whoever is being refused is who an administrator looks for.
    return sorted(rows, key=lambda row: row.get("next_allowed", False)), more


def roughly(ms):
    """A wait for people to read; the exact one is in the JSON."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= 2 * size:
            return f"{-(-ms // size)} {unit}"
    return f"{ms} ms"


def in_use(limits, known, most=100):
    """Up to `most` limits that have a key, and whether there may be more."""
    def ask(client):
        found, cursor = set(), 0
        for _ in range(SCANS):
            cursor, keys = client.scan(cursor, match=f"{limits.prefix}:{{*}}:*", count=500)
            found.update(keys)
            if cursor == 0 or len(found) >= most:
                break
        return found, cursor != 0

    found, more = limits.gate.run(ask)
    pairs = []
    for key in sorted(found):
        identity, _, name = key.decode(errors="replace").removeprefix(limits.prefix + ":{").rpartition("}:")
        if name in known:
            pairs.append((identity, known[name]))
    return pairs[:most], more or len(pairs) > most
