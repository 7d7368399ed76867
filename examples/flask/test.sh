#!/usr/bin/env bash
# Real processes only: gunicorn with four workers, Redis with the module, requests over TCP.
# RL_SERVER and RL_MODULE as for run.sh. Arguments go to unittest: ./test.sh Batches -v
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
../../scripts/need.sh python
python=$(./install.sh)
export PYTHONDONTWRITEBYTECODE=1
exec "$python" test_app.py "$@"
