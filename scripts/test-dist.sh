#!/usr/bin/env bash
# Whoever fetches what `make dist` made can use it: it is complete, it is the same whenever it is made, a server loads it from
# where it is put, and purging the package leaves nothing. RL_SERVER is the server, RL_MODULE what target/dist was made of.
set -euo pipefail
cd "$(dirname "$0")/.."
server=${RL_SERVER:-redis-server}
cli=$(dirname "$(command -v "$server")")/redis-cli
[ -x "$cli" ] || cli=redis-cli
place=$(mktemp -d)
pid=
package=
stop() {
    trap - EXIT
    [ -z "$pid" ] || { kill "$pid"; wait "$pid"; } 2>/dev/null || true
    [ -z "$package" ] || dpkg --purge "$package" >/dev/null 2>&1 || true
    rm -rf "$place"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

passed=0
ok() { passed=$((passed + 1)) && printf 'ok: %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# loads <module>: a server with it answers RL.TOKEN with the numbers of the README.
loads() {
    local answer
    "$server" --port 0 --unixsocket "$place/redis.sock" --dir "$place" --save "" --loadmodule "$1" >"$place/redis.log" 2>&1 &
    pid=$!
    until answer=$("$cli" -s "$place/redis.sock" RL.TOKEN user:42 10 1 1s 2>/dev/null) && [ -n "$answer" ]; do
        kill -0 "$pid" 2>/dev/null || { cat "$place/redis.log" >&2; fail "no server with $1"; }
        sleep 0.05
    done
    [ "$(tr '\n' ' ' <<<"$answer")" = "1 10 9 0 1000 " ] || fail "RL.TOKEN with $1: $answer"
    kill "$pid"
    wait "$pid" || true
    pid=
}

# All files below a folder that a package of ours may fill.
traces() { find /usr/lib/redis /usr/share/doc/redis-limiters /var/lib/dpkg/info/redis-limiters.* 2>/dev/null | sort || true; }

(cd target/dist && sha256sum --quiet --check SHA256SUMS) || fail "the checksums in target/dist"
cp -r target/dist "$place/first"
(umask 077 && TZ=Asia/Tokyo scripts/dist.sh >/dev/null)
cmp "$place/first/SHA256SUMS" target/dist/SHA256SUMS || fail "made twice, and not the same"
ok "made twice, the files are the same byte by byte"

tar -C "$place" -xzf target/dist/redis-limiters-*.tar.gz
unpacked=$(echo "$place"/redis-limiters-*/)
(cd "$unpacked" && sha256sum --quiet --check SHA256SUMS) || fail "the archive's checksums"
for file in README.md LICENSE CHANGELOG.md redis.conf.example docs/commands.md functions/rl.lua libredis_limiters.so; do
    [ -s "$unpacked/$file" ] || fail "the archive lacks $file"
done
while read -r link; do
    [ -e "$unpacked/$link" ] || fail "the archive's README leads to $link, which is not in it"
done < <(grep -oE '\]\([^)#]+' "$unpacked/README.md" | cut -c3- | grep -v '^https\?:')
! nm "$unpacked/libredis_limiters.so" 2>/dev/null | grep -q . || fail "the module is not stripped"
ok "the archive is complete, and its checksums are right"
loads "$unpacked/libredis_limiters.so"
ok "a server loads the module from the archive"

deb=$(compgen -G 'target/dist/*.deb' || true)
if [ -z "$deb" ]; then
    echo "skipped: the package, which is made where Debian's tools are"
elif [ "$(id -u)" -eq 0 ] && ! dpkg -s redis-limiters >/dev/null 2>&1; then
    traces >"$place/before"
    package=redis-limiters
    dpkg -i "$deb" >/dev/null
    loads /usr/lib/redis/modules/libredis_limiters.so
    ok "installed, and a server loads /usr/lib/redis/modules/libredis_limiters.so"
    for file in README.md docs/commands.md examples/redis.conf.example examples/rl.lua copyright changelog.gz; do
        [ -s "/usr/share/doc/redis-limiters/$file" ] || fail "the package lacks $file"
    done
    dpkg --purge "$package" >/dev/null
    package=
    traces | diff "$place/before" - || fail "purging the package leaves something"
    ok "purged, and nothing is left"
else
    dpkg-deb -x "$deb" "$place/installed"
    loads "$place/installed/usr/lib/redis/modules/libredis_limiters.so"
    ok "a server loads the module from the package"
    echo "skipped: installing the package, which takes root and no package of this name"
fi
if [ -z "$deb" ] || ! command -v lintian >/dev/null; then
    echo "skipped: lintian, which is not here"
else
    # A package that is not Debian's closes no bug of Debian's.
    lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$deb" || fail "lintian"
    ok "lintian finds no error and nothing to warn of"
fi
printf '%s passed, 0 failed\n' "$passed"
