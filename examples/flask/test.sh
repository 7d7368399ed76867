#!/usr/bin/env bash
# Real processes only: gunicorn with four workers, Redis with the module, requests over TCP.
# RL_SERVER and RL_MODULE as for run.sh. Arguments go to unittest: ./test.sh Batches -v
set -euo pipefail
cd "$(dirname "$0")"
export RL_MODULE=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
export RL_SERVER=${RL_SERVER:-redis-server}
[ -e "$RL_MODULE" ] || { echo "no module at $RL_MODULE: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
../../scripts/need.sh python
python=$(./install.sh)
export PYTHONDONTWRITEBYTECODE=1
exec "$python" test_app.py "$@"
