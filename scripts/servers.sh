#!/usr/bin/env bash
# Puts the servers that the tests run against into the cache: scripts/servers.sh [name...]
#
#   redis-7.0     the distribution's own binary where it is a 7.0, else built from Debian 12's source package
#   redis-8.0     built from Debian 13's source package
#   redis-newest  the newest Redis that Debian has (experimental, else sid)
#   valkey-8      Debian 13
#   valkey-9      Debian sid
#
# Without names: all of them. A server that is there already is left alone; remove its folder to have it built anew.
# SKIP=name,name leaves servers out, and says so. Any other server that cannot be had makes this script fail.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/servers
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'servers: %s\n' "$*" >&2; }

# The mirror is this machine's own: the first Debian archive named in apt's sources, or DEBIAN_MIRROR.
mirror() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        printf '%s\n' "$DEBIAN_MIRROR"
    else
        grep -rhoE '[a-z+]+:/[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1
    fi
}

# fetch_source <package> <suite>...: the newest original source tarball in these suites, into the present folder.
# Everything apt writes stays in this folder, so the machine's own lists and sources are not touched. Signatures are
# checked; that a mirror lags behind, so that its lists have expired, is no harm here.
fetch_source() {
    local package=$1 from suite
    shift
    from=$(mirror)
    [ -n "$from" ] || { say "no Debian archive in apt's sources; name one in DEBIAN_MIRROR"; return 1; }
    [ -e "$keyring" ] || { say "$keyring is missing (package debian-archive-keyring)"; return 1; }
    mkdir -p apt/lists/partial apt/cache/archives/partial
    for suite; do
        printf 'deb-src [signed-by=%s] %s %s main\n' "$keyring" "${from% }" "$suite"
    done >apt/sources.list
    local apt=(apt-get -q -o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o APT::Update::Error-Mode=any
        -o Acquire::Check-Valid-Until=false)
    if ! { "${apt[@]}" update && "${apt[@]}" source --download-only --tar-only "$package"; } >apt/log 2>&1; then
        cat apt/log >&2
        return 1
    fi
}

# build <name> <flavour> <suite>...: fetch, compile, and move into the cache in one step, so that a broken build leaves
# nothing that looks like a server. Flavour is the prefix of the programs: redis or valkey.
build() {
    local name=$1 flavour=$2 program
    shift 2
    say "$name: building from Debian's source package ($*); this takes some minutes"
    mkdir source out
    "$here/need.sh" compile || return 1
    fetch_source "$flavour" "$@" || return 1
    tar -xf "$flavour"_*.orig.tar.* -C source --strip-components=1 || return 1
    make -C source/src -j"$(nproc)" BUILD_TLS=no "$flavour-server" "$flavour-cli" "$flavour-benchmark" >build.log 2>&1 || {
        tail -n 30 build.log >&2
        return 1
    }
    for program in server cli benchmark; do
        cp "source/src/$flavour-$program" out/ || return 1
        [ "$flavour" = redis ] || ln -s "$flavour-$program" "out/redis-$program" || return 1
    done
    mv -T out "$cache/$name"
}

# make_server <name>: in an empty folder of its own that the caller removes.
make_server() {
    case $1 in
        redis-7.0)
            "$here/need.sh" server >/dev/null || true
            [ -x "$cache/$1/redis-server" ] || build "$1" redis bookworm
            ;;
        redis-8.0) build "$1" redis trixie ;;
        redis-newest) build "$1" redis sid experimental ;;
        valkey-8) build "$1" valkey trixie ;;
        valkey-9) build "$1" valkey sid ;;
    esac
}

# The number that a server says of itself.
version() { "$cache/$1/redis-server" --version | sed -E 's/.* v=([0-9.]+).*/\1/'; }

# A suite moves on with time: a server of another line under this name would make the result table lie.
right_line() {
    case $1 in
        redis-newest) true ;;
        *) [[ $(version "$1"). == "${1#*-}".* ]] ;;
    esac
}

main() {
    local names=("$@") name scratch failed=0
    [ $# -gt 0 ] || names=(redis-7.0 redis-8.0 redis-newest valkey-8 valkey-9)
    mkdir -p "$cache"
    # One builder at a time; whoever comes second finds the work done.
    exec 9>"$cache/.lock"
    flock 9
    for name in "${names[@]}"; do
        case $name in redis-7.0 | redis-8.0 | redis-newest | valkey-8 | valkey-9) ;; *)
            say "$name: no such server"
            exit 2 ;;
        esac
        if [[ ",${SKIP:-}," == *",$name,"* ]]; then
            say "$name: skipped, as SKIP says"
            continue
        fi
        if [ ! -x "$cache/$name/redis-server" ]; then
            scratch=$(mktemp -d "$cache/.build-XXXXXX")
            (cd "$scratch" && make_server "$name") || true
            rm -rf "$scratch"
        fi
        if [ ! -x "$cache/$name/redis-server" ]; then
            say "$name: cannot be had"
            failed=1
        elif ! right_line "$name"; then
            say "$name: $cache/$name holds version $(version "$name")"
            failed=1
        else
            say "$name: version $(version "$name") in $cache/$name"
        fi
    done
    return "$failed"
}

main "$@"
