#!/usr/bin/env bash
# Starts a Redis with the module and the application on it; Ctrl-C ends both.
#
#   RL_SERVER, RL_MODULE                       see ../redis.sh
#   BIND         where the application listens   default: 127.0.0.1:8001
#   REDIS_PORT   where Redis listens             default: 6398
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
port=${REDIS_PORT:-6398}
copy=$(./install.sh)

start_redis "$port"
REDIS_URL=redis://127.0.0.1:$port node "$copy/server.js" &
pids+=($!)
# Redis may end and be started again by hand meanwhile: what the application does then is worth a look.
wait "${pids[1]}"
