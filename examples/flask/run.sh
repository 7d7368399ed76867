#!/usr/bin/env bash
# Starts a Redis with the module and the application with four processes on it; Ctrl-C ends both.
#
#   RL_SERVER, RL_MODULE                       see ../redis.sh
#   BIND         where the application listens   default: 127.0.0.1:8000
#   REDIS_PORT   where Redis listens             default: 6399
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
port=${REDIS_PORT:-6399}
python=$(./install.sh)

start_redis "$port"
export REDIS_URL=redis://127.0.0.1:$port
export API_KEYS=${API_KEYS:-'{"key-of-ann": "ann", "key-of-bob": "bob"}'}
export ADMIN_TOKEN=${ADMIN_TOKEN:-let-me-look}
"$python" -m gunicorn --config gunicorn.conf.py app:app &
pids+=($!)
# Redis may end and be started again by hand meanwhile: what the application does then is worth a look.
wait "${pids[1]}"
