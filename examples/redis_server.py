"""What the examples' tests in Python share: a Redis with the module that a test kills and starts again."""

import os
import signal
import socket
import subprocess
import time

MODULE = os.environ["RL_MODULE"]
SERVER = os.environ["RL_SERVER"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds=15, what="the condition"):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return result


class RedisServer:
    """A redis-server of this test's own."""

    def __init__(self, folder, *settings):
        self.folder = folder
        self.settings = settings
        self.port = free_port()
        self.process = None

    def start(self, *, module=True):
        load = ["--loadmodule", MODULE] if module else []
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                 "--appendonly", "no", *self.settings, *load], stdout=log, stderr=log)
        until(self.answers, what="redis-server starts")

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError("redis-server ended: " + (self.folder / "redis.log").read_text()[-2000:])
        try:
            return self.say("PING") == "+PONG"
        except OSError:
            return False

    def say(self, line):
        """A command without blanks in its words; the whole reply of INFO, the first line of any other."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection, connection.makefile("rwb") as file:
            file.write(line.encode() + b"\r\n")
            file.flush()
            first = file.readline().decode().rstrip()
            return file.read(int(first[1:])).decode() if first.startswith("$") and first != "$-1" else first

    def kill(self, how=signal.SIGKILL):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(10)
