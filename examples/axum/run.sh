#!/usr/bin/env bash
# Builds the application, starts a Redis with the module and the application on it; Ctrl-C ends both.
#
#   RL_SERVER, RL_MODULE                       see ../redis.sh
#   BIND         where the application listens   default: 127.0.0.1:8002
#   REDIS_PORT   where Redis listens             default: 6397
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
port=${REDIS_PORT:-6397}
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples/axum-target
cargo build --locked --quiet

start_redis "$port"
REDIS_URL=redis://127.0.0.1:$port "$CARGO_TARGET_DIR/debug/axum-limits" &
pids+=($!)
# Redis may end and be started again by hand meanwhile: what the application does then is worth a look.
wait "${pids[1]}"
