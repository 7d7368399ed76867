"""Fills a server with keys, many to a call: the loop runs inside the server."""

from __future__ import annotations

from server import Client
from workloads import LUA

BATCH = 2000


def by_command(client: Client, prefix: str, keys: int, words: tuple[str, ...]) -> None:
    """Runs a command, `?` standing for the key, once for each of the keys `prefix` + twelve digits."""
    source = (LUA / "repeat.lua").read_text()
    script = client.call("SCRIPT", "LOAD", source)
    for first in range(0, keys, BATCH):
        client.call("EVALSHA", script, 0, prefix, first, min(first + BATCH, keys) - 1, *words)


def by_script(client: Client, prefix: str, keys: int, name: str, words: tuple[str, ...], times: int = 1) -> None:
    """Runs one of our scripts for each key. A word `?` is a number of sixteen digits, another one each time."""
    script = client.call("SCRIPT", "LOAD", looped((LUA / f"{name}.lua").read_text()))
    size = max(1, BATCH // times)
    for first in range(0, keys, size):
        client.call("EVALSHA", script, 0, prefix, first, min(first + size, keys) - 1, times, *words)


def looped(body: str) -> str:
    """A script's text as a function that is called for a range of keys."""
    return f"""
local function step(KEYS, ARGV)
{body}
end
local given, prefix, times = ARGV, ARGV[1], tonumber(ARGV[4])
for number = tonumber(given[2]), tonumber(given[3]) do
  local key = prefix .. string.format('%012d', number)
  for turn = 1, times do
    local words = {{}}
    for i = 5, #given do
      words[i - 4] = given[i] == '?' and string.format('%016d', 1000000000000000 + number * times + turn) or given[i]
    end
    step({{key}}, words)
  end
end
return 0
"""
