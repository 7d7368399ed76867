#!/usr/bin/env bash
# The lints, then the tests. Real processes only: the application, Redis with the module, requests over TCP.
# RL_SERVER and RL_MODULE as for run.sh.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples/axum-target
../../scripts/need.sh build lint
cargo fmt --check
cargo clippy --quiet --all-targets --locked -- -D warnings
exec cargo test --locked -- --test-threads=2
