#!/usr/bin/env bash
# Runs the fuzz targets of fuzz/, each for FUZZ_SECONDS (20): scripts/fuzz.sh [target...]
# FUZZ_SEED makes a run start as the last one with the same number did; without it every run is another.
#
# The stable toolchain is enough: coverage is asked of LLVM itself, and code without unsafe needs no sanitizer. Inputs that
# found something new are kept in fuzz/target/corpus/ for the next run, beside the seeds of fuzz/seeds/. A finding stops
# the run; its input stays in fuzz/target/artifacts/ and can be run again as its only argument.
set -euo pipefail

cd "$(dirname "$0")/../fuzz"
seconds=${FUZZ_SECONDS:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { printf 'fuzz: FUZZ_SECONDS=%s is no number of seconds\n' "$seconds" >&2; exit 2; }
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(grammar records decisions)

# Named, so that build scripts and macros are built without the instrumentation.
triple=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-target}
coverage='-Cpasses=sancov-module -Ccodegen-units=1'
for pass in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=" -Cllvm-args=-sanitizer-coverage-$pass"
done
RUSTFLAGS="--cfg fuzzing $coverage" cargo build --locked --release --target "$triple"

mkdir -p target/artifacts
failed=0
for target in "${targets[@]}"; do
    corpus=target/corpus/$target
    log=target/$target.log
    mkdir -p "$corpus"
    folders=("$corpus")
    [ ! -d "seeds/$target" ] || folders+=("seeds/$target")
    options=(-seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -max_len=2048 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix="target/artifacts/$target-")
    [ ! -f "$target.dict" ] || options+=(-dict="$target.dict")
    if "$built/$triple/release/$target" "${options[@]}" "${folders[@]}" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        edges=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$log" | tail -n 1)
        printf 'fuzz: %-10s %9s executions in %s s, %s edges, %s inputs kept\n' \
            "$target" "$runs" "$seconds" "$edges" "$(find "$corpus" -type f | wc -l)"
    else
        failed=1
        printf 'fuzz: %s FOUND SOMETHING:\n' "$target"
        grep -n -m 1 -A 8 panicked "$log" || tail -n 20 "$log"
        sed -n 's/.*Test unit written to /fuzz: the input: fuzz\//p' "$log"
    fi
done
exit "$failed"
