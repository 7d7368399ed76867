"""Tests of the example as its callers see it: gunicorn with four workers, a real Redis with the module, TCP."""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from redis_server import RedisServer, free_port, until  # noqa: E402

TIMEOUT_MS = 250
ADMIN = {"Authorization": "Bearer secret"}
ANN, BOB = {"X-API-Key": "key-of-ann"}, {"X-API-Key": "key-of-bob"}


class Redis(RedisServer):
    """With a client, which each start makes anew."""

    def start(self, *, module=True):
        super().start(module=module)
        self.db = redis.Redis(port=self.port, decode_responses=True, socket_timeout=5)

    def calls(self, command):
        """How often the server has run a command, as the server counts."""
        return int(self.db.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


class Application:
    def __init__(self, folder, server, **environment):
        self.port = free_port()
        self.rules = folder / "rules.json"
        counters = Path(tempfile.mkdtemp(dir=folder))
        self.log = folder / f"gunicorn-{self.port}.log"
        environment = {
            **os.environ, "REDIS_URL": f"redis://127.0.0.1:{server.port}", "BIND": f"127.0.0.1:{self.port}",
            "WEB_CONCURRENCY": "4", "API_KEYS": json.dumps({"key-of-ann": "ann", "key-of-bob": "bob"}),
            "ADMIN_TOKEN": "secret", "RULES_FILE": str(self.rules), "COUNTERS_FOLDER": str(counters),
            "REDIS_TIMEOUT_MS": "5000", **environment}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "gunicorn", "--config", "gunicorn.conf.py", "app:app"],
                                            cwd=HERE, env=environment, stdout=log, stderr=log)
        # Each worker has a file from the moment on when it has loaded the application. One that took too long for
        # gunicorn is replaced, and leaves its file.
        until(lambda: self.process.poll() is not None or len(list(counters.iterdir())) >= 4, 120, "gunicorn's workers")
        until(self.listens, 30, "gunicorn answers")

    def listens(self):
        if self.process.poll() is not None:
            raise AssertionError("gunicorn ended: " + self.log.read_text()[-2000:])
        try:
            return self.get("/metrics").status == 401
        except OSError:
            return False

    def ask(self, method, path, headers=None):
        # A new connection for every request, so that the workers share them.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            started = time.monotonic()
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            answer.body = answer.read()
            answer.took = time.monotonic() - started
            return answer
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.ask("GET", path, headers)

    def post(self, path, headers=None):
        return self.ask("POST", path, headers)

    def counters(self):
        return json.loads(self.get("/rate-limit-status?identity=none", ADMIN).body)["counters"]

    def change_rules(self, **rules):
        draft = self.rules.with_suffix(".new")
        draft.write_text(json.dumps(rules))
        draft.replace(self.rules)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class WithServer(unittest.TestCase):
    """A Redis for the tests of a class."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="flask-limits-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.server = Redis(cls.folder)
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()

    def setUp(self):
        self.server.db.flushall()

    def many(self, count, request, threads=16):
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda _: request(), range(count)))


class Case(WithServer):
    """And an application: four processes take seconds to start and to stop."""

    environment = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.app = Application(cls.folder, cls.server, **cls.environment)
        cls.addClassCleanup(cls.app.stop)

    def setUp(self):
        super().setUp()
        self.app.rules.unlink(missing_ok=True)


class Decisions(Case):
    def test_a_refusal_says_what_to_do(self):
        """The 429 names the limit, the wait in whole seconds rounded up, and must not be stored by a cache."""
        answers = [self.app.post("/api/login") for _ in range(6)]
        self.assertEqual([a.status for a in answers], [200] * 5 + [429])
        self.assertEqual([a.headers["X-RateLimit-Remaining"] for a in answers], ["4", "3", "2", "1", "0", "0"])
        first, last = answers[0], answers[-1]
        self.assertEqual(first.headers["RateLimit-Policy"], '"login";q=5;w=60')
        self.assertRegex(first.headers["RateLimit"], r'^"login";r=4;t=60$')
        self.assertNotIn("Retry-After", first.headers)
        body = json.loads(last.body)
        wait_ms = body["limits"][0]["wait_ms"]
        self.assertTrue(0 < wait_ms <= 60_000)
        self.assertEqual(last.headers["Retry-After"], str(-(-wait_ms // 1000)))
        self.assertEqual(last.headers["Cache-Control"], "no-store")
        self.assertEqual(last.headers["Content-Type"], "application/problem+json")
        self.assertEqual(last.headers["X-RateLimit-Limit"], "5")
        reset = int(last.headers["X-RateLimit-Reset"])
        self.assertTrue(time.time() < reset <= time.time() + 61)
        self.assertEqual(body["violated-policies"], ["login"])
        self.assertTrue(body["type"].endswith("#quota-exceeded"))
        self.assertIn("5 in a window of 1m", body["detail"])
        self.assertIn("not charged", body["detail"])

    def test_retry_after_keeps_its_word(self):
        """Whoever comes back after Retry-After is admitted, for each algorithm: seconds are rounded up, never down."""
        rules = {"login": "FIXED 2 1500ms", "scan": "SLIDING 2 1500ms", "default": "SLIDING 2 1500ms BUCKETS 5",
                 "report": "TOKEN 2 1 900ms"}
        self.app.change_rules(**rules)
        waits = {}
        for name in rules:
            statuses = []
            while 429 not in statuses:
                answer = self.of_route(name)
                statuses.append(answer.status)
                self.assertLess(len(statuses), 10)
            waits[name] = time.monotonic() + int(answer.headers["Retry-After"])
        for name, rule in rules.items():
            with self.subTest(rule):
                time.sleep(max(0, waits[name] - time.monotonic()))
                self.assertEqual(self.of_route(name).status, 404 if name == "default" else 200)

    def of_route(self, name):
        if name == "login":
            return self.app.post("/api/login")
        return self.app.get("/nothing" if name == "default" else f"/api/{name}", ANN)

    def test_a_window_of_parts_of_a_second_is_not_called_a_second(self):
        """RateLimit-Policy knows whole seconds only; a window that is none is left out instead of rounded."""
        self.app.change_rules(scan="SLIDING 2 1500ms", report="TOKEN 5 2 1s")
        self.assertEqual(self.app.get("/api/scan").headers["RateLimit-Policy"], '"scan";q=2')
        self.assertEqual(self.app.get("/api/report").headers["RateLimit-Policy"], '"report";q=5;w=3')

    def test_all_or_nothing(self):
        """With several limits a refusal of one leaves the others uncharged, and is the one that is named."""
        self.app.change_rules(**{"export-all": "FIXED 2 1h"})
        answers = [self.app.get("/api/export", ANN) for _ in range(3)]
        self.assertEqual([a.status for a in answers], [200, 200, 429])
        self.assertEqual(json.loads(answers[2].body)["violated-policies"], ["export-all"])
        self.assertEqual(answers[2].headers["RateLimit-Policy"],
                         '"export";q=5;w=5, "export-day";q=1000;w=86400, "export-all";q=2;w=3600')
        self.assertEqual(answers[2].headers["X-RateLimit-Limit"], "2", "the trio speaks of the tightest limit")
        self.assertEqual(sum(int(n) for n in self.server.db.hvals("app:{account:ann}:export-day")), 2)
        self.assertEqual(self.app.get("/api/export", BOB).status, 429, "the limit of everyone is everyone's")
        self.assertFalse(self.server.db.exists("app:{account:bob}:export-day"))

    def test_no_wait_helps(self):
        """Where no wait helps there is no Retry-After, and no 429 that would invite to come again."""
        answer = self.app.post("/api/upload?items=101")
        self.assertEqual(answer.status, 422)
        self.assertNotIn("Retry-After", answer.headers)
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        self.assertEqual(json.loads(answer.body)["limits"][0]["wait_ms"], -1)
        self.app.change_rules(upload="TOKEN 0 10 1s")
        answer = self.app.post("/api/upload?items=1")
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (403, None))

    def test_cost(self):
        """A request is charged what it costs, and a cost that is no number is refused before it reaches Redis."""
        self.assertEqual(self.app.post("/api/upload?items=60").headers["X-RateLimit-Limit"], "100")
        answer = self.app.post("/api/upload?items=60")
        self.assertEqual(answer.status, 429)
        self.assertIn("costs 60", json.loads(answer.body)["detail"])
        for text in ("0", "-1", "1e3", "x", "1000000", "%D9%A1"):
            self.assertEqual(self.app.post("/api/upload?items=" + text).status, 400, text)

    def test_each_caller_has_a_budget_of_its_own(self):
        """Known keys are accounts; a key that was made up is no new budget; nobody's header moves a caller."""
        self.app.change_rules(scan="SLIDING 1 1m")
        self.assertEqual([self.app.get("/api/scan", who).status for who in (ANN, BOB, {}, ANN)], [200, 200, 200, 429])
        self.assertEqual(self.app.get("/api/scan", {"X-API-Key": "made up"}).status, 429)
        self.assertEqual(self.app.get("/api/scan", {"X-Forwarded-For": "203.0.113.9"}).status, 429,
                         "without a trusted proxy X-Forwarded-For is not read")
        self.assertNotIn("key-of-ann", "".join(self.server.db.keys("*")), "keys of Redis carry no secret")

    def test_what_matches_no_route_is_limited_too(self):
        """Guessing paths is not free: the default limit applies."""
        self.app.change_rules(default="SLIDING 2 1m")
        self.assertEqual([self.app.get("/nothing").status for _ in range(3)], [404, 404, 429])


class BehindProxy(Case):
    environment = {"TRUSTED_PROXIES": "127.0.0.0/8 10.0.0.0/8"}

    def test_the_caller_is_the_last_address_that_is_not_ours(self):
        """What callers write into X-Forwarded-For themselves stands on the left and counts for nothing."""
        for given, key in (("203.0.113.9", "203.0.113.9"), ("1.1.1.1, 203.0.113.8", "203.0.113.8"),
                           ("203.0.113.7, 10.1.2.3", "203.0.113.7"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
                           ("::ffff:203.0.113.6", "203.0.113.6"), ("nonsense", "127.0.0.1"), ("", "127.0.0.1")):
            with self.subTest(given):
                self.server.db.flushall()
                self.app.get("/api/scan", {"X-Forwarded-For": given})
                self.assertEqual(self.server.db.keys("*"), [f"app:{{address:{key}}}:scan"])


class Faults(Case):
    def shut(self, path="/api/scan", headers=ANN):
        answer = self.app.get(path, headers)
        self.assertEqual(answer.status, 503, answer.body)
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        self.assertNotIn("RateLimit", answer.headers, "what is not known is not said")
        return answer

    def test_errors_never_open_a_route(self):
        """WRONGTYPE and ERR shut even a route whose policy is open, and count as faults, not as blind admissions."""
        before = self.app.counters()
        self.server.db.lpush("app:{account:ann}:scan", "x")
        self.assertNotIn(b"WRONGTYPE", self.shut().body)
        self.server.db.delete("app:{account:ann}:scan")
        self.server.db.zadd("app:{account:ann}:scan", {"not a log": 1})
        self.shut()
        self.assertEqual(self.app.get("/api/scan", BOB).status, 200, "others are served")
        after = self.app.counters()
        self.assertEqual(after["errors_fault"] - before["errors_fault"], 2)
        self.assertEqual(after["blind_admitted"], before["blind_admitted"])

    def test_missing_permission_never_opens_a_route(self):
        """NOPERM shuts an open route, and so does a wrong password."""
        db = self.server.db
        try:
            db.execute_command("ACL", "SETUSER", "default", "-rl.sliding")
            self.shut()
            db.execute_command("ACL", "SETUSER", "default", "+rl.sliding", "resetpass", ">secret")
            redis_with_password = redis.Redis(port=self.server.port, password="secret", decode_responses=True)
            redis_with_password.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            self.shut()
        finally:
            db = redis.Redis(port=self.server.port, password="secret")
            try:
                db.execute_command("ACL", "SETUSER", "default", "nopass", "+@all", "+rl.sliding")
            except redis.RedisError:
                self.server.db.execute_command("ACL", "SETUSER", "default", "nopass", "+@all", "+rl.sliding")
            self.server.db.close()
        self.assertEqual(self.app.get("/api/scan", ANN).status, 200)

    def test_a_server_without_the_module_never_opens_a_route(self):
        """After a restart that forgot loadmodule every decision is ERR: open routes are shut, and open again after it."""
        self.server.kill()
        self.server.start(module=False)
        try:
            until(lambda: self.app.get("/api/scan", ANN).status == 503, what="an ERR that shuts")
        finally:
            self.server.kill()
            self.server.start()
        until(lambda: self.app.get("/api/scan", ANN).status == 200, what="recovery")


class Outage(Case):
    # Elsewhere time-outs are no subject, and a slow machine must not cause any.
    environment = {"REDIS_TIMEOUT_MS": str(TIMEOUT_MS)}

    def setUp(self):
        super().setUp()
        if self.server.process.poll() is not None:
            self.server.start()
        # No worker is still in its pause from the test before.
        until(lambda: all(a.status == 200 for a in self.many(16, lambda: self.app.get("/rate-limit-status", ADMIN))),
              what="every worker reaches Redis")

    def test_killed_under_load(self):
        """SIGKILL in the middle of the load: open answers in time, closed says 503, both recover by themselves."""
        self.app.change_rules(scan="SLIDING 100000 1m", export="TOKEN 100000 1000 1s", **{
            "export-day": "SLIDING 100000 1d BUCKETS 96", "export-all": "FIXED 100000 1h"})
        before = self.app.counters()
        seen, stop = [], threading.Event()

        def load(path, name):
            while not stop.is_set():
                answer = self.app.get(path, ANN)
                seen.append((time.monotonic(), name, answer.status, answer.took))

        threads = [threading.Thread(target=load, args=route) for route in
                   [("/api/scan", "open"), ("/api/export", "closed")] * 2]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(seen) > 100, 60, "load")
            self.server.kill()
            killed, mark = time.monotonic(), len(seen)
            until(lambda: len(seen) > mark + 200 and time.monotonic() > killed + 1.5, 60, "load during the outage")
            back, mark = time.monotonic(), len(seen)
            self.server.start()
            started = time.monotonic()
            until(lambda: len([s for s in seen[-40:] if s[2] == 200 and s[0] > started + 0.2]) == 40, 30,
                  "40 admissions in a row, of both routes")
            recovered = time.monotonic()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        # Requests that were on their way at the kill may have been decided before it.
        during = [s for s in seen if killed + 0.1 + s[3] < s[0] < back]
        opened = [s for s in during if s[1] == "open"]
        closed = [s for s in during if s[1] == "closed"]
        after = self.app.counters()
        print(f"\n  killed under load: open {Counter(s[2] for s in opened)}, slowest {max(s[3] for s in opened) * 1000:.0f} ms; "
              f"closed {Counter(s[2] for s in closed)}; blind {after['blind_admitted'] - before['blind_admitted']}; "
              f"attempts at Redis that failed {sum(after[k] - before[k] for k in ('errors_timeout', 'errors_connection', 'errors_state'))}; "
              f"back {recovered - started:.1f} s after the server", file=sys.stderr)
        self.assertTrue(opened and closed)
        self.assertEqual({s[2] for s in opened}, {200})
        self.assertEqual({s[2] for s in closed}, {503})
        self.assertGreaterEqual(after["blind_admitted"] - before["blind_admitted"], len(opened))
        self.assertEqual({s[1] for s in seen[-40:]}, {"open", "closed"})

    def test_no_storm(self):
        """While Redis is away a process tries it about twice a second, however many requests there are."""
        before = self.app.counters()
        self.server.kill()
        started = time.monotonic()
        self.many(300, lambda: self.app.post("/api/login"))
        # 4 processes with 4 threads each may all be on their way when it happens; then one try per 0.4 s and process.
        most = 16 + 4 * ((time.monotonic() - started) / 0.4 + 1)
        self.server.start()
        until(lambda: self.app.get("/rate-limit-status", ADMIN).status == 200)
        after = self.app.counters()
        tries = sum(after[k] - before[k] for k in ("errors_timeout", "errors_connection"))
        self.assertLessEqual(tries, most)
        self.assertGreaterEqual(after["pauses"] - before["pauses"], 300 - most)

    def test_a_server_that_hangs(self):
        """A stopped server takes connections and says nothing: only the time-out helps, and the open route keeps it."""
        self.app.change_rules(scan="SLIDING 100000 1m")
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            answers = self.many(100, lambda: self.app.get("/api/scan", ANN), threads=4)
            self.assertEqual({a.status for a in answers}, {200})
            slow = sorted(a.took for a in answers)
            print(f"\n  hanging server: median {slow[50] * 1000:.0f} ms, slowest {slow[-1] * 1000:.0f} ms with a "
                  f"time-out of {TIMEOUT_MS} ms", file=sys.stderr)
            self.assertEqual(self.app.get("/api/export", ANN).status, 503)
            # Connecting and asking each have the time-out; the rest is what a busy machine may add.
            self.assertLess(slow[-1], 2 * TIMEOUT_MS / 1000 + 2)
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        until(lambda: self.app.get("/api/export", ANN).status == 200, what="recovery")

    def test_the_emergency_limit(self):
        """Without Redis an open route admits at most the budget in all, split among the processes, and counts it."""
        self.app.change_rules(scan="FIXED 40 1h")
        before = self.app.counters()
        self.server.kill()
        answers = self.many(400, lambda: self.app.get("/api/scan", BOB))
        admitted = [a for a in answers if a.status == 200]
        refused = [a for a in answers if a.status != 200]
        self.assertLessEqual(len(admitted), 40)
        self.assertGreaterEqual(len(admitted), 10, "one process alone has a quarter")
        self.assertEqual({a.status for a in refused}, {503})
        self.assertTrue(all(int(a.headers["Retry-After"]) > 3000 for a in refused))
        self.assertNotIn("RateLimit", admitted[0].headers, "nobody knows what is left")
        self.server.start()
        until(lambda: self.app.get("/rate-limit-status", ADMIN).status == 200)
        after = self.app.counters()
        self.assertEqual(after["blind_admitted"] - before["blind_admitted"], len(admitted))
        self.assertEqual(after["blind_refused"] - before["blind_refused"], len(refused))

    def test_a_replica_is_an_outage_and_no_fault(self):
        """A read-only replica cannot decide now: the open route goes on, the closed one says 503."""
        self.server.db.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        try:
            before = self.app.counters()
            self.assertEqual(self.app.get("/api/scan").status, 200)
            self.assertEqual(self.app.get("/api/export", ANN).status, 503)
            after = self.app.counters()
            self.assertGreaterEqual(after["errors_state"] - before["errors_state"], 1)
            self.assertEqual(after["errors_fault"], before["errors_fault"])
        finally:
            self.server.db.execute_command("REPLICAOF", "NO", "ONE")


class Batches(WithServer):
    key = "app:{account:ann}:feed"

    def fresh(self, **environment):
        """Workers that hold nothing."""
        (self.folder / "rules.json").unlink(missing_ok=True)
        self.app = Application(self.folder, self.server, **environment)
        self.addCleanup(self.app.stop)
        self.server.db.flushall()

    def feed(self):
        return self.app.get("/api/feed", ANN)

    def used(self):
        return int(self.server.db.get(self.key) or 0)

    def test_two_thousand_requests(self):
        """Four workers, budget 500, 2000 requests: exactly 500 pass; the server's own count of calls is shown."""
        for hold in ("100", "0"):
            with self.subTest(hold=hold):
                self.fresh(HOLD_REFUSALS_MS=hold)
                self.app.change_rules(feed="FIXED 500 1h")
                self.server.db.config_resetstat()
                answers = self.many(2000, self.feed)
                counts = Counter(a.status for a in answers)
                workers = Counter(json.loads(a.body)["worker"] for a in answers if a.status == 200)
                sums = self.app.counters()
                calls = self.server.calls("rl.fixed") or self.server.calls("RL.FIXED")
                print(f"\n  2000 requests, budget 500, refusals held {hold} ms: {dict(counts)}, by worker "
                      f"{sorted(workers.values())}; {calls} calls of RL.FIXED ({sums['round_trips']} round trips), "
                      f"{sums['batch_held_refusals']} refusals without one", file=sys.stderr)
                self.assertEqual(counts, {200: 500, 429: 1500})
                self.assertEqual(len(workers), 4, "all four workers admitted some")
                self.assertEqual(sums["batch_fetched"], 500)
                self.assertEqual(sums["batch_spent"], 500)
                self.app.stop()
                self.assertLess(calls - sums["refused"] + sums["batch_held_refusals"], 150, "few fetches for 500 admissions")

    def test_a_batch_ends_with_its_window(self):
        """Units of a window that has ended are not spent in the next one, which admits its own budget and no more."""
        self.fresh()
        self.app.change_rules(feed="FIXED 100 15s")
        self.many(12, self.feed, 4)
        self.assertGreater(self.used(), 12, "units in hand")
        until(lambda: not self.server.db.exists(self.key), 20, "the window's end")
        counts = Counter(a.status for a in self.many(250, self.feed))
        self.assertEqual(self.used(), 100, "this load fits into one window")
        self.assertEqual(counts, {200: 100, 429: 150})
        sums = self.app.counters()
        self.assertGreater(sums["batch_lapsed"], 0)
        self.assertEqual(sums["batch_spent"] + sums["batch_lapsed"], sums["batch_fetched"])

    def test_unspent_units_go_back(self):
        """After a clean shutdown the server has exactly what was spent on its books."""
        self.fresh()
        admitted = sum(a.status == 200 for a in self.many(30, self.feed))
        self.assertEqual(admitted, 30)
        self.assertGreater(self.used(), 30, "batches are fetched in advance")
        self.app.stop()
        self.assertEqual(self.used(), 30)

    def test_units_never_go_back_to_another_window(self):
        """After DEL units of the old window must not be given back to the new one: it would admit more than its limit."""
        self.fresh()
        self.many(8, self.feed)
        self.server.db.delete(self.key)
        self.assertEqual(self.server.db.execute_command("RL.FIXED", self.key, 500, "1m", "COST", 100)[0], 1)
        self.app.stop()
        self.assertEqual(self.used(), 100)

    def test_a_lowered_limit_and_del_take_effect_at_the_next_fetch(self):
        """What is in hand may still be spent; the next fetch asks under the new limit, and finds a key deleted."""
        self.fresh()
        self.many(40, self.feed)
        booked = self.used()
        self.app.change_rules(feed="FIXED 10 1m")
        counts = Counter(a.status for a in self.many(500, self.feed))
        self.assertEqual(counts[200], booked - 40, "the units in hand and no others")
        self.assertEqual(self.used(), booked)
        self.server.db.delete(self.key)
        until(lambda: self.feed().status == 200, 5, "DEL opens the limit within the hold")
        self.assertLessEqual(self.used(), 10)

    def test_headers_of_a_spent_unit(self):
        """A unit spent without a round trip has the same headers as any other decision."""
        self.fresh()
        answers = [self.feed() for _ in range(12)]
        for answer in answers:
            self.assertEqual(answer.headers["RateLimit-Policy"], '"feed";q=500;w=60')
            self.assertRegex(answer.headers["RateLimit"], r'^"feed";r=[0-9]+;t=(60|59|58|57|56|55|54|5[0-3]|[34][0-9])$')


class Permissions(WithServer):
    def test_the_user_of_the_readme(self):
        """The permissions that the README names are enough for every route, the page and the refund on shutdown."""
        words = re.search(r"`ACL SETUSER web on ([^`]*)`", (HERE / "README.md").read_text())[1].split()
        self.server.db.execute_command("ACL", "SETUSER", "web", "on", *words)
        app = Application(self.folder, self.server, REDIS_URL=f"redis://web:secret@127.0.0.1:{self.server.port}")
        self.addCleanup(app.stop)
        for route in ("/api/scan", "/api/report", "/api/export", "/api/feed", "/rate-limit-status"):
            self.assertEqual(app.get(route, ADMIN | ANN).status, 200, route)
        for route in ("/api/login", "/api/upload"):
            self.assertEqual(app.post(route).status, 200, route)
        app.stop()
        self.assertEqual(self.server.db.get("app:{account:ann}:feed"), "1")


class Status(Case):
    def test_peeking_spends_nothing(self):
        """Looking a hundred times changes no key and no expiry that a caller could notice."""
        self.app.change_rules(scan="FIXED 3 1h")
        self.app.get("/api/scan", ANN)
        end = self.server.db.execute_command("PEXPIRETIME", "app:{account:ann}:scan")
        for _ in range(100):
            report = json.loads(self.app.get("/rate-limit-status?identity=account:ann", ADMIN).body)
        row = next(row for row in report["limits"] if row["limit"] == "scan")
        self.assertEqual((row["budget"], row["remaining"], row["next_allowed"], row["wait_ms"]), (3, 2, True, 0))
        self.assertEqual(self.server.db.keys("*"), ["app:{account:ann}:scan"], "peeking creates nothing")
        self.assertEqual(self.server.db.execute_command("PEXPIRETIME", "app:{account:ann}:scan"), end)
        self.app.get("/api/scan", ANN), self.app.get("/api/scan", ANN)
        report = json.loads(self.app.get("/rate-limit-status", ADMIN).body)
        self.assertEqual([(r["identity"], r["limit"], r["next_allowed"]) for r in report["limits"]],
                         [("account:ann", "scan", False)])
        self.assertGreater(report["limits"][0]["wait_ms"], 3_000_000)

    def test_for_administrators_only(self):
        """Without the token there is neither the page nor the numbers."""
        for path in ("/rate-limit-status", "/metrics"):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic " + base64.b64encode(b"a:b").decode()}):
                answer = self.app.get(path, headers)
                self.assertEqual(answer.status, 401)
                self.assertNotIn(b"blind", answer.body)

    def test_page(self):
        """A browser gets a page, after the browser's own question for a password, and names in it are escaped."""
        headers = {"Accept": "text/html", "Authorization": "Basic " + base64.b64encode(b"admin:secret").decode()}
        self.app.get("/api/scan", ANN)
        page = self.app.get("/rate-limit-status", headers)
        self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn(b"account:ann", page.body)
        self.assertIn(b"99 of 100", page.body)
        page = self.app.get("/rate-limit-status?identity=%3Cscript%3E", headers)
        self.assertNotIn(b"<script>", page.body)
        self.assertIn(b"&lt;script&gt;", page.body)

    def test_metrics(self):
        """The numbers are the sums of all processes, in the form that Prometheus reads."""
        def read():
            lines = self.app.get("/metrics", ADMIN).body.decode().splitlines()
            return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line[0] != "#"}
        before = read()
        self.many(40, lambda: self.app.get("/api/scan", ANN))
        after = read()
        self.assertEqual(after["app_ratelimit_allowed_total"] - before["app_ratelimit_allowed_total"], 40)
        count = "app_ratelimit_decision_seconds_count"
        self.assertEqual(after[count] - before[count], 40)
        self.assertEqual(after['app_ratelimit_decision_seconds_bucket{le="+Inf"}'], after[count])
        self.assertGreater(after["app_ratelimit_decision_seconds_sum"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
