# shellcheck shell=bash
# What the run.sh and test.sh of every example begin with: they source this file from their own folder.
#
#   RL_SERVER    redis-server, 7.0 or later      default: the one on the PATH, else that of `make run`
#   RL_MODULE    libredis_limiters.so            default: the one that `make build` leaves

export RL_MODULE=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
cached=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/servers/redis-7.0/redis-server
export RL_SERVER=${RL_SERVER:-$(command -v redis-server || echo "$cached")}
[ -e "$RL_MODULE" ] || { echo "no module at $RL_MODULE: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
command -v "$RL_SERVER" >/dev/null || { echo "no $RL_SERVER: set RL_SERVER to a redis-server" >&2; exit 1; }

# start_redis <port>: a Redis with the module, whose files are in the folder $data. It ends with the script, and so does
# whatever else has its process id in `pids`.
start_redis() {
    data=$(mktemp -d)
    pids=()
    trap stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    "$RL_SERVER" --port "$1" --bind 127.0.0.1 --dir "$data" --save "" --appendonly no --loadmodule "$RL_MODULE" \
        >"$data/redis.log" &
    pids+=($!)
    until grep -qs "Ready to accept connections" "$data/redis.log"; do
        kill -0 "${pids[0]}" 2>/dev/null || { cat "$data/redis.log" >&2; exit 1; }
        sleep 0.1
    done
    echo "redis-server has the process id ${pids[0]} and the port $1"
}

# The last one first: an application gives back what it holds.
stop() {
    trap - EXIT INT TERM
    local index
    for ((index = ${#pids[@]} - 1; index >= 0; index--)); do
        { kill "${pids[index]}" && wait "${pids[index]}"; } 2>/dev/null || true
    done
    rm -rf "$data"
}
