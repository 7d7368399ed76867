"""Tests of demo.py on a real server, as somebody sees it in a terminal and as a pipe sees it.

Python's standard library only; run as `python3 scripts/test_demo.py`. RL_SERVER and RL_MODULE say what is under test.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import demo
from traffic import Limiter

DEMO = Path(__file__).resolve().parent / "demo.py"
LONGEST_S = 180.0
ROW = re.compile(r"^([A-Z ]+?) +(\d+) +(\d+) +(\d+) +(\d+) \(", re.MULTILINE)


def server_of(printed: str) -> int:
    """The process of the server that the demonstration says it started."""
    found = re.search(r"The server is process (\d+)\.", printed)
    if found is None:
        raise AssertionError(f"no server named:\n{printed}")
    return int(found[1])


def lives(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


class Terminal:
    """The demonstration in a terminal of its own."""

    def __init__(self, seconds: int) -> None:
        self.printed = ""
        self.process, self.master = pty.fork()
        if self.process == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, str(DEMO), "--seconds", str(seconds)])

    def read_until(self, what: str) -> None:
        """Reads until this has been printed, or to the end where nothing is named."""
        deadline = time.monotonic() + LONGEST_S
        while not what or what not in self.printed:
            if not select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"waited in vain for {what or 'the end'}:\n{self.printed}")
            try:
                # The other side of a terminal that is gone is an error, and not an end of file.
                piece = os.read(self.master, 65536)
            except OSError:
                piece = b""
            self.printed += piece.decode(errors="replace")
            if not piece:
                return

    def status(self) -> int:
        """The exit status, waited for with a bound."""
        deadline = time.monotonic() + LONGEST_S
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self.process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.process, signal.SIGKILL)
        raise AssertionError(f"did not end:\n{self.printed}")


class Demonstration(unittest.TestCase):
    def assert_kept(self, printed: str) -> None:
        """Every limiter is in the table with the same calls, and within its promise."""
        rows = [(name, *map(int, numbers)) for name, *numbers in ROW.findall(printed.replace("\r", ""))]
        names = [limiter.name for limiter in demo.limiters(demo.LIMIT, demo.PERIOD_S, demo.SUB_WINDOWS)]
        self.assertEqual([row[0] for row in rows], names, printed)
        self.assertEqual(len({asked for _, asked, *_ in rows}), 1, printed)
        for name, asked, passed, most, promised in rows:
            self.assertTrue(0 < most <= promised and most <= passed <= asked, f"{name}:\n{printed}")

    def test_ends_by_itself(self) -> None:
        """Protects a demonstration that nobody watches: it ends, says what is true, and leaves nothing behind."""
        run = [sys.executable, str(DEMO), "--seconds", "8"]
        done = subprocess.run(run, capture_output=True, text=True, timeout=LONGEST_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assert_kept(done.stdout)
        for act in demo.ACTS:
            self.assertIn(f"\n{act.name}: ", done.stdout)
        self.assertFalse(lives(server_of(done.stdout)))

    def test_draws_in_a_terminal(self) -> None:
        """Protects the bars: they are drawn over each other, and the same table stands below."""
        terminal = Terminal(4)
        terminal.read_until("")
        self.assertEqual(terminal.status(), 0, terminal.printed)
        self.assertIn("██", terminal.printed)
        self.assertRegex(terminal.printed, r"\x1b\[\d+A\r")
        self.assert_kept(terminal.printed)
        self.assertFalse(lives(server_of(terminal.printed)))

    def test_ctrl_c(self) -> None:
        """Protects whoever has seen enough: Ctrl-C ends it with the table, and its server with it."""
        terminal = Terminal(600)
        terminal.read_until("██")
        server = server_of(terminal.printed)
        self.assertTrue(lives(server))
        os.write(terminal.master, b"\x03")
        terminal.read_until("")
        self.assertEqual(terminal.status(), 130, terminal.printed)
        self.assert_kept(terminal.printed)
        self.assertFalse(lives(server))

    def test_terminal_is_closed(self) -> None:
        """Protects the machine of somebody who closes the window: the server does not go on alone."""
        terminal = Terminal(600)
        terminal.read_until("██")
        server = server_of(terminal.printed)
        os.close(terminal.master)
        terminal.status()
        self.assertFalse(lives(server))

    def test_counts_what_is_within_a_period(self) -> None:
        """Protects the verdict: one more than promised within a period is told, one a period later is not."""
        lane = demo.Lane(Limiter("ONE", ("FIXED", 1, "2s"), "the limit", 1))
        lane.hear([1, 1, 0, 0, 2000], 0, 10)
        lane.hear([0, 1, 0, 1000, 1000], 1_000_000, 1_000_010)
        lane.hear([1, 1, 0, 0, 2000], demo.PERIOD_US, demo.PERIOD_US + 10)
        self.assertEqual((lane.asked, len(lane.passed), lane.most, lane.kept), (3, 2, 1, True))
        lane.hear([1, 1, 0, 0, 2000], demo.PERIOD_US + 100, demo.PERIOD_US + 110)
        self.assertEqual((lane.most, lane.kept), (2, False))


if __name__ == "__main__":
    unittest.main(verbosity=2)
