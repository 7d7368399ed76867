"""Tests of rl.lua against a real server. Python's standard library only; run as `python3 functions/test_rl.py`.

Environment (all optional):
    RL_SERVER    the redis-server to test on; default: the cached redis-7.0, else redis-server from the PATH
    RL_MODULE    the module's .so for the mixed test; default: target/release/libredis_limiters.so
    RL_STEPS     length of the random histories; default 2000
    RL_SEED      seed of the random histories; default: a fixed one

The server's wall clock is held (a preloaded library reads it from a file), so instants are exact and days take no time.
Where a server's clock cannot be held, only the tests that need no particular instant run, and the summary says so.
"""

import fractions
import math
import os
import pathlib
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARY = HERE / "rl.lua"
CASES = ROOT / "tests" / "cases"
HELDCLOCK = ROOT / "tests" / "server" / "heldclock.c"
MODULE = pathlib.Path(os.environ.get("RL_MODULE", ROOT / "target" / "release" / "libredis_limiters.so"))
STEPS = int(os.environ.get("RL_STEPS", "2000"))
SEED = int(os.environ.get("RL_SEED", "20260101"))

T0 = 1767225600_000000  # 2026-01-01 00:00:00 UTC in microseconds: time 0 of the cases
MOST = 999999999999999
SHUT = 10**18
DAY_MS = 86400000

REPORT = []  # lines of the summary


def server_program():
    if "RL_SERVER" in os.environ:
        return os.environ["RL_SERVER"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    cached = cache / "redis-limiters" / "servers" / "redis-7.0" / "redis-server"
    found = str(cached) if cached.exists() else shutil.which("redis-server")
    if not found:
        raise SystemExit("no redis-server: name one in RL_SERVER")
    return found


class Problem(Exception):
    """An error reply."""


class Connection:
    """A small RESP2 client: bytes, int, None, lists, and Problem objects for error replies."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.stream = self.socket.makefile("rb")

    def send(self, *commands):
        out = []
        for words in commands:
            out.append(b"*%d\r\n" % len(words))
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))
        return [self.read() for _ in commands]

    def __call__(self, *words):
        return self.send(words)[0]

    def read(self):
        line = self.stream.readline()
        if not line:
            raise ConnectionError("the server hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        if kind == b"-":
            return Problem(rest.decode(errors="replace"))
        length = int(rest)
        if length < 0:
            return None
        if kind == b"$":
            return self.stream.read(length + 2)[:-2]
        return [self.read() for _ in range(length)]

    def close(self):
        self.stream.close()
        self.socket.close()


class Server:
    """A server of our own on a unix socket in a folder of its own, with a clock that the test holds."""

    held_library = None

    @classmethod
    def build_clock(cls, folder):
        if cls.held_library is None:
            cls.held_library = str(pathlib.Path(folder) / "heldclock.so")
            compiler = os.environ.get("CC", "cc")
            words = [compiler, "-O2", "-shared", "-fPIC", "-o", cls.held_library, str(HELDCLOCK), "-ldl"]
            subprocess.run(words, check=True)

    def __init__(self, *options, library=True, port=0):
        self.folder = tempfile.mkdtemp(prefix="rl-functions-")
        self.path = os.path.join(self.folder, "s")
        self.clock_file = open(os.path.join(self.folder, "clock"), "w+b", buffering=0)
        self.set_clock(T0)
        environment = dict(os.environ, HELDCLOCK=self.clock_file.name, LD_PRELOAD=self.held_library)
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            [server_program(), "--port", str(port), "--bind", "127.0.0.1", "--unixsocket", self.path,
             "--dir", self.folder, "--save", "", "--enable-debug-command", "local", "--daemonize", "no", *options],
            env=environment, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            if os.path.exists(self.path):
                try:
                    self.call = Connection(self.path)
                    break
                except ConnectionError:
                    pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop(show=True)
                raise SystemExit("the server did not start")
            time.sleep(0.01)
        self.holds = self.call("TIME") == [b"%d" % (T0 // 10**6), b"0"]
        if library:
            reply = self.call("FUNCTION", "LOAD", "REPLACE", LIBRARY.read_bytes())
            if reply != b"rl":
                self.stop()
                raise SystemExit(f"FUNCTION LOAD answered {reply!r}")

    def set_clock(self, microseconds):
        self.now = microseconds
        os.pwrite(self.clock_file.fileno(), struct.pack("<q", microseconds), 0)

    def fcall(self, name, key, *words):
        return self.call("FCALL", name, 1, key, *words)

    def info(self, section, field):
        text = self.call("INFO", section).decode()
        return re.search(rf"^{field}:(.*?)\r?$", text, re.M).group(1)

    def stop(self, show=False):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.clock_file.close()
        self.log.close()
        if show:
            sys.stderr.write(pathlib.Path(self.folder, "log").read_text(errors="replace"))
        shutil.rmtree(self.folder, ignore_errors=True)


class OnServer(unittest.TestCase):
    """One server for all tests of a class, empty and at time 0 before each."""

    options = ()
    needs_held_clock = True

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)
        if cls.needs_held_clock and not cls.server.holds:
            cls.tearDownClass()
            raise unittest.SkipTest("this server's clock cannot be held")

    @classmethod
    def tearDownClass(cls):
        cls.server.call.close()
        cls.server.stop()

    def setUp(self):
        self.server.set_clock(T0)
        self.server.call("FLUSHALL")

    def assertProblem(self, reply, *words):
        self.assertIsInstance(reply, Problem, reply)
        for word in words:
            self.assertIn(word.lower(), str(reply).lower())


# ------------------------------------------------------------------------------------------------------ the case files

FUNCTIONS = {"RL.FIXED": "rl_fixed", "RL.SLIDING": "rl_sliding", "RL.TOKEN": "rl_token", "RL.LEAKY": "rl_leaky",
             "RL.PEEK": "rl_peek"}
OTHER_VERBS = {"RL.REFUND", "RL.CHARGE", "RL.ALL", "RL.ACQUIRE", "RL.RENEW", "RL.RELEASE", "RL.QUEUE"}
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')


def words_of(text):
    return [(m.group(1) if m.group(1) is not None else m.group(2)) for m in WORD.finditer(text)]


def expected_of(text):
    """Elements of an expected reply; brackets nest."""
    stack = [[]]
    for token in re.findall(r"\[|\]|[^\s\[\]]+", text):
        if token == "[":
            stack.append([])
        elif token == "]":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    return stack[0]


def matches(expected, reply):
    if isinstance(expected, list):
        return isinstance(reply, list) and len(expected) == len(reply) and all(map(matches, expected, reply))
    if expected == "*":
        return True
    span = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", expected)
    if span:
        return isinstance(reply, int) and int(span.group(1)) <= reply <= int(span.group(2))
    if reply is None:
        return expected == "nil"
    return expected == (reply.decode() if isinstance(reply, bytes) else str(reply))


def changes_nothing(command, expected):
    """Whether a row of another verb leaves the keys as they are, so that the rows after it still mean something."""
    if expected is None:
        return False
    gives_back = command in {"RL.REFUND", "RL.RENEW", "RL.RELEASE"}
    return expected.startswith("ERR") or (gives_back and expected.split()[0] == "0")


class Cases(OnServer):
    def test_every_row_of_the_case_files_that_speaks_of_these_functions_passes(self):
        """Protects the contract: the same rows that the module passes."""
        files = sorted(CASES.glob("*.txt"))
        self.assertTrue(files, f"no case files in {CASES}")
        wrong = []
        for path in files:
            counts = self.replay(path, wrong)
            outside = ", ".join(f"{count} {reason}" for reason, count in sorted(counts["outside"].items())) or "none"
            REPORT.append(f"{path.name}: {counts['passed']} rows passed, {counts['failed']} failed; outside: {outside}")
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def replay(self, path, wrong):
        counts = {"passed": 0, "failed": 0, "outside": {}}
        lost, title = None, None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("case "):
                title, lost = line[5:], None
                self.setUp()
                self.server.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")
                continue
            row = re.fullmatch(r"(\S+)\s+(.*?)(?:\s*->\s*(.*?))?(?:\s{2,}#.*)?", line)
            when, command, expected = row.groups()
            words = words_of(command)
            if words[0] in OTHER_VERBS or (words[0] == "RL.PEEK" and "LEASE" in words):
                counts["outside"][words[0]] = counts["outside"].get(words[0], 0) + 1
                if words[0] != "RL.PEEK" and not changes_nothing(words[0], expected):
                    lost = f"after {words[0]}"
                continue
            if lost:
                counts["outside"][lost] = counts["outside"].get(lost, 0) + 1
                continue
            self.server.set_clock(T0 + round(float(when) * 1000))
            if words[0] in FUNCTIONS:
                words = ["FCALL", FUNCTIONS[words[0]], *(["1"] if len(words) > 1 else ["0"]), *words[1:]]
            reply = self.server.call(*words)
            if expected is None:
                good = True
            elif expected.startswith("ERR"):
                good = isinstance(reply, Problem) and expected.partition("*")[2].lower() in str(reply).lower()
            else:
                good = matches(expected_of(expected), reply if isinstance(reply, list) else [reply])
            counts["passed" if good else "failed"] += 1
            if not good:
                where = f"{path.name}:{number} ({title}) at {when}: {command}"
                wrong.append(f"{where}\n    expected {expected}\n    got      {reply!r}")
        return counts


# ------------------------------------------------------------------------------------------- exact model and histories

def up(a, b):
    return -(-a // b)


class Rule:
    """The numbers of one call, and its words."""

    def __init__(self, kind, limit, period_ms, cost=1, rate=None, **options):
        self.kind, self.limit, self.period_ms, self.cost, self.rate = kind, limit, period_ms, cost, rate
        self.options = options
        self.partial = options.get("PARTIAL", False)

    def words(self, period=None):
        words = [str(self.limit)]
        if self.rate is not None:
            words.append(str(self.rate))
        words.append(period or self.options.get("period", f"{self.period_ms}ms"))
        if self.cost != 1:
            words += ["COST", str(self.cost)]
        for name in ("PARTIAL", "ALIGN", "TZ", "BLOCK", "ID", "BUCKETS", "SHAPE", "WITHIN"):
            value = self.options.get(name)
            if value is True:
                words.append(name)
            elif value:
                words += [name, f"{value}ms" if name in ("BLOCK", "WITHIN") else str(value)]
        return words


class Answer:
    def __init__(self, elements, wrote, mended):
        self.elements, self.wrote, self.mended = elements, wrote, mended


def first_of_month(index):
    """Milliseconds of the first of a month, counted in months from January 1970, by Python's own calendar."""
    import datetime
    day = datetime.date(1970 + index // 12, index % 12 + 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal()
    return day * DAY_MS


class FixedModel:
    def __init__(self):
        self.used, self.ends = None, None  # ends None: no TTL


    @staticmethod
    def window(rule, now_ms):
        """Start and end of the aligned window."""
        shift = rule.options.get("shift_ms", 0)
        here = now_ms + shift
        months = rule.options.get("months")
        if months:
            index = (here // DAY_MS) // 31
            while first_of_month(index + 1) <= here:
                index += 1
            index -= index % months
            return first_of_month(index) - shift, first_of_month(index + months) - shift
        origin = -3 * DAY_MS if rule.options.get("period", "").endswith("w") else 0
        start = here - (here - origin) % rule.period_ms
        return start - shift, start + rule.period_ms - shift

    def decide(self, rule, now):
        now_ms = now // 1000
        used, ends, mended = self.used or 0, self.ends, False
        if self.used is None or (ends is not None and ends <= now_ms):
            used, ends = 0, None
        else:
            if rule.options.get("months"):
                present = self.window(rule, now_ms)[1]
                latest, instead = self.window(rule, present)[1], present
            else:
                latest = instead = now_ms + rule.period_ms
            if ends is None or (ends > latest and used < SHUT):
                ends, mended = instead, True
        opened = used > 0
        left = max(0, rule.limit - used)
        reset = ends - now_ms if opened else 0
        if rule.cost == 0:
            return Answer([0 if rule.partial else 1, rule.limit, left, 0, reset], False, False)
        wanted = 1 if rule.partial else rule.cost
        if wanted <= left:
            grant = min(rule.cost, left)
            if not opened:
                ends = self.window(rule, now_ms)[1] if rule.options.get("ALIGN") else now_ms + rule.period_ms
            self.used, self.ends = used + grant, ends
            return Answer([grant if rule.partial else 1, rule.limit, left - grant, 0, ends - now_ms], True, mended)
        never = wanted > rule.limit
        block = rule.options.get("BLOCK")
        if block and not never and used < SHUT:
            self.used, self.ends = SHUT, max(ends, now_ms + block)
            return Answer([0, rule.limit, 0, self.ends - now_ms, self.ends - now_ms], True, False)
        if mended:
            self.ends = ends
        return Answer([0, rule.limit, left, -1 if never else reset, reset], False, mended)


class LogModel:
    """Every admitted unit with its instant; nothing is ever thrown away but by the clock."""

    def __init__(self):
        self.units = []  # [instant, id or None]


    def decide(self, rule, now):
        period = rule.period_ms * 1000
        mended = rule.cost > 0 and any(at > now for at, _ in self.units)
        live = sorted(min(at, now) for at, _ in self.units if at > now - period)
        if rule.cost > 0:
            self.units = [[min(at, now), name] for at, name in self.units]
        left = max(0, rule.limit - len(live))
        reset = up(live[-1] + period - now, 1000) if live else 0
        name = rule.options.get("ID")
        if name and any(who == name and at > now - period for at, who in self.units):
            return Answer([1, rule.limit, left, 0, reset], False, mended)
        if rule.cost == 0:
            return Answer([0 if rule.partial else 1, rule.limit, left, 0, reset], False, False)
        wanted = 1 if rule.partial else rule.cost
        if wanted <= left:
            grant = min(rule.cost, left)
            if name:
                self.units = [unit for unit in self.units if unit[1] != name]
            self.units = [unit for unit in self.units if unit[0] > now - period] + [[now, name]] * grant
            return Answer([grant if rule.partial else 1, rule.limit, left - grant, 0, rule.period_ms], True, mended)
        wait = -1 if wanted > rule.limit else up(live[len(live) + wanted - rule.limit - 1] + period - now, 1000)
        return Answer([0, rule.limit, left, wait, reset], False, mended)


class BucketsModel:
    def __init__(self):
        self.counts = {}


    def decide(self, rule, now):
        now_ms = now // 1000
        length = up(rule.period_ms, rule.options["BUCKETS"])
        present = now_ms // length * length + length
        live, mended = {}, False
        for end, units in self.counts.items():
            if end > now_ms + up(rule.period_ms, 2):
                end, mended = present, rule.cost > 0
            if end + rule.period_ms > now_ms:
                live[end] = live.get(end, 0) + units
        used = sum(live.values())
        left = max(0, rule.limit - used)
        reset = max(live) + rule.period_ms - now_ms if live else 0
        if rule.cost == 0:
            return Answer([0 if rule.partial else 1, rule.limit, left, 0, reset], False, False)
        wanted = 1 if rule.partial else rule.cost
        if wanted <= left:
            grant = min(rule.cost, left)
            live[present] = live.get(present, 0) + grant
            self.counts = live
            reset = max(live) + rule.period_ms - now_ms
            return Answer([grant if rule.partial else 1, rule.limit, left - grant, 0, reset], True, mended)
        if mended:
            self.counts = {**{e: u for e, u in self.counts.items() if e + rule.period_ms <= now_ms}, **live}
        wait = -1
        if wanted <= rule.limit:
            for end in sorted(live):
                used -= live[end]
                if used + wanted <= rule.limit:
                    wait = end + rule.period_ms - now_ms
                    break
        return Answer([0, rule.limit, left, wait, reset], False, mended)


class BucketModel:
    """Both buckets as a debt in exact fractions."""

    def __init__(self):
        self.amount, self.at = None, None


    def decide(self, rule, now):
        period = rule.period_ms * 1000
        full = fractions.Fraction(rule.limit)
        gain = fractions.Fraction(rule.rate, period)
        mended = False
        if self.amount is None:
            debt = fractions.Fraction(0)
        else:
            mended = self.at > now and rule.cost > 0
            if mended:
                self.at = now
            shares = self.amount * period
            if rule.kind == "TOKEN":
                debt = full - fractions.Fraction(shares.numerator // shares.denominator, period)
            else:
                debt = fractions.Fraction(up(shares.numerator, shares.denominator), period)
            debt = max(fractions.Fraction(0), debt - gain * max(0, now - self.at))

        def ms(amount):
            time_ms = max(amount, 0) / gain / 1000
            return up(time_ms.numerator, time_ms.denominator)

        def left(amount):
            return max(0, (full - amount).__floor__())

        turn = ms(debt)
        if rule.cost == 0:
            return Answer([0 if rule.partial else 1, rule.limit, left(debt), 0, min(turn, MOST)], False, False)
        wanted = 1 if rule.partial else rule.cost
        if wanted > rule.limit:
            return Answer([0, rule.limit, left(debt), -1, min(turn, MOST)], False, mended)
        within = rule.options.get("WITHIN")
        if debt + wanted > full or (within and turn > within):
            wait = max(ms(debt + wanted - full), turn - within if within else 0)
            return Answer([0, rule.limit, left(debt), min(wait, MOST), min(turn, MOST)], False, mended)
        grant = min(rule.cost, left(debt))
        debt += grant
        self.amount, self.at = (full - debt if rule.kind == "TOKEN" else debt), now
        delay = min(turn, MOST) if rule.options.get("SHAPE") else 0
        return Answer([grant if rule.partial else 1, rule.limit, left(debt), delay, min(ms(debt), MOST)], True, mended)


def many_digits(dice, most=15):
    return min(MOST, max(1, int(10 ** dice.uniform(0, most)) + dice.randint(-1, 1)))


class Numbers:
    """Draws rules that belong together: changes of one number now and then, most calls the same."""

    def __init__(self, dice, kind, large):
        self.dice, self.kind, self.large = dice, kind, large
        self.renew()

    def renew(self):
        dice = self.dice
        if self.kind == "LOG":
            self.limit, self.period = dice.choice((0, 1, 2, 3, 5, 20)), dice.choice((1, 3, 10, 100, 1000))
        elif self.large:
            self.limit, self.period = many_digits(dice), min(315360000000, many_digits(dice, 11.5))
        else:
            self.limit, self.period = dice.choice((0, 1, 2, 3, 7, 10, 100)), dice.choice((1, 3, 10, 100, 1000, 60000))
        self.rate = many_digits(dice) if self.large else dice.choice((1, 2, 3, 7, 10, 1000))
        self.parts = dice.choice((2, 3, 7, 10, 60, 360))
        self.align = dice.choice((None, None, "plain", "weeks", "months")) if self.kind == "FIXED" else None
        self.shift = dice.choice((None, "+02:00", "-05:30", "+23:59", "-23:59", "+00:00"))

    def rule(self):
        dice = self.dice
        if dice.random() < 0.03:
            self.renew()
        cost = dice.choice((1, 1, 1, 1, 2, 3, 0, self.limit, self.limit // 2, self.limit + 1))
        cost = min(cost, 250 if self.kind == "LOG" else MOST)
        options = {}
        if dice.random() < 0.2:
            options["PARTIAL"] = True
        if self.kind == "FIXED":
            if self.align:
                options["ALIGN"] = True
                if self.shift:
                    options["TZ"] = self.shift
                    sign, hours, minutes = re.fullmatch(r"(.)(\d\d):(\d\d)", self.shift).groups()
                    options["shift_ms"] = (int(hours) * 60 + int(minutes)) * (-60000 if sign == "-" else 60000)
                if self.align == "weeks":
                    weeks = dice.choice((1, 1, 2, 3))
                    options["period"], self.period = f"{weeks}w", weeks * 7 * DAY_MS
                elif self.align == "months":
                    months = dice.choice((1, 1, 1, 2, 3, 4, 6, 12))
                    options["period"], options["months"] = ("1y" if months == 12 else f"{months}mo"), months
            if dice.random() < 0.05:
                options["BLOCK"] = dice.choice((1, 5, 1000, 100000))
        elif self.kind == "LOG" and not options and dice.random() < 0.4:
            options["ID"] = dice.choice("abcdefg")
        elif self.kind == "BUCKETS":
            options["BUCKETS"] = self.parts
        elif self.kind == "LEAKY" and not options and dice.random() < 0.3:
            options["SHAPE"] = True
            if dice.random() < 0.5:
                options["WITHIN"] = max(1, min(315360000000, int(self.period * dice.choice((0.5, 1, 2)))))
        if self.kind in ("TOKEN", "LEAKY"):
            return Rule(self.kind, self.limit, self.period, cost, self.rate, **options)
        return Rule(self.kind, self.limit, self.period, cost, **options)

    def step(self, last_wait):
        """Microseconds that pass before the next call: none, a few, what was told to wait, now and then backwards."""
        dice = self.dice
        draw = dice.random()
        if draw < 0.25:
            return 0
        if draw < 0.45 and 0 < last_wait < 10**12:
            return last_wait * 1000
        if draw < 0.47:
            return -dice.choice((1, 999, 1000, 50000, 3600_000000))
        span = self.period * 1000
        if self.kind in ("TOKEN", "LEAKY"):
            span = max(1, min(span, span * self.limit // self.rate))
        return int(span * dice.choice((0.001, 0.01, 0.1, 0.3, 1, 1.1))) + dice.choice((0, 0, 1, 333))


ALGORITHM = {"FIXED": "rl_fixed", "LOG": "rl_sliding", "BUCKETS": "rl_sliding", "TOKEN": "rl_token",
             "LEAKY": "rl_leaky"}
RULE_NAME = {"FIXED": "FIXED", "LOG": "SLIDING", "BUCKETS": "SLIDING", "TOKEN": "TOKEN", "LEAKY": "LEAKY"}
MODELS = {"FIXED": FixedModel, "LOG": LogModel, "BUCKETS": BucketsModel, "TOKEN": BucketModel, "LEAKY": BucketModel}
LATEST = 7 * 10**15  # no history runs beyond the clock that the library serves


class Histories(OnServer):
    """Long random histories against a model in Python's unbounded integers and fractions."""

    def history(self, kind, large, steps):
        dice = random.Random(f"{SEED} {kind} {large}")
        numbers, model, key = Numbers(dice, kind, large), MODELS[kind](), "k"
        server, refused, wait = self.server, 0, 0
        highest = remembered = T0  # the latest reading of the clock; until when the last call's numbers need the key
        server.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        for step in range(steps):
            now = max(T0, server.now + numbers.step(wait))
            if now > LATEST or (now > server.now and dice.random() < 0.002):
                now = highest = remembered = T0
                model = MODELS[kind]()
                server.set_clock(now)
                server.call("FLUSHALL")
                numbers.renew()
            server.set_clock(now)
            highest = max(highest, now)
            if dice.random() < 0.02:
                if server.call("PERSIST", key) and kind == "FIXED":
                    model.ends = None
            rule = numbers.rule()
            words = rule.words()
            told = f"{kind} step {step} at {now}: {words}"
            existed = server.call("EXISTS", key)
            if not existed:
                self.assertLessEqual(remembered, highest + 999, told + ": the key died too early")
                remembered, model = T0, MODELS[kind]()
            changes = server.info("persistence", "rdb_changes_since_last_save")
            peek = server.fcall("rl_peek", key, RULE_NAME[kind], *words)
            value = [server.call("DUMP", key), server.call("PEXPIRETIME", key)]
            reply = server.fcall(ALGORITHM[kind], key, *words)
            answer = model.decide(rule, now)
            self.assertEqual(reply, answer.elements, told)
            if not (rule.options.get("BLOCK") and reply[0] == 0):
                self.assertEqual(peek, reply, told)
            if not answer.wrote and not answer.mended and value[1] > 0:
                kept = [server.call("DUMP", key), server.call("PEXPIRETIME", key)]
                if value[1] > now // 1000 + min(reply[4], MOST // 2):  # a TTL that is surely long enough
                    self.assertEqual(kept, value, told + ": a refusal left a trace")
                    self.assertEqual(changes, server.info("persistence", "rdb_changes_since_last_save"), told)
            if rule.cost > 0 and server.call("EXISTS", key):
                expiry = server.call("PEXPIRETIME", key)
                needed = now // 1000 + min(reply[4], MOST // 2)
                self.assertGreaterEqual(expiry, needed, told + ": the key dies too early")
                self.assertLessEqual(expiry - highest // 1000, MOST + 1, told + ": a TTL beyond the cap")
                if not existed:
                    full = 0 if kind == "FIXED" else rule.period_ms
                    if rule.rate:
                        full = up(rule.limit * rule.period_ms, rule.rate)
                    self.assertLessEqual(expiry - now // 1000, reply[4] + full + 1, told + ": the key lives too long")
                remembered = now + min(reply[4], MOST // 2) * 1000
            wait = reply[3] if reply[0] == 0 and rule.cost > 0 else 0
            if wait > 0:
                refused += 1
                if dice.random() < 0.3 and wait < MOST and now + wait * 1000 < LATEST and not rule.options.get("ID"):
                    # The promise, asked of the server itself; time goes on from there.
                    for early, expect in ((1, 0), (0, 1)):
                        then = now + (wait - early) * 1000
                        if then > now or not early:
                            server.set_clock(then)
                            highest = max(highest, then)
                            promised = server.fcall("rl_peek", key, RULE_NAME[kind], *words)
                            self.assertEqual(min(promised[0], 1), expect, told + f": promise of {wait} ms")
        return refused

    def run_kind(self, kind, large=False):
        refused = self.history(kind, large, STEPS)
        self.assertGreater(refused, STEPS // 20, "the history hardly ever refuses, so it shows little")
        digits = " up to fifteen digits" if large else ""
        REPORT.append(f"random history {kind}{digits}: {STEPS} calls agree with the exact model")

    def test_fixed(self):
        """Protects windows, ALIGN, weeks, months, offsets, BLOCK and their mending."""
        self.run_kind("FIXED")

    def test_fixed_with_large_numbers(self):
        """Protects counts up to fifteen digits against rounding."""
        self.run_kind("FIXED", large=True)

    def test_log(self):
        """Protects the exact log, ids, trimming and mending."""
        self.run_kind("LOG")

    def test_buckets(self):
        """Protects sub-windows, their mending and their waits."""
        self.run_kind("BUCKETS")

    def test_buckets_with_large_numbers(self):
        """Protects sums of sub-windows against rounding."""
        self.run_kind("BUCKETS", large=True)

    def test_token(self):
        """Protects fractions, changes of numbers and waits of token buckets."""
        self.run_kind("TOKEN")

    def test_token_with_large_numbers(self):
        """Protects products beyond 2^53."""
        self.run_kind("TOKEN", large=True)

    def test_leaky(self):
        """Protects levels, turns and WITHIN."""
        self.run_kind("LEAKY")

    def test_leaky_with_large_numbers(self):
        """Protects products beyond 2^53."""
        self.run_kind("LEAKY", large=True)


class Arithmetic(OnServer):
    def test_single_decisions_on_states_of_any_size_equal_exact_fractions(self):
        """Protects the limb arithmetic: stored amounts, fractions, rates and ages drawn over all their digits."""
        dice = random.Random(f"{SEED} arithmetic")
        server, rounds = self.server, STEPS * 2
        for step in range(rounds):
            kind = dice.choice(("TOKEN", "LEAKY"))
            now = T0 + dice.randrange(10**14)
            server.set_clock(now)
            capacity, rate = many_digits(dice), many_digits(dice)
            period_ms = min(315360000000, many_digits(dice, 11.5))
            if dice.random() < 0.3:
                # Waits just below the cap, of which many divide evenly.
                rate, period_ms = dice.randint(9, 40), dice.randint(10**9, 315360000000)
                capacity = dice.randint(1, 10**15 * rate // period_ms)
            period = period_ms * 1000
            below = dice.choice((period, period, dice.randint(1, 315360000000000)))
            above = dice.choice((0, below - 1, dice.randrange(below)))
            whole = min(8 * 10**15, many_digits(dice, 16)) if dice.random() < 0.3 else min(capacity, many_digits(dice))
            if kind == "TOKEN" and dice.random() < 0.4:
                whole = -whole
            # An age at which something happens: about the time that the amount takes, or anything.
            age = dice.choice((0, 1, min(now - 10**15, abs(whole) * period // rate), dice.randrange(now - 10**15)))
            at = max(10**15, min(10**16 - 1, now - age + dice.choice((0, 0, 1, -1))))
            if dice.random() < 0.3:
                # Products that divide evenly.
                rate = max(1, rate // 1000) * 1000
                at = now - min(age, now - 10**15) // period_ms * period_ms
            elif kind == "LEAKY" and math.gcd(period_ms, rate) == 1 and rate > 1:
                # A level that takes one share more than a whole number of milliseconds: the least that rounds up.
                whole, above, at = pow(period_ms, -1, rate), 0, now
            model = BucketModel()
            model.amount, model.at = whole + fractions.Fraction(above, below), at
            options = {"PARTIAL": True} if dice.random() < 0.3 else {}
            if kind == "LEAKY" and not options and dice.random() < 0.5:
                options = {"SHAPE": True, "WITHIN": min(315360000000, many_digits(dice, 11))}
            rule = Rule(kind, capacity, period_ms, min(capacity, many_digits(dice)), rate, **options)
            text = f"{whole}+{above}/{below}" if above or dice.random() < 0.1 else f"{whole}"
            server.call("DEL", "k")
            server.call("HSET", "k", "tokens" if kind == "TOKEN" else "level", text, "ts", at)
            told = f"step {step}: {kind} {rule.words()} on {text} at {at}, now {now}"
            peek = server.fcall("rl_peek", "k", kind, *rule.words())
            reply = server.fcall(ALGORITHM[kind], "k", *rule.words())
            answer = model.decide(rule, now)
            self.assertEqual(reply, answer.elements, told)
            self.assertEqual(peek, answer.elements, told)
            if answer.wrote:
                stored = dict(zip(*[iter(server.call("HGETALL", "k"))] * 2))
                whole_text, _, fraction = stored[b"tokens" if kind == "TOKEN" else b"level"].partition(b"+")
                value = int(whole_text) + (fractions.Fraction(fraction.decode()) if fraction else 0)
                self.assertEqual((value, int(stored[b"ts"])), (model.amount, now), told)
        REPORT.append(f"single decisions on random states: {rounds} equal exact fractions, stored amounts included")


class LongRun(OnServer):
    def test_no_drift(self):
        """Protects a bucket whose fraction never ends: after many calls it is what exact fractions say."""
        server, model, now = self.server, BucketModel(), T0
        rule = Rule("TOKEN", 7, 3000, 1, 7)
        for step in range(STEPS):
            now += 428571 + step % 2
            server.set_clock(now)
            self.assertEqual(server.fcall("rl_token", "k", *rule.words()), model.decide(rule, now).elements, step)
        whole, _, fraction = server.call("HGET", "k", "tokens").partition(b"+")
        self.assertEqual(int(whole) + fractions.Fraction(fraction.decode() or "0"), model.amount)


# --------------------------------------------------------------------------------------- words, bounds, foreign values

class Words(OnServer):
    needs_held_clock = False

    def test_what_is_wrong_is_named_and_nothing_is_touched(self):
        """Protects the error texts: the word at fault and what is accepted."""
        long = "x" * 200
        for function, words, texts in (
            ("rl_fixed", ["1.5", "1m"], ["ERR limit '1.5' is not a whole number from 0 to 999999999999999"]),
            ("rl_fixed", ["01", "1m"], ["limit '01'"]),
            ("rl_fixed", ["", "1m"], ["limit ''"]),
            ("rl_fixed", ["5", "60"], ["ERR period '60' has no unit: say 60ms, 60s or 1m"]),
            ("rl_fixed", ["5", "61"], ["say 61ms, 61s or 61m"]),
            ("rl_fixed", ["5", "3651d"], 
             ["ERR period '3651d' is not a duration from 1ms to 3650d", "or with ALIGN 1mo"]),
            ("rl_fixed", ["5", "0ms"], ["period '0ms'", "1ms"]),
            ("rl_fixed", ["5", "1M"], ["period '1M'"]),
            ("rl_fixed", ["5", b"1m\x00"], ["period '1m?'"]),
            ("rl_fixed", [b"5\x001m", "1m"], ["limit '5?1m'"]),
            ("rl_fixed", ["5", "1mo"], ["ERR period '1mo' is a calendar unit and needs ALIGN"]),
            ("rl_fixed", ["5", "5mo", "ALIGN"], ["period '5mo'", "6mo"]),
            ("rl_fixed", ["5", "1d", "TZ", "+02:00"], ["ERR TZ needs ALIGN"]),
            ("rl_fixed", ["5", "1d", "ALIGN", "TZ", "+24:00"],
             ["ERR TZ '+24:00' is not an offset from UTC such as +02:00 or -05:30"]),
            ("rl_fixed", ["5", "1d", "ALIGN", "TZ"], ["ERR TZ has no value: an offset"]),
            ("rl_fixed", ["5", "1d", "BLOCK", "15"], ["ERR BLOCK '15' has no unit: say 15ms, 15s or 15m"]),
            ("rl_fixed", ["5", "1d", "BLOCK", "1mo"], ["BLOCK '1mo'"]),
            ("rl_fixed", ["5", "1d", "ID", "a"],
             ["ERR 'ID' is not an option of rl_fixed, accepted: COST, ALIGN, TZ, PARTIAL, BLOCK"]),
            ("rl_fixed", ["5", "1d", "partial", "Partial"], ["ERR PARTIAL stands twice, once is enough"]),
            ("rl_fixed", ["5", "1d", long], ["ERR '" + "x" * 64 + "...' is not an option"]),
            ("rl_fixed", ["5", "1d", b"a\n\x00\xff"], ["'a???' is not an option"]),
            ("rl_fixed", ["5"], ["ERR wrong number of arguments for 'rl_fixed'", "limit period"]),
            ("rl_token", ["5", "1s"], ["ERR wrong number of arguments for 'rl_token'", "capacity rate period"]),
            ("rl_token", ["5", "0", "1s"], ["rate '0' is not a whole number from 1"]),
            ("rl_token", ["x", "1", "1s"], ["capacity 'x'"]),
            ("rl_token", ["5", "1", "1s", "COST"], ["ERR COST has no value: a whole number from 0"]),
            ("rl_token", ["5", "1", "1mo"], ["period '1mo'"]),
            ("rl_leaky", ["5", "1", "1s", "WITHIN", "1s"], ["ERR WITHIN needs SHAPE"]),
            ("rl_leaky", ["5", "1", "1s", "SHAPE", "WITHIN", "0s"], ["WITHIN '0s'"]),
            ("rl_leaky", ["5", "1", "1s", "SHAPE", "PARTIAL"], ["ERR PARTIAL and SHAPE exclude each other"]),
            ("rl_sliding", ["5", "1s", "PARTIAL", "ID", "a"], ["ERR PARTIAL and ID exclude each other"]),
            ("rl_sliding", ["5", "1s", "ID", "x" * 129], ["ERR ID '", "is not 1 to 128 bytes long"]),
            ("rl_sliding", ["5", "1s", "BUCKETS", "1"], ["ERR BUCKETS '1' is not a whole number from 2 to 360"]),
            ("rl_sliding", ["5", "1s", "BUCKETS", "10", "ID", "a"], ["ERR BUCKETS and ID exclude each other"]),
            ("rl_sliding", ["100001", "1s"], ["ERR limit '100001' is above 100000", "use BUCKETS"]),
            ("rl_sliding", ["5", "1s", "COST", "251"], ["ERR COST '251' is above 250", "use BUCKETS"]),
            ("rl_peek", ["NONSENSE", "5", "1s"], ["ERR rule 'NONSENSE' is not FIXED, SLIDING, TOKEN or LEAKY"]),
            ("rl_peek", ["LEASE", "5"], ["rule 'LEASE' is not"]),
            ("rl_peek", ["FIXED", "5"], ["ERR period is missing: a duration"]),
            ("rl_peek", ["FIXED", "5", "1s", "SHAPE"], ["'SHAPE' is not an option of rl_peek FIXED"]),
            ("rl_peek", [""], ["ERR rule is missing: FIXED"]),
        ):
            reply = self.server.fcall(function, "k", *words)
            self.assertProblem(reply, *texts)
            self.assertTrue(str(reply).startswith("ERR "), reply)
        for function in ("rl_fixed", "rl_sliding", "rl_token", "rl_leaky", "rl_peek"):
            for words in ([0], [0, "5", "1s"], [2, "a", "b", "5", "1s"]):
                self.assertProblem(self.server.call("FCALL", function, *words), "ERR wrong number of arguments")
        self.assertEqual(self.server.call("DBSIZE"), 0)

    def test_letter_case_and_order_of_options_and_a_rule_in_one_argument(self):
        """Protects what a caller of the module may write."""
        self.assertEqual(self.server.fcall("rl_fixed", "k", "5", "1h", "Cost", "2", "align")[:3], [1, 5, 3])
        self.assertEqual(self.server.fcall("rl_fixed", "k", "5", "1h", "ALIGN", "COST", "2")[:3], [1, 5, 1])
        self.assertEqual(self.server.fcall("rl_peek", "k", "fixed", "5", "1h")[:3], [1, 5, 0])
        self.assertEqual(self.server.fcall("rl_peek", "k", "FIXED 5  1h COST 2")[:3], [0, 5, 1])

    def test_foreign_values_are_refused_and_stay(self):
        """Protects other people's keys."""
        now = b"%d%06d" % tuple(map(int, self.server.call("TIME")))
        ms, later = now[:13], b"%d" % (int(now) + 10**6)
        call = self.server.call
        rules = {"rl_fixed": ["5", "1s"], "rl_sliding": ["5", "1s"], "rl_sliding BUCKETS": ["5", "1s", "BUCKETS", "10"],
                 "rl_token": ["5", "1", "1s"], "rl_leaky": ["5", "1", "1s"]}
        types = {"SET": "string", "HSET": "hash", "ZADD": "zset", "RPUSH": "list", "XADD": "stream"}
        hashes = ("rl_token", "rl_leaky", "rl_sliding BUCKETS")
        made = []

        def make(own, *command):
            """A value, and the functions whose own state it is."""
            key = f"key{len(made)}"
            reply = call(command[0], key, *command[1:])
            self.assertNotIsInstance(reply, Problem, reply)
            made.append((key, own, types[command[0]]))

        for text in ("hello", "007", "-1", "+1", "", " 1", "1.5", "9223372036854775808", "10000000000000000000"):
            make((), "SET", text)
        make((), "RPUSH", "x")
        make((), "XADD", "*", "tokens", "5")
        make((), "ZADD", "1500", "ann", "1700", "bob")
        make((), "ZADD", later, "worker-1")
        make((), "ZADD", later, "l:a")
        make((), "ZADD", "1", "1", later, later)
        make((), "ZADD", later, later, "9e15", "x")
        make((), "ZADD", "1767225600000000.5", later)
        make((), "ZADD", later, later, "inf", "i000:a")
        make((), "ZADD", later, "i000:")
        make((), "ZADD", later, "i00:ab")
        make((), "ZADD", later, "i000:" + "x" * 129)
        make((), "HSET", "a", "b")
        make((), "HSET", "tokens", "5")
        make((), "HSET", "tokens", "5", "ts", ms)
        make((), "HSET", "tokens", "5", "ts", now, "owner", "ann")
        make((), "HSET", "tokens", "5", "at", now)
        for text in ("", "x", "05", "-0", "+5", "5+", "5+1", "5+1/", "5+/3", "5+3/3", "5+4/3", "5+1/0", "5+01/3",
                     "5-1/3", "5+1/3 ", "1.5", "5+1/315360000000001", "12345678901234567", "-0+1/3"):
            make((), "HSET", "tokens", text, "ts", now)
            make((), "HSET", "level", text, "ts", now)
        make((), "HSET", "level", "-1+1/3", "ts", now)
        make(("rl_token",), "HSET", "tokens", "-1+1/3", "ts", now)
        make(("rl_leaky",), "HSET", "level", "1+1/3", "ts", now)
        make(("rl_sliding BUCKETS",), "HSET", ms, "1")
        for value in ("01", "-1", "x", "", "12345678901234567"):
            make((), "HSET", ms, value)
        for field, value in ((ms[:12], "1"), (ms + b"0", "1"), (b"x" * 13, "1")):
            make((), "HSET", field, value)
        make((), "HSET", *[word for i in range(721) for word in (b"%d" % (int(ms) + i), "1")])
        for key, own, kind in made:
            before = call("DUMP", key)
            for name, words in rules.items():
                if name in own:
                    continue
                expect = "string" if name == "rl_fixed" else "hash" if name in hashes else "zset"
                for reply in (self.server.fcall(name.split()[0], key, *words),
                              self.server.fcall("rl_peek", key, name.split()[0][3:], *words)):
                    self.assertIsInstance(reply, Problem, (key, name, reply))
                    if kind == expect:
                        self.assertProblem(reply, "use another key name")
                        self.assertTrue(str(reply).startswith("ERR "), reply)
                    else:
                        self.assertTrue(str(reply).startswith("WRONGTYPE Operation against a key"), reply)
            self.assertEqual(call("DUMP", key), before, key)
            self.assertEqual(call("PTTL", key), -1, key)
        REPORT.append(f"foreign values: {len(made)} refused by every function and unchanged")

    def test_smoke_on_the_running_clock(self):
        """Protects the plain use on servers whose clock cannot be held."""
        fcall = self.server.fcall
        self.assertEqual(fcall("rl_fixed", "f", "2", "1h"), [1, 2, 1, 0, 3600000])
        self.assertEqual(fcall("rl_sliding", "s", "2", "1h", "COST", "2"), [1, 2, 0, 0, 3600000])
        self.assertEqual(fcall("rl_sliding", "s", "2", "1h")[0], 0)
        self.assertEqual(fcall("rl_sliding", "b", "2", "1h", "BUCKETS", "60", "COST", "2")[:4], [1, 2, 0, 0])
        self.assertEqual(fcall("rl_token", "t", "10", "1", "1h", "COST", "10"), [1, 10, 0, 0, 36000000])
        self.assertEqual(fcall("rl_token", "t", "10", "1", "1h")[:3], [0, 10, 0])
        self.assertEqual(fcall("rl_leaky", "l", "10", "1", "1h", "SHAPE"), [1, 10, 9, 0, 3600000])
        self.assertGreater(fcall("rl_leaky", "l", "10", "1", "1h", "SHAPE")[3], 3590000)
        self.assertEqual(self.server.call("FCALL_RO", "rl_peek", 1, "f", "FIXED", "2", "1h")[:3], [1, 2, 0])
        self.assertProblem(self.server.call("FCALL_RO", "rl_fixed", 1, "f", "2", "1h"), "write")
        types = [self.server.call("TYPE", key) for key in "fsbtl"]
        self.assertEqual(types, [b"string", b"zset", b"hash", b"hash", b"hash"])


class Bounds(OnServer):
    def test_what_this_library_cannot_count_exactly_is_an_error(self):
        """Protects the narrower bounds: no rounded number is ever answered."""
        call, fcall = self.server.call, self.server.fcall
        for name, field in (("rl_token", "tokens"), ("rl_leaky", "level")):
            call("HSET", field, field, "8000000000000001", "ts", T0)
            self.assertProblem(fcall(name, field, "5", "1", "1s"), "ERR ", "8000000000000000")
            call("HSET", field, field, "8000000000000000", "ts", T0)
            self.assertIsInstance(fcall(name, field, "5", "1", "1s"), list)
        call("HSET", "b", str(T0 // 1000), "7999999999999999", str(T0 // 1000 + 1), "2")
        self.assertProblem(fcall("rl_sliding", "b", "5", "1s", "BUCKETS", "10"), "ERR ", "8000000000000000")
        for instant in (10**15 - 1, 8 * 10**15):
            self.server.set_clock(instant)
            self.assertProblem(fcall("rl_fixed", "f", "5", "1s"), "ERR ", "clock")
        self.server.set_clock(8 * 10**15 - 1)
        self.assertEqual(fcall("rl_token", "new", "5", "1", "3650d"), [1, 5, 4, 0, 315360000000])
        self.server.set_clock(10**15)
        self.assertEqual(fcall("rl_sliding", "new2", "5", "3650d"), [1, 5, 4, 0, 315360000000])

    def test_counters_beyond_every_limit_are_full(self):
        """Protects counts above 2^53, which an operator may write: they are compared, never computed with."""
        call, fcall = self.server.call, self.server.fcall
        for count in ("999999999999999", "1000000000000000", "9007199254740993", "999999999999999999"):
            call("SET", "f", count, "PX", "500")
            self.assertEqual(fcall("rl_fixed", "f", str(MOST), "1s"), [0, MOST, 0, 500, 500])
            self.assertEqual(call("GET", "f"), count.encode())
        for count in ("1000000000000000000", "9223372036854775807"):
            call("SET", "f", count, "PX", "5000")
            self.assertEqual(fcall("rl_fixed", "f", "5", "1s"), [0, 5, 0, 5000, 5000], "a shut key, its end not mended")
        call("SET", "f", "999999999999998", "PX", "500")
        self.assertEqual(fcall("rl_fixed", "f", str(MOST), "1s"), [1, MOST, 0, 0, 500])


class Work(OnServer):
    def test_a_call_does_bounded_work_however_many_entries_have_left_the_window(self):
        """Protects the latency of everybody else: at most cost + 250 entries trimmed per call."""
        call, fcall = self.server.call, self.server.fcall
        for i in range(20):
            call("ZADD", "s", *[word for n in range(500) for word in (T0 + i * 500 + n, T0 + i * 500 + n)])
        self.server.set_clock(T0 + 10_000000)
        before = 10000
        for cost, words in ((1, []), (100, ["COST", "100"]), (250, ["COST", "250"]), (3, ["COST", "3", "ID", "a"])):
            self.assertEqual(fcall("rl_sliding", "s", "1000", "1s", *words)[0], 1)
            after = call("ZCARD", "s")
            self.assertGreaterEqual(before + cost - after, cost + 1)
            self.assertLessEqual(before + cost - after, cost + 250)
            before = after
        self.assertEqual(fcall("rl_sliding", "s", "354", "1s")[:3], [0, 354, 0])
        self.assertEqual(call("ZCARD", "s"), before, "a refusal trims nothing")

    def test_units_of_one_microsecond_get_members_of_their_own(self):
        """Protects entries from being overwritten: the next free integers are taken, checked."""
        call, fcall = self.server.call, self.server.fcall
        call("ZADD", "s", T0, T0 + 2)
        self.assertEqual(fcall("rl_sliding", "s", "1000", "1s", "COST", "3"), [1, 1000, 996, 0, 1000])
        self.assertEqual(call("ZRANGE", "s", 0, -1), [b"%d" % (T0 + n) for n in (0, 1, 2, 3)])
        for n in range(5, 55):
            self.assertEqual(fcall("rl_sliding", "t", "100000", "1s", "COST", "250")[2], 100000 - 250 * (n - 4))
        self.assertEqual(call("ZCARD", "t"), 12500)
        self.server.set_clock(T0 + 7)
        self.assertEqual(fcall("rl_sliding", "t", "100000", "1s"), [1, 100000, 100000 - 12501, 0, 1000])
        self.assertEqual(call("ZCOUNT", "t", T0 + 7, T0 + 7), 1)

    def test_a_log_from_the_future_is_mended_in_bounded_steps(self):
        """Protects the mending: the highest first, the member kept, the rest counted as now."""
        call, fcall = self.server.call, self.server.fcall
        future = T0 + 3600_000000
        call("ZADD", "s", *[word for n in range(600) for word in (future + n, future + n)])
        self.assertEqual(fcall("rl_sliding", "s", "600", "1s"), [0, 600, 0, 1000, 1000])
        self.assertEqual(call("ZCOUNT", "s", T0, T0), 251)
        self.assertEqual(call("ZSCORE", "s", future + 599), b"%d" % T0)
        self.assertEqual(fcall("rl_sliding", "s", "700", "1s", "COST", "100"), [1, 700, 0, 0, 1000])
        self.assertEqual(call("ZCOUNT", "s", T0, T0), 251 + 349 + 100)

    def test_more_than_720_sub_windows_merge_the_two_oldest_under_the_later_end(self):
        """Protects the bound of a BUCKETS hash."""
        call, fcall = self.server.call, self.server.fcall
        now_ms = T0 // 1000
        call("HSET", "b", *[word for n in range(720) for word in (now_ms - n * 7, n + 1)])
        total = 720 * 721 // 2
        self.assertEqual(fcall("rl_sliding", "b", str(MOST), "1h", "BUCKETS", "360")[:3], [1, MOST, MOST - total - 1])
        self.assertEqual(call("HLEN", "b"), 720)
        self.assertEqual(call("HGET", "b", now_ms - 718 * 7), b"1439")

    def test_an_operators_expiry_that_is_too_short_is_mended_by_a_refusal(self):
        """Protects debts from an expiry that forgets them."""
        call, fcall = self.server.call, self.server.fcall
        for name, words in (("rl_token", ["2", "1", "1h", "COST", "2"]), ("rl_leaky", ["2", "1", "1h", "COST", "2"]),
                            ("rl_sliding", ["2", "1h", "COST", "2"]),
                            ("rl_sliding", ["2", "1h", "BUCKETS", "10", "COST", "2"])):
            call("FLUSHALL")
            self.assertEqual(fcall(name, "k", *words)[0], 1)
            call("PEXPIRE", "k", 50)
            self.assertEqual(fcall(name, "k", *words, "PARTIAL")[0], 0)
            self.assertGreaterEqual(call("PTTL", "k"), 3600000, name)


class Readme(OnServer):
    text = (HERE / "README.md").read_text(encoding="utf-8")

    def test_the_session_is_what_a_server_answers(self):
        """Protects the first thing that people copy."""
        lines = self.text.split("<!-- session")[1].split("```")[1].strip().splitlines()
        shown = []
        for line in lines:
            if line.startswith("127.0.0.1:6379> "):
                reply = self.server.call(*line.split("> ", 1)[1].split())
                shown.append(line)
                if isinstance(reply, Problem):
                    shown.append(f"(error) {reply}")
                else:
                    shown += [f"{n}) (integer) {element}" for n, element in enumerate(reply, 1)]
        self.assertEqual(shown, lines)

    def test_the_acl_line_grants_all_that_the_functions_use(self):
        """Protects users with few rights from a function that fails half way."""
        line = re.search(r"^    (ACL SETUSER .*)$", self.text, re.M).group(1)
        self.assertEqual(self.server.call(*line.split()), b"OK")
        call = self.server.call
        user = Connection(self.server.path)
        try:
            self.assertEqual(user("AUTH", "limiter", "secret"), b"OK")
            self.assertProblem(user("GET", "other"), "NOPERM")
            ms = T0 // 1000
            call("HSET", "rl:merge", *[word for n in range(720) for word in (ms - n, 1)])
            call("ZADD", "rl:trim", *[word for n in range(600) for word in (T0 - 10**6 - n, T0 - 10**6 - n)])
            for now in (T0, T0 - 500_000, T0 + 2_500_000, T0 + 2_600_000):
                self.server.set_clock(now)
                for name, key, words in (
                        ("rl_fixed", "f", "2 1s"), ("rl_fixed", "g", "2 1s BLOCK 5s"),
                        ("rl_sliding", "s", "3 1s COST 2"),
                        ("rl_sliding", "i", "3 1s ID a"), ("rl_sliding", "i", "3 1s ID b COST 2"),
                        ("rl_sliding", "b", "3 1s BUCKETS 2"), ("rl_sliding", "merge", "9999 1h BUCKETS 360"),
                        ("rl_sliding", "trim", "9999 1s"), ("rl_token", "t", "3 1 1s"),
                        ("rl_leaky", "l", "3 1 1s SHAPE")):
                    for _ in range(4):
                        reply = user("FCALL", name, 1, f"rl:{key}", *words.split())
                        self.assertIsInstance(reply, list, (name, key, reply))
                    rule = name[3:].upper()
                    self.assertIsInstance(user("FCALL_RO", "rl_peek", 1, f"rl:{key}", rule, *words.split()), list)
                    call("PERSIST", f"rl:{key}")
            self.assertProblem(user("FCALL", "rl_fixed", 1, "other", "2", "1s"), "NOPERM")
        finally:
            user.close()


class Replicas(OnServer):
    def test_effects_reach_a_replica_and_peek_works_there(self):
        """Protects replication: equal values and expiries, PEEK allowed there, writing refused."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # The delay before a diskless transfer is counted on the clock that stands still here.
        primary = Server("--repl-diskless-sync", "no", port=port)
        replica = Server("--replicaof", "127.0.0.1", str(port), library=False)
        try:
            self.wait_for(lambda: "up" == replica.info("replication", "master_link_status"))
            for now in (T0, T0 + 1, T0 + 700_000, T0 + 2_000_000, T0 + 1_000_000):
                primary.set_clock(now)
                replica.set_clock(now)
                for _ in range(3):
                    for name, words in (("rl_fixed", ["4", "1s"]), ("rl_sliding", ["4", "1s", "COST", "2"]),
                                        ("rl_sliding", ["4", "1s", "ID", "a"]),
                                        ("rl_sliding", ["9", "1s", "BUCKETS", "3"]),
                                        ("rl_token", ["4", "3", "1s"]), ("rl_leaky", ["4", "3", "1s"])):
                        self.assertIsInstance(primary.fcall(name, f"{name}{len(words)}{words[2:3]}", *words), list)
            offset = lambda of, field: int(of.info("replication", field))
            self.wait_for(lambda: offset(primary, "master_repl_offset") == offset(replica, "slave_repl_offset"))
            keys = primary.call("KEYS", "*")
            self.assertEqual(len(keys), 6)
            for key in keys:
                self.assertEqual(primary.call("TYPE", key), replica.call("TYPE", key))
                self.assertEqual(primary.call("DUMP", key), replica.call("DUMP", key), key)
                self.assertEqual(primary.call("PEXPIRETIME", key), replica.call("PEXPIRETIME", key), key)
            peek = ("FCALL_RO", "rl_peek", 1, "rl_token3['1s']", "TOKEN", "4", "3", "1s")
            self.assertEqual(replica.call(*peek), primary.call(*peek))
            self.assertEqual(len(replica.call(*peek)), 5)
            self.assertProblem(replica.fcall("rl_fixed", "k", "4", "1s"), "READONLY")
        finally:
            for server in (replica, primary):
                server.call.close()
                server.stop()

    def wait_for(self, condition):
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline, "the replica did not catch up")
            time.sleep(0.01)


class Memory(OnServer):
    options = ("--maxmemory-policy", "noeviction")
    needs_held_clock = False

    def test_a_full_server_refuses_writes_and_still_answers_peek(self):
        """Protects the flags: as for the commands of the module, deny-oom for all but PEEK."""
        self.server.call("CONFIG", "SET", "maxmemory", "1")
        self.assertProblem(self.server.fcall("rl_fixed", "k", "5", "1m"), "OOM")
        self.assertEqual(self.server.fcall("rl_peek", "k", "FIXED", "5", "1m"), [1, 5, 4, 0, 60000])


# --------------------------------------------------------------------------------------------------- beside the module

COMMAND = {"FIXED": "RL.FIXED", "LOG": "RL.SLIDING", "BUCKETS": "RL.SLIDING", "TOKEN": "RL.TOKEN", "LEAKY": "RL.LEAKY"}


class Mixed(unittest.TestCase):
    """The same random history on two servers: one with the module alone, one where module and library take turns."""

    @classmethod
    def setUpClass(cls):
        if not MODULE.exists():
            REPORT.append(f"beside the module: not run, {MODULE} does not exist")
            raise unittest.SkipTest("the module is not built")
        cls.alone = Server("--loadmodule", str(MODULE), library=False)
        cls.mixed = Server("--loadmodule", str(MODULE))
        if not cls.alone.holds:
            cls.tearDownClass()
            raise unittest.SkipTest("this server's clock cannot be held")

    @classmethod
    def tearDownClass(cls):
        for server in (cls.alone, cls.mixed):
            server.call.close()
            server.stop()

    def both(self):
        return self.alone, self.mixed

    def setUp(self):
        for server in self.both():
            server.set_clock(T0)
            server.call("FLUSHALL")
            server.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")

    def test_module_and_library_take_turns_on_the_same_keys(self):
        """Protects a fleet in transition: nobody can tell which of the two answered, debts and refunds included."""
        for kind in MODELS:
            for large in (False, True):
                if kind == "LOG" and large:
                    continue
                self.setUp()
                functions = self.compare(kind, large)
                digits = " up to fifteen digits" if large else ""
                REPORT.append(f"mixed history {kind}{digits}: {STEPS} calls, {functions} of them by the library,"
                              " agree with the module alone")

    def compare(self, kind, large):
        dice = random.Random(f"{SEED} mixed {kind} {large}")
        numbers, wait, functions, last = Numbers(dice, kind, large), 0, 0, None
        alone, mixed = self.both()
        for step in range(STEPS):
            now = max(T0, alone.now + numbers.step(wait))
            fresh = now > LATEST
            if fresh:
                now = T0
                numbers.renew()
            for server in self.both():
                server.set_clock(now)
                if fresh:
                    server.call("FLUSHALL")
            # The two may set different expiries, both within the contract: a key gone on one is removed on the other.
            if not (alone.call("EXISTS", "k") and mixed.call("EXISTS", "k")):
                for server in self.both():
                    server.call("DEL", "k")
            rule = numbers.rule()
            if kind == "LOG" and last and (now < last[0] or rule.period_ms > last[1]):
                # Entries that had left the window, not trimmed yet, may count again or not: neither server keeps them.
                for server in self.both():
                    server.call("ZREMRANGEBYSCORE", "k", "-inf", last[0] - last[1] * 1000)
            last = now, rule.period_ms
            draw = dice.random()
            if draw < 0.1:
                # Of options these verbs know only COST, ALIGN (TZ), BUCKETS.
                for name in ("PARTIAL", "BLOCK", "ID", "SHAPE", "WITHIN"):
                    rule.options.pop(name, None)
            words = rule.words()
            verb = "RL.REFUND" if draw < 0.05 else "RL.CHARGE" if draw < 0.1 else "RL.PEEK" if draw < 0.25 else None
            named = [RULE_NAME[kind]] if verb else []
            expected = alone.call(verb or COMMAND[kind], "k", *named, *words)
            if verb in (None, "RL.PEEK") and dice.random() < 0.5:
                functions += 1
                reply = mixed.fcall("rl_peek" if verb else ALGORITHM[kind], "k", *named, *words)
            else:
                reply = mixed.call(verb or COMMAND[kind], "k", *named, *words)
            self.assertIsInstance(expected, list)
            self.assertEqual(reply, expected, f"{kind} step {step} at {now}: {verb} {words}")
            wait = reply[3] if reply[0] == 0 else 0
        return functions

    def test_both_find_fault_with_the_same_words(self):
        """Protects callers from a call that one of the two accepts and the other does not."""
        dice = random.Random(f"{SEED} words")
        vocabulary = ["0", "1", "5", "05", "-1", "1.5", "100000", "100001", str(MOST), str(MOST + 1), "", " 5",
                      "x" * 70, "1ms", "10s", "1S", "0s", "01m", "60", "61", "3650d", "3651d", "521w", "1w", "1mo",
                      "5mo", "1y",
                      "COST", "cost", "PARTIAL", "ALIGN", "TZ", "BLOCK", "ID", "BUCKETS", "SHAPE", "WITHIN", "COSTS",
                      "250", "251", "360", "361", "2", "+02:00", "-23:59", "+24:00", "+2:00", "02:00", "a b", "a\tb",
                      "x" * 128, "x" * 129, "1\x00", b"\xff\x01\n", "FIXED", "token", "NONSENSE"]
        quoted = re.compile(r"'[^']*'")
        faults = same_text = 0
        for step in range(STEPS):
            command = dice.choice(list(FUNCTIONS))
            words = []
            if command == "RL.PEEK":
                words.append(dice.choice(("FIXED", "sliding", "TOKEN", "LEAKY", *vocabulary)))
            words += dice.choice((["5", "10s"], ["5", "1", "10s"], ["5", "1mo"], dice.choices(vocabulary, k=3)))
            words += dice.choices(vocabulary, k=dice.choice((0, 0, 1, 2, 2, 3, 4)))
            if dice.random() < 0.3:
                words[dice.randrange(len(words))] = dice.choice(vocabulary)
            if command == "RL.PEEK" and dice.random() < 0.2:
                words = [b" ".join(word if isinstance(word, bytes) else word.encode() for word in words)]
            self.alone.call("FLUSHALL")
            self.mixed.call("FLUSHALL")
            expected = self.alone.call(command, "k", *words)
            reply = self.mixed.fcall(FUNCTIONS[command], "k", *words)
            told = f"{command} {words}: {reply!r}, the module says {expected!r}"
            self.assertEqual(isinstance(reply, Problem), isinstance(expected, Problem), told)
            if not isinstance(reply, Problem):
                self.assertEqual(reply, expected, told)
                continue
            faults += 1
            if "wrong number of arguments" in str(expected):
                self.assertIn("ERR ", str(reply), told)
                continue
            self.assertEqual(quoted.search(str(reply)) is None, quoted.search(str(expected)) is None, told)
            if quoted.search(str(reply)):
                self.assertEqual(quoted.search(str(reply)).group(), quoted.search(str(expected)).group(), told)
            self.assertEqual(str(reply).split()[:2], str(expected).split()[:2], told)
            same_text += str(reply) == str(expected)
        REPORT.append(f"mixed words: {STEPS} calls, {faults} faulty for both; {same_text} texts the same to the letter")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rl-clock-") as folder:
        Server.build_clock(folder)
        program = unittest.main(exit=False, verbosity=2)
    version = subprocess.run([server_program(), "--version"], capture_output=True, text=True).stdout.strip()
    print(f"\nrl.lua on {version}")
    for line in REPORT:
        print(" ", line)
    sys.exit(0 if program.result.wasSuccessful() else 1)
