"""A server for one measurement: started here, spoken to over RESP, stopped by its process id."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

Word = str | bytes | int


class ServerError(Exception):
    """An error reply, or a server that did not start."""


def encode(words: Sequence[Word]) -> bytes:
    """One command as RESP."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
    return b"".join(parts)


class Client:
    """A small RESP2 client. Replies are bytes, int, None, list or, inside a pipeline, a ServerError."""

    def __init__(self, address: str | tuple[str, int], timeout: float = 600.0) -> None:
        if isinstance(address, str):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._socket.connect(address)
        self._file = self._socket.makefile("rb", buffering=1 << 16)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, *words: Word):
        """One command, one reply. An error reply is raised."""
        self._socket.sendall(encode(words))
        reply = self._read()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def pipeline(self, commands: Iterable[Sequence[Word]]) -> list:
        """All commands in one write, then all replies, errors among them."""
        encoded = [encode(words) for words in commands]
        self._socket.sendall(b"".join(encoded))
        return [self._read() for _ in encoded]

    def exchange(self, request: bytes, replies: int) -> list:
        """A request made earlier with `encode`, and its replies."""
        self._socket.sendall(request)
        return [self._read() for _ in range(replies)]

    def _read(self):
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ServerError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"*":
            count = int(rest)
            return None if count < 0 else [self._read() for _ in range(count)]
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._file.read(length + 2)[:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ServerError(rest.decode(errors="replace"))
        raise ServerError(f"unexpected reply {line!r}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(core: int | None):
    """What a child does before it becomes its program: take its core, and room for many connections."""

    def prepare() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 16384 if hard == resource.RLIM_INFINITY else min(16384, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    return prepare


def leave(*_: object) -> None:
    """A request to end becomes an exception, so that the servers are stopped on the way out."""
    raise SystemExit(143)


class Server:
    """One server process in a directory of its own, on a loopback port and a unix socket."""

    def __init__(
        self,
        binary: Path,
        modules: Sequence[Path] = (),
        settings: Sequence[str] = (),
        core: int | None = None,
        wrapper: Sequence[str] = (),
        start_timeout: float = 30.0,
    ) -> None:
        signal.signal(signal.SIGTERM, leave)
        self.binary = binary
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="rl-bench-"))
        self.socket_path = str(self.directory / "server.sock")
        command = [*wrapper, str(binary), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", self.socket_path, "--dir", str(self.directory), "--save", ""]
        command += ["--enable-debug-command", "local", *settings]
        for module in modules:
            command += ["--loadmodule", str(module)]
        self._log_path = self.directory / "server.log"
        self._log = self._log_path.open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, preexec_fn=pinned(core)
        )
        try:
            self._wait(start_timeout)
        except BaseException:
            self.stop()
            raise

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"the server ended at its start:\n{self.log()}")
            try:
                with self.client() as client:
                    client.call("PING")
                    return
            except (OSError, ServerError):
                time.sleep(0.02)
        raise ServerError(f"the server did not answer within {seconds} s:\n{self.log()}")

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")[-4000:]

    def client(self) -> Client:
        return Client(self.socket_path)

    def stop(self) -> None:
        """Ends this process and no other, and removes its directory."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def wait_for(what: str, condition, seconds: float = 60.0, pause: float = 0.02) -> None:
    """Polls until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"waited {seconds} s in vain for {what}")
        time.sleep(pause)


def settle_tables(client: Client, database: int = 0) -> None:
    """Waits until no hash table of the database is on its way to a larger one, and helps it along.

    A table in motion costs memory and makes the commands that move it dearer.
    """

    changes = 25_000
    loop = """for _ = 1, tonumber(ARGV[1]) do
  redis.call('SET', KEYS[1], '1', 'PX', '1000000')
  redis.call('DEL', KEYS[1])
end"""

    def still() -> bool:
        nonlocal changes
        known = client.call("DEBUG", "HTSTATS", database).decode(errors="replace")
        if "rehashing target" not in known and not re.search(r"rehashing index: (?!-1\b)", known):
            return True
        # Each change of a key with a TTL moves a bucket of both tables, so a loop of them moves millions in seconds.
        changes = min(changes * 2, 400_000)
        client.call("EVAL", loop, 1, "settling", changes)
        return False

    wait_for("the tables to settle", still, 300.0)


def info(client: Client, section: str) -> dict[str, str]:
    """One section of INFO as a dictionary."""
    lines = client.call("INFO", section).decode(errors="replace").split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def fields(value: str) -> dict[str, str]:
    """The fields of a line such as `calls=1,usec=2`."""
    return dict(part.split("=", 1) for part in value.split(",") if "=" in part)


def cpu_seconds(client: Client) -> float:
    """The processor's time that the server has used so far, its kernel calls included.

    Unlike a rate it does not suffer when somebody else uses the same core.
    """
    used = info(client, "cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


COUNTS: tuple[str, ...] = ("calls", "usec", "usec_per_call", "failed_calls")


def command_time(client: Client, command: str) -> dict[str, float]:
    """The server's own time for one command since the last CONFIG RESETSTAT, in microseconds."""
    name = command.lower()
    stats = fields(info(client, "commandstats").get(f"cmdstat_{name}", ""))
    spread = fields(info(client, "latencystats").get(f"latency_percentiles_usec_{name}", ""))
    found: dict[str, float] = {key: float(stats[key]) for key in COUNTS if key in stats}
    found.update({key: float(value) for key, value in spread.items()})
    return found


def find_tool(server: Path, tool: str) -> Path:
    """`redis-benchmark` of the server's own folder (or valkey's), else of the PATH."""
    for folder in (server.parent, server.resolve().parent):
        for name in (f"redis-{tool}", f"valkey-{tool}"):
            if (folder / name).is_file():
                return folder / name
    found = shutil.which(f"redis-{tool}") or shutil.which(f"valkey-{tool}")
    if found is None:
        raise ServerError(f"no redis-{tool} beside {server} and none in the PATH")
    return Path(found)
