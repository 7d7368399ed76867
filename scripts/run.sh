#!/usr/bin/env bash
# Starts a server with the module in the foreground and prints two lines to try: PORT=7777 SERVER=path scripts/run.sh
#
# It listens on loopback only, keeps its files in a temporary folder and its data in memory. A port that is taken is
# left to whoever has it, and the next free one is used.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
module=$(cd "$root" && realpath -m "${CARGO_TARGET_DIR:-target}")/release/libredis_limiters.so
first_port=${PORT:-6379}

say() { printf '%s\n' "$*"; }
fail() { printf 'run: %s\n' "$*" >&2; exit 1; }

# holder <port>: who listens there, in words; fails when nobody does. Read from /proc, which needs no tool.
holder() {
    local hex uid inode pid
    hex=$(printf '%04X' "$1")
    # State 0A is LISTEN; the eighth column is the owner's uid, the tenth the socket's inode.
    read -r uid inode < <(awk -v end=":$hex\$" '$4 == "0A" && $2 ~ end { print $8, $10; exit }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null) || return 1
    pid=$({ find /proc/[0-9]*/fd -lname "socket:\[$inode\]" 2>/dev/null || true; } | head -n 1 | cut -d / -f 3)
    if [ -n "$pid" ]; then
        say "$(cat "/proc/$pid/comm" 2>/dev/null || echo "a process") (pid $pid)"
    else
        # Sockets of other users' processes cannot be followed to the process.
        say "a process of user $(getent passwd "$uid" | cut -d : -f 1 | grep . || echo "$uid")"
    fi
}

# Whether the server that answers on this port is the one we started, and not somebody else's.
ours_answers() {
    "$cli" -h 127.0.0.1 -p "$1" INFO server 2>/dev/null | tr -d '\r' | grep -qx "process_id:$pid"
}

# start <port>: starts the server and waits until it answers; fails when it ends or stays silent.
start() {
    # In a session of its own, so that a Ctrl-C reaches the server once and through us: for Redis a second one means
    # to leave everything as it is.
    setsid "$server" --port "$1" --bind 127.0.0.1 -::1 --dir "$files" --save '' --appendonly no --daemonize no \
        --loadmodule "$module" &
    pid=$!
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        ! ours_answers "$1" || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    stop
    return 1
}

stop() {
    [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true
    while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do wait "$pid" || true; done
    pid=
}

invitation() {
    local name=redis-cli
    command -v redis-cli >/dev/null || name=$cli
    cat <<TEXT

The limiters answer on 127.0.0.1:$1. To try, in another terminal:

  one admission (allowed, limit, remaining, wait_ms, reset_after_ms):
$name -p $1 RL.TOKEN user:42 10 1 1s

  three admissions, a refusal, and one more after the stated wait:
(while set -- \$($name -p $1 RL.TOKEN demo 3 1 1s); echo "\$*"; [ "\$1" = 1 ]; do :; done; sleep "\$4"e-3; echo \$($name -p $1 RL.TOKEN demo 3 1 1s))

Ctrl-C stops the server. Its data is in memory only.

TEXT
}

[[ $first_port =~ ^[1-9][0-9]{0,4}$ && $first_port -le 65535 ]] || fail "PORT=$first_port is no port: 1 to 65535"
[ -r "$module" ] || fail "$module is missing: run \"make build\""

server=${SERVER:-$(command -v redis-server || "$here/need.sh" server)}
command -v "$server" >/dev/null || fail "SERVER=$server is no program"
cli=$(command -v redis-cli "$(dirname "$server")/redis-cli" "$(dirname "$server")/valkey-cli" | head -n 1 || true)
if [ -z "$cli" ]; then
    "$here/need.sh" server >/dev/null
    cli=$(command -v redis-cli)
fi

pid=
files=$(mktemp -d "${TMPDIR:-/tmp}/redis-limiters.XXXXXX")
trap 'stop; rm -rf "$files"' EXIT
trap 'stopping=1; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true' INT TERM HUP
stopping=0

for ((port = first_port; port <= 65535 && port < first_port + 100; port++)); do
    if who=$(holder "$port"); then
        say "Port $port is taken by $who."
        continue
    fi
    if start "$port"; then
        invitation "$port"
        status=0
        while kill -0 "$pid" 2>/dev/null; do
            status=0
            wait "$pid" || status=$?
        done
        pid=
        [ "$stopping" -eq 0 ] || exit 0
        exit "$status"
    fi
    [ "$stopping" -eq 0 ] || exit 0
    # Somebody may have taken the port in the meantime; anything else will not get better on another port.
    holder "$port" >/dev/null || fail "the server did not start: see its log above"
done
fail "no free port from $first_port on"
