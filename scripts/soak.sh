#!/usr/bin/env bash
# The long versions of what `make test` runs in short: scripts/soak.sh [test name...]
#
# Without names: kills, growth, hostile callers, histories, valgrind, the dearest calls, and ten minutes of each fuzz target
# (FUZZ_SECONDS changes that, 0 leaves them out). RL_SERVER and RL_MODULE as in `make test`. The figures are printed and kept in
# target/soak.log. It takes an hour or two and wants a quiet machine.
set -euo pipefail

cd "$(dirname "$0")/.."
log=${CARGO_TARGET_DIR:-target}/soak.log
seconds=${FUZZ_SECONDS:-600}
mkdir -p "$(dirname "$log")"
{
    date -u
    RL_LONG=1 cargo test --locked --test faults -- --test-threads=1 "$@"
    if [ "$seconds" -gt 0 ] && [ $# -eq 0 ]; then
        FUZZ_SECONDS=$seconds scripts/fuzz.sh
    fi
    date -u
} 2>&1 | tee "$log"
