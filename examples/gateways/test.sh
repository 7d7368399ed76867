#!/usr/bin/env bash
# Real processes only: nginx, Envoy, Redis with the module, requests over TCP. RL_SERVER and RL_MODULE as for run.sh.
# Arguments go to unittest: ./test.sh Outage -v
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
../../scripts/need.sh python
NGINX_ROOT=$(../../scripts/need.sh nginx)
# Without it its tests are skipped, by name.
ENVOY=$(./install.sh) || ENVOY=
export NGINX_ROOT ENVOY PYTHONDONTWRITEBYTECODE=1
exec python3 test_gateways.py "$@"
