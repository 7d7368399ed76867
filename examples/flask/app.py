"""A small API whose routes show one kind of limit each. What differs between sites comes from the environment."""

import json
import os

from flask import Flask, abort, jsonify, request

from ratelimit import Limit, Policy, RateLimits


def setting(name, default=None):
    return os.environ.get(name, default)


def items():
    """The cost of an upload: how many items it has."""
    text = request.args.get("items", "1")
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 6 and int(text) > 0):
        abort(400, "items is a whole number from 1 to 999999")
    return int(text)


app = Flask(__name__)
limits = RateLimits(
    app,
    url=setting("REDIS_URL", "redis://127.0.0.1:6379"),
    # Whatever has no policy of its own, what matches no route included.
    default=Policy((Limit("default", "SLIDING 100 1m"),), unavailable="open"),
    accounts=json.loads(setting("API_KEYS", "{}")),
    trusted_proxies=setting("TRUSTED_PROXIES", "").split(),
    # All processes of all machines: what an open route admits without Redis is divided among them.
    workers=int(setting("PROCESSES", setting("WEB_CONCURRENCY", "4"))),
    timeout=int(setting("REDIS_TIMEOUT_MS", "100")) / 1000,
    pause=int(setting("REDIS_PAUSE_MS", "500")) / 1000,
    hold=int(setting("HOLD_REFUSALS_MS", "100")) / 1000,
    rules_file=setting("RULES_FILE"),
    counters_folder=setting("COUNTERS_FOLDER"),
    admin_token=setting("ADMIN_TOKEN"),
)


@app.post("/api/login")
@limits.limit(Limit("login", "FIXED 5 1m", per="address"), unavailable="closed")
def login():
    return jsonify(ok=True)


@app.get("/api/scan")
@limits.limit(Limit("scan", "SLIDING 100 1m"), unavailable="open")
def scan():
    return jsonify(ok=True)


@app.get("/api/report")
@limits.limit(Limit("report", "TOKEN 20 2 1s"), unavailable="open")
def report():
    return jsonify(ok=True)


@app.get("/api/export")
@limits.limit(Limit("export", "TOKEN 5 1 1s"), Limit("export-day", "SLIDING 1000 1d BUCKETS 96"),
              Limit("export-all", "FIXED 1000 1h", per="everyone"), unavailable="closed")
def export():
    return jsonify(ok=True)


@app.post("/api/upload")
@limits.limit(Limit("upload", "TOKEN 100 10 1s"), unavailable="closed", cost=items)
def upload():
    return jsonify(ok=True)


@app.get("/api/feed")
@limits.limit(Limit("feed", "FIXED 500 1m"), unavailable="closed", batch=25)
def feed():
    return jsonify(ok=True, worker=os.getpid())
