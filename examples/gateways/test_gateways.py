"""Tests of the gateways as their callers see them: real nginx and Envoy, a real Redis with the module, TCP."""

import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from redis_server import RedisServer, free_port, until  # noqa: E402

# Where nginx and its Lua module are: `/`, or a folder into which their packages were unpacked.
ROOT = Path(os.environ["NGINX_ROOT"])
# The program envoy; empty where it cannot be had.
ENVOY = os.environ.get("ENVOY", "")
ANN, BOB = {"X-API-Key": "key-of-ann"}, {"X-API-Key": "key-of-bob"}


def installed(path):
    """A file of one of nginx' packages."""
    for root in (ROOT, Path("/")):
        if (root / path).exists():
            return root / path
    raise AssertionError(f"{path} is neither in {ROOT} nor in /")


def listens(process, port, log):
    if process.poll() is not None:
        raise AssertionError("it ended: " + log.read_text()[-2000:])
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


class Redis(RedisServer):
    """On a socket of the file system as well, for whoever runs the gateway."""

    def __init__(self, folder):
        super().__init__(folder, "--unixsocket", "redis.sock", "--unixsocketperm", "777")

    def connections(self):
        return int(self.say("INFO stats").split("total_connections_received:")[1].split()[0])


class Application(http.server.ThreadingHTTPServer):
    """What stands behind the gateway: counts its requests, and speaks of limits of its own."""

    def __init__(self):
        outer = self
        self.served = 0
        counting = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with counting:
                    outer.served += 1
                self.send_response(200)
                self.send_header("X-RateLimit-Limit", "the application's own")
                self.send_header("Content-Length", "3")
                self.end_headers()
                self.wfile.write(b"ok\n")

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Gateway:
    def __init__(self, folder, redis_port, application_port, settings):
        self.folder = folder
        self.port, self.asked_port = free_port(), free_port()
        conf = (HERE / "nginx.conf").read_text()
        for shown, own in (("6379", redis_port), ("8080", self.port), ("8081", self.asked_port), ("9000", application_port)):
            assert conf.count(shown), shown
            conf = conf.replace(shown, str(own))
        conf = conf.replace("/usr/lib/nginx/modules", str(installed("usr/lib/nginx/modules/ngx_http_lua_module.so").parent))
        conf = conf.replace(f"limits.port = {redis_port}", f"limits.port = {redis_port} {settings}")
        # Where an unpacked nginx would look for its folders, there are none.
        places = "".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(conf.replace("http {", "http {\n" + places))
        self.application_port = application_port
        shutil.copy(HERE / "limits.lua", folder)
        (folder / "logs").mkdir()
        libraries = [str(path) for path in ROOT.glob("**/lib/*-linux-gnu")]
        lua = installed("usr/share/lua/5.1/resty/core.lua").parent.parent
        self.environment = {**os.environ, "LUA_PATH": f"{lua}/?.lua;;", "LD_LIBRARY_PATH": ":".join(libraries)}
        self.log = folder / "nginx.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([installed("usr/sbin/nginx"), "-p", folder, "-c", "nginx.conf", "-e", "stderr"],
                                            env=self.environment, stdout=log, stderr=log)
        until(lambda: listens(self.process, self.port, self.log), what="nginx listens")

    def get(self, path="/", headers=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            answer.body = answer.read()
            return answer
        finally:
            connection.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


class Case(unittest.TestCase):
    # Where time-outs are no subject a slow machine must not cause any.
    settings = "limits.connect_ms, limits.answer_ms = 5000, 5000"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="nginx-limits-")
        cls.addClassCleanup(folder.cleanup)
        # nginx' workers are nobody in particular, and read limits.lua.
        os.chmod(folder.name, 0o755)
        cls.folder = Path(folder.name)
        cls.server = Redis(cls.folder)
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()
        cls.application = Application()
        cls.addClassCleanup(cls.application.server_close)
        cls.addClassCleanup(cls.application.shutdown)
        cls.gate = Gateway(cls.folder, cls.server.port, cls.application.server_port, cls.settings.format(folder=folder.name))
        cls.addClassCleanup(cls.gate.stop)

    def setUp(self):
        if self.server.process.poll() is not None:
            self.server.start()
        # No worker is still in its pause from the test before.
        until(self.every_worker_decides, what="every worker reaches Redis")
        self.server.say("FLUSHALL")
        self.application.served = 0

    def every_worker_decides(self):
        self.server.say("FLUSHALL")
        answers = self.many(10, lambda _: self.gate.get("/", ANN))
        return all(a.status == 200 and a.headers["RateLimit"] for a in answers)

    def many(self, count, request, threads=16):
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(request, range(count)))


class Decisions(Case):
    def test_a_burst_and_then_a_refusal(self):
        """Ten pass with the numbers of the decision; then a 429 names the wait, and who keeps it is admitted."""
        answers = [self.gate.get("/", ANN) for _ in range(10)]
        self.assertEqual([a.status for a in answers], [200] * 10)
        first = answers[0]
        self.assertEqual(first.headers["RateLimit-Policy"], '"api";q=10;w=10')
        self.assertEqual(first.headers["RateLimit"], '"api";r=9;t=1')
        self.assertEqual(first.headers.get_all("X-RateLimit-Limit"), ["10"], "the application's own is not told")
        self.assertNotIn("Retry-After", first.headers)
        self.assertEqual(first.body, b"ok\n")
        refused = next(a for a in (self.gate.get("/", ANN) for _ in range(1000)) if a.status != 200)
        self.assertEqual(refused.status, 429)
        self.assertEqual(refused.headers["Retry-After"], "1")
        self.assertEqual(refused.headers["Cache-Control"], "no-store")
        self.assertEqual(refused.headers["Content-Type"], "application/problem+json")
        self.assertEqual(refused.headers["X-RateLimit-Remaining"], "0")
        self.assertTrue(time.time() < int(refused.headers["X-RateLimit-Reset"]) <= time.time() + 12)
        body = json.loads(refused.body)
        self.assertEqual((body["status"], body["violated-policies"]), (429, ["api"]))
        self.assertTrue(body["type"].endswith("#quota-exceeded"))
        self.assertEqual(self.gate.get("/", BOB).status, 200, "another caller has a budget of its own")
        time.sleep(1)
        self.assertEqual(self.gate.get("/", ANN).status, 200)

    def test_a_window(self):
        """The route with another limit: five logins a minute, and a refused request does not reach the application."""
        answers = [self.gate.get("/login") for _ in range(6)]
        self.assertEqual([a.status for a in answers], [200] * 5 + [429])
        self.assertEqual(answers[0].headers["RateLimit-Policy"], '"login";q=5;w=60')
        self.assertTrue(1 <= int(answers[5].headers["Retry-After"]) <= 60)
        self.assertEqual(self.application.served, 5)

    def test_two_workers_share_a_budget(self):
        """However many requests at once, and whichever worker takes them: five pass."""
        answers = self.many(200, lambda _: self.gate.get("/login"))
        self.assertEqual(Counter(a.status for a in answers), {200: 5, 429: 195})

    def test_connections_are_kept(self):
        """A request does not cost a connection to Redis: no more are made than there are callers at once in each worker."""
        before = self.server.connections()
        self.many(400, lambda _: self.gate.get("/", ANN), threads=4)
        self.assertLessEqual(self.server.connections() - before - 1, 2 * 4)

    def test_each_caller_has_a_budget(self):
        """A known key is an account. One that nobody issued is no identity, or each request could bring a new one."""
        self.gate.get("/", ANN)
        self.gate.get("/", {"X-API-Key": "made up"})
        self.gate.get("/", {"X-API-Key": "made up too", "X-Forwarded-For": "203.0.113.9"})
        self.assertEqual(self.server.say("EXISTS gate:{account:ann}:api gate:{address:127.0.0.1}:api"), ":2")
        self.assertEqual(self.server.say("DBSIZE"), ":2")

    def test_as_an_authority_for_other_gateways(self):
        """Whoever asks over HTTP is told 200 or 429, for the caller that it names."""
        ask = lambda address: self.gate.get("/any/path", {"X-Caller-Address": address}, self.gate.asked_port)
        statuses = [ask("203.0.113.7").status for _ in range(40)]
        self.assertEqual(statuses[:10], [200] * 10)
        self.assertIn(429, statuses)
        self.assertEqual(ask("203.0.113.8").status, 200)
        self.assertEqual([ask("2001:db8:1:2::7").status for _ in range(11)][:10], [200] * 10)
        self.assertEqual(self.server.say("EXISTS gate:{net:20010db800010002}:api"), ":1", "a /64 is one caller")
        self.assertEqual(self.application.served, 0)


class AsAUser(Case):
    settings = Case.settings + '; limits.host, limits.user, limits.password = "unix:{folder}/redis.sock", "gate", "secret"'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = re.search(r"`(ACL SETUSER gate on [^`]*)`", (HERE / "README.md").read_text())[1]
        assert cls.server.say(words) == "+OK", words

    def test_the_user_of_the_readme(self):
        """The permissions that the README names are enough, and a connection that has said who it is once is kept."""
        before = self.server.connections()
        answers = [self.gate.get("/login", ANN) for _ in range(5)] + [self.gate.get("/", ANN)]
        self.assertEqual([a.status for a in answers], [200] * 6)
        self.assertEqual(answers[-1].headers["RateLimit"], '"api";r=9;t=1')
        self.assertLessEqual(self.server.connections() - before - 1, 2)
        self.server.say("ACL SETUSER gate >changed <secret")
        self.server.say("CLIENT KILL USER gate")
        until(lambda: self.gate.get("/", ANN).status == 503, what="a wrong password shuts the open route")


class Faults(Case):
    def shut(self, headers=ANN):
        answer = self.gate.get("/", headers)
        self.assertEqual(answer.status, 503, answer.body)
        self.assertEqual((answer.headers["Cache-Control"], answer.headers["Retry-After"]), ("no-store", "1"))
        self.assertNotIn("RateLimit", answer.headers, "what is not known is not said")
        self.assertEqual(json.loads(answer.body)["status"], 503)
        return answer

    def test_errors_never_open_a_route(self):
        """WRONGTYPE, ERR and NOPERM shut even the route whose policy is open, for those whom they meet."""
        self.server.say("LPUSH gate:{account:ann}:api x")
        self.assertNotIn(b"WRONGTYPE", self.shut().body)
        self.assertEqual(self.gate.get("/", BOB).status, 200, "others are served")
        self.server.say("DEL gate:{account:ann}:api")
        self.server.say("HSET gate:{account:ann}:api tokens none")
        self.shut()
        self.server.say("ACL SETUSER default -rl.token")
        try:
            self.shut(BOB)
        finally:
            self.server.say("ACL SETUSER default +@all +rl.token")
        self.assertEqual(self.gate.get("/", BOB).status, 200)
        self.assertEqual(self.application.served, 2)

    def test_a_wrong_password_never_opens_a_route(self):
        """Whoever is not let in by Redis lets nobody in; afterwards all is as before."""
        self.server.say("ACL SETUSER default resetpass >secret")
        try:
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(b"AUTH default secret\r\nCLIENT KILL TYPE normal SKIPME yes\r\n")
                until(lambda: connection.recv(100).count(b"\r\n"))
            self.shut()
        finally:
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(b"AUTH default secret\r\nACL SETUSER default nopass\r\n")
                until(lambda: connection.recv(100).count(b"\r\n"))
        until(lambda: self.gate.get("/", ANN).status == 200, what="recovery")

    def test_a_server_without_the_module_never_opens_a_route(self):
        """After a restart that forgot loadmodule every decision is ERR: the open route is shut till it is back."""
        self.server.kill()
        self.server.start(module=False)
        try:
            until(lambda: self.gate.get("/", ANN).status == 503, what="an ERR that shuts")
        finally:
            self.server.kill()
            self.server.start()
        until(lambda: self.gate.get("/", ANN).headers["RateLimit"], what="recovery")


class Outage(Case):
    settings = ""

    def test_killed(self):
        """SIGKILL: the open route goes on and says no numbers, the closed one says 503, and both recover by themselves."""
        until(lambda: self.gate.get("/login").status == 200, what="a decision")
        self.server.kill()
        self.application.served = 0
        answers = self.many(100, lambda _: self.gate.get("/", ANN))
        self.assertEqual({(a.status, a.headers["RateLimit-Policy"], a.headers["RateLimit"]) for a in answers},
                         {(200, '"api";q=10;w=10', None)})
        answers = self.many(100, lambda _: self.gate.get("/login"))
        self.assertEqual({(a.status, a.headers["Retry-After"]) for a in answers}, {(503, "1")})
        self.assertEqual(self.application.served, 100)
        self.assertIn("let through", self.gate.log.read_text(), "what was let through is written down")
        self.server.start()
        until(lambda: self.gate.get("/login").status == 200, what="recovery of the closed route")
        until(lambda: self.gate.get("/", ANN).headers["RateLimit"], what="recovery of the open route")

    def test_a_server_that_hangs(self):
        """A stopped server takes connections and says nothing. When it goes on, its late answers are nobody's."""
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            answers = self.many(20, lambda _: self.gate.get("/", ANN))
            self.assertEqual({a.status for a in answers}, {200})
            self.assertEqual({self.gate.get("/login").status for _ in range(4)}, {503})
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        until(lambda: self.gate.get("/login").status == 200, what="recovery")
        until(lambda: self.gate.get("/", BOB).headers["RateLimit"], what="recovery")
        for _ in range(20):
            self.assertIn(self.gate.get("/login").headers["X-RateLimit-Limit"], ("5", None))
            self.assertIn(self.gate.get("/", BOB).headers["X-RateLimit-Limit"], ("10", None))

    def test_a_replica_is_an_outage_and_no_fault(self):
        """A read-only replica cannot decide now: the open route goes on, the closed one says 503."""
        self.server.say(f"REPLICAOF 127.0.0.1 {free_port()}")
        try:
            self.assertEqual((self.gate.get("/").status, self.gate.get("/login").status), (200, 503))
        finally:
            self.server.say("REPLICAOF NO ONE")


@unittest.skipUnless(ENVOY, "there is no envoy")
class Envoy(Case):
    def setUp(self):
        super().setUp()
        conf = (HERE / "envoy.yaml").read_text()
        self.port = free_port()
        for shown, own in (("8082", self.port), ("8081", self.gate.asked_port), ("9000", self.gate.application_port)):
            assert conf.count(shown), shown
            conf = conf.replace(shown, str(own))
        # How long Envoy waits is no subject here, and a slow machine must not make it one.
        conf = conf.replace("timeout: 0.5s", "timeout: 10s").replace("connect_timeout: 0.1s", "connect_timeout: 10s")
        file, log = self.folder / "envoy.yaml", self.folder / "envoy.log"
        file.write_text(conf)
        with open(log, "wb") as out:
            self.envoy = subprocess.Popen([ENVOY, "-c", file, "--concurrency", "2", "--use-dynamic-base-id"],
                                          stdout=out, stderr=out)
        self.addCleanup(self.stop)
        until(lambda: listens(self.envoy, self.port, log), 60, "envoy listens")

    def stop(self):
        self.envoy.terminate()
        try:
            self.envoy.wait(20)
        except subprocess.TimeoutExpired:
            self.envoy.kill()
            self.envoy.wait()

    def get(self, headers=None):
        return self.gate.get("/any/path", headers, self.port)

    def test_envoy_asks(self):
        """Envoy tells its callers what the authority says, about the caller that Envoy itself sees; nobody else's word counts."""
        first = self.get(ANN)
        self.assertEqual((first.status, first.body), (200, b"ok\n"))
        self.assertEqual((first.headers["RateLimit"], first.headers["RateLimit-Policy"]), ('"api";r=9;t=1', '"api";q=10;w=10'))
        refused = next(a for a in (self.get(ANN) for _ in range(1000)) if a.status != 200)
        self.assertEqual((refused.status, refused.headers["Retry-After"]), (429, "1"))
        self.assertEqual((refused.headers["Cache-Control"], refused.headers["Content-Type"]),
                         ("no-store", "application/problem+json"))
        self.assertEqual(json.loads(refused.body)["violated-policies"], ["api"])
        self.server.say("FLUSHALL")
        for number in range(3):
            self.get({"X-Forwarded-For": f"203.0.113.{number}", "X-Caller-Address": f"203.0.113.{number}"})
        self.assertEqual(self.server.say("EXISTS gate:{address:127.0.0.1}:api"), ":1")
        self.assertEqual(self.server.say("DBSIZE"), ":1", "an address that a caller made up is no caller")
        self.server.say("LPUSH gate:{account:ann}:api x")
        self.application.served = 0
        self.assertEqual(self.get(ANN).status, 503)
        self.server.kill()
        until(lambda: self.get(ANN).status == 200, what="the open route without Redis")
        self.server.start()
        until(lambda: self.get(ANN).headers["RateLimit"], what="recovery")

    def test_nobody_to_ask(self):
        """Without the authority there is no decision: 503, and nothing reaches the application."""
        self.gate.stop()
        try:
            self.assertEqual({self.get(ANN).status for _ in range(20)}, {503})
            self.assertEqual(self.application.served, 0)
        finally:
            type(self).gate = Gateway(Path(tempfile.mkdtemp(dir=self.folder)), self.server.port,
                                      self.application.server_port, self.settings)
            os.chmod(self.gate.folder, 0o755)
            self.addClassCleanup(self.gate.stop)


if __name__ == "__main__":
    unittest.main(verbosity=2)
