#!/usr/bin/env bash
# Real processes only: nginx, Envoy, Redis with the module, requests over TCP. RL_SERVER and RL_MODULE as for run.sh.
# Arguments go to unittest: ./test.sh Outage -v
set -euo pipefail
cd "$(dirname "$0")"
export RL_MODULE=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
export RL_SERVER=${RL_SERVER:-redis-server}
[ -e "$RL_MODULE" ] || { echo "no module at $RL_MODULE: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
../../scripts/need.sh python
NGINX_ROOT=$(../../scripts/need.sh nginx)
# Without it its tests are skipped, by name.
ENVOY=$(./install.sh) || ENVOY=
export NGINX_ROOT ENVOY PYTHONDONTWRITEBYTECODE=1
exec python3 test_gateways.py "$@"
