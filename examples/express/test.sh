#!/usr/bin/env bash
# Real processes only: node, Redis with the module, requests over TCP. RL_SERVER and RL_MODULE as for run.sh.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
../../scripts/need.sh node
copy=$(./install.sh)
cd "$copy"
exec node --test --test-concurrency=1 server.test.js
