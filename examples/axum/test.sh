#!/usr/bin/env bash
# The lints, then the tests. Real processes only: the application, Redis with the module, requests over TCP.
# RL_SERVER and RL_MODULE as for run.sh.
set -euo pipefail
cd "$(dirname "$0")"
export RL_MODULE=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
export RL_SERVER=${RL_SERVER:-redis-server}
[ -e "$RL_MODULE" ] || { echo "no module at $RL_MODULE: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples/axum-target
../../scripts/need.sh build lint
cargo fmt --check
cargo clippy --quiet --all-targets --locked -- -D warnings
exec cargo test --locked -- --test-threads=2
