#!/usr/bin/env bash
# Runs the integration tests on every server of the cache: scripts/test-servers.sh [name...] [-- argument...]
#
# Without names: all that servers.sh knows. Arguments go to the tests. SKIP=name,name leaves servers out; one that
# cannot be had and is not named there makes the run fail, and so does a run in which no test ran. SUITES names the
# test binaries, those that need a server by default. RL_MODULE and RL_MODULE_PANIC name the modules, as in `make test`.
# The output of each run is kept in target/test-servers/.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/servers
cd "$here/.."
logs=${CARGO_TARGET_DIR:-target}/test-servers
# Longer than this means that a test hangs.
limit=${TEST_SERVERS_LIMIT:-20m}
read -ra suites <<<"${SUITES:-server faults cluster cell}"
suites=("${suites[@]/#/--test=}")

names=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    names+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#names[@]} -gt 0 ] || names=(redis-7.0 redis-8.0 redis-newest valkey-8 valkey-9)

# reported_version <folder>: what the running server says in INFO, and not what its folder or file is called.
reported_version() (
    files=$(mktemp -d "${TMPDIR:-/tmp}/rl-version.XXXXXX")
    "$1/redis-server" --port 0 --unixsocket "$files/s" --dir "$files" --save '' --logfile "$files/log" >/dev/null &
    pid=$!
    trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$files"' EXIT
    for ((tries = 0; tries < 100; tries++)); do
        # Valkey keeps a redis_version for old clients; its own stands in valkey_version.
        version=$("$1/redis-cli" -s "$files/s" INFO server 2>/dev/null | tr -d '\r' | awk -F : '
            $1 == "redis_version" && name == "" { name = "redis"; version = $2 }
            $1 == "valkey_version" { name = "valkey"; version = $2 }
            END { if (name) print name, version }')
        [ -z "$version" ] || break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    printf '%s\n' "${version:-unknown}"
)

# counted <log> <word>: the sum of a figure over cargo's result lines.
counted() { sed -nE "s/^test result: .* ([0-9]+) $2;.*/\1/p" "$1" | awk '{ sum += $1 } END { print sum + 0 }'; }

mkdir -p "$logs"
failed=0
"$here/servers.sh" "${names[@]}" || failed=1
cargo test --locked "${suites[@]}" --no-run

versions=() passed=() failures=() ignored=() results=()
for name in "${names[@]}"; do
    log=$logs/$name.log
    version=- counts=(- - -) result=ok
    if [[ ",${SKIP:-}," == *",$name,"* ]]; then
        result=skipped
    elif [ ! -x "$cache/$name/redis-server" ]; then
        result=missing
    else
        version=$(reported_version "$cache/$name")
        printf '\n== %s: %s\n' "$name" "$version"
        RL_SERVER=$cache/$name/redis-server timeout --kill-after=10s "$limit" \
            cargo test --locked --no-fail-fast "${suites[@]}" -- "$@" </dev/null 2>&1 | tee "$log" || result=FAILED
        counts=("$(counted "$log" passed)" "$(counted "$log" failed)" "$(counted "$log" ignored)")
        [ "${counts[0]}" -gt 0 ] || result="NO TEST RAN"
    fi
    case $result in ok | skipped) ;; *) failed=1 ;; esac
    versions+=("$version") passed+=("${counts[0]}") failures+=("${counts[1]}") ignored+=("${counts[2]}")
    results+=("$result")
done

row() { printf '%-8s' "$1"; printf ' %13s' "${@:2}"; printf '\n'; }
printf '\n'
row server "${names[@]}"
row INFO "${versions[@]}"
row passed "${passed[@]}"
row failed "${failures[@]}"
row ignored "${ignored[@]}"
row result "${results[@]}"
exit "$failed"
