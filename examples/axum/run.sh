#!/usr/bin/env bash
# Builds the application, starts a Redis with the module and the application on it; Ctrl-C ends both.
#
#   RL_SERVER    redis-server, 7.0 or later      default: the one on the PATH, else that of `make run`
#   RL_MODULE    libredis_limiters.so            default: the one that `make build` leaves
#   BIND         where the application listens   default: 127.0.0.1:8002
#   REDIS_PORT   where Redis listens             default: 6397
set -euo pipefail
cd "$(dirname "$0")"
module=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
# Else the one that `make run` fetched.
cached=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/servers/redis-7.0/redis-server
server=${RL_SERVER:-$(command -v redis-server || echo "$cached")}
port=${REDIS_PORT:-6397}
[ -e "$module" ] || { echo "no module at $module: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
command -v "$server" >/dev/null || { echo "no $server: set RL_SERVER to a redis-server" >&2; exit 1; }
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples/axum-target
cargo build --locked --quiet

data=$(mktemp -d)
redis=
application=
stop() {
    trap - EXIT INT TERM
    [ -z "$application" ] || { kill "$application" && wait "$application"; } 2>/dev/null || true
    [ -z "$redis" ] || { kill "$redis" && wait "$redis"; } 2>/dev/null || true
    rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$server" --port "$port" --bind 127.0.0.1 --dir "$data" --save "" --appendonly no --loadmodule "$module" >"$data/redis.log" &
redis=$!
until grep -qs "Ready to accept connections" "$data/redis.log"; do
    kill -0 "$redis" 2>/dev/null || { cat "$data/redis.log" >&2; exit 1; }
    sleep 0.1
done
echo "redis-server has the process id $redis and the port $port"
REDIS_URL=redis://127.0.0.1:$port "$CARGO_TARGET_DIR/debug/axum-limits" &
application=$!
# Redis may end and be started again by hand meanwhile: what the application does then is worth a look.
wait "$application"
