#!/usr/bin/env bash
# Installs what a task needs and this machine lacks: scripts/need.sh <what>...
#
#   build    a C compiler with libc's headers, and libclang with clang's own headers (bindgen reads the server's header)
#   lint     rustfmt and clippy
#   server   a redis-server and redis-cli from the distribution; prints the path of the server on standard output
#   compile  what it takes to compile a server from its source: a C and a C++ compiler, make, tar, gzip, xz
#   python   python3 with its venv module
#   make     make
#   deb      cargo-deb, which writes Debian packages, into the cache; prints its path on standard output
#   cross    Rust's library, a C compiler and libc's headers for aarch64
#   node     node, 20 or later, and npm
#   nginx    nginx with its Lua module, unpacked into the cache; prints the folder on standard output
#   prometheus  Prometheus and redis_exporter, likewise
#
# Says what it does on standard error. As root, or with CI=true, it does not ask; otherwise it asks before sudo.
set -euo pipefail

home=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters
cache=$home/servers

say() { printf 'need: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null; }

# become_root <why> <command>: fills as_root with what makes a command run as root. Where that takes sudo, it asks first.
become_root() {
    local answer
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || fail "$1. As root: $2"
        as_root=(sudo)
        if [ "${CI:-}" = true ]; then
            as_root=(sudo -n)
        else
            printf 'need: %s. Run "sudo %s"? [y/N] ' "$1" "$2" >&2
            # No answer, such as an end of file, is a no.
            read -r answer || answer=
            [[ $answer == [yY]* ]] || fail "nothing installed"
        fi
    fi
}

# A broken list of a third party must not be in the way: whether the packages can be had decides.
update_lists() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 || say "apt-get update failed in part; going on"
}

# install <why> <package>...
install() {
    local why=$1
    shift
    have apt-get || fail "$why. There is no apt-get here: install what Debian calls $*, then try again"
    become_root "$why" "apt-get install --no-install-recommends $*"
    say "$why; installing $*"
    update_lists
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >&2
}

# Whether a program in C compiles and links; a compiler without libc's headers does not count.
c_compiles() {
    have cc && printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' | cc -x c -o /dev/null - 2>/dev/null
}

# Whether libclang is here together with clang's own headers (stddef.h and such) of the same version. One without the
# other fails in the middle of the build, with a message that does not name the package.
libclang_reads() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    local headers library
    for headers in /usr/lib/llvm-*/lib/clang/*/include/stddef.h; do
        # Where nothing matches, the pattern itself comes here.
        [ -e "$headers" ] || continue
        # Of libclang-cpp, which matches nothing here, bindgen can make no use.
        for library in "${headers%/lib/clang/*}"/lib/libclang{.so,-[0-9]*.so}*; do
            [ ! -e "$library" ] || return 0
        done
    done
    # Distributions that do not keep a folder per version.
    compgen -G '/usr/lib*/clang/*/include/stddef.h' >/dev/null && compgen -G '/usr/lib*/libclang.so*' >/dev/null
}

# shellcheck source=/dev/null
is_debian_12() { (. /etc/os-release && [ "${ID:-}-${VERSION_ID:-}" = debian-12 ]) 2>/dev/null; }

need_build() {
    have cargo || fail "there is no cargo: a Rust toolchain is the one thing to bring (rustup installs one)"
    c_compiles || install "No C compiler with libc's headers" gcc libc6-dev
    if ! libclang_reads; then
        # The smallest pair that works: everywhere else the name of the package depends on the release.
        if is_debian_12; then
            install "No libclang with its headers" libclang1-14 libclang-common-14-dev
        else
            install "No libclang with its headers" libclang-dev
        fi
    fi
}

need_lint() {
    local part
    for part in fmt clippy; do
        ! cargo "$part" --version >/dev/null 2>&1 || continue
        say "no cargo $part; asking rustup for it"
        case $part in
            fmt) rustup component add rustfmt >&2 ;;
            clippy) rustup component add clippy >&2 ;;
        esac
    done
}

# Debian's package redis-server would start a service on port 6379. Its package redis-tools does not, and carries the
# same binary under the name redis-check-rdb; called by the name redis-server it is the server. The link goes to the
# cache, in a folder named after the version that the binary reports.
need_server() {
    local checker version folder program
    checker=$(command -v redis-check-rdb || true)
    if [ -z "$checker" ]; then
        install "No redis-server" redis-tools
        checker=$(command -v redis-check-rdb) || fail "package redis-tools brought no redis-check-rdb"
    fi
    version=$( (exec -a redis-server "$checker" --version) | sed -nE 's/.* v=([0-9]+\.[0-9]+)\..*/\1/p' || true)
    [ -n "$version" ] || fail "$checker is no redis-server under another name; name a server in SERVER="
    folder=$cache/redis-$version
    mkdir -p "$folder"
    # A server built from source under this name stays.
    if [ ! -x "$folder/redis-server" ]; then
        say "$checker is redis-server $version under another name; linking it as $folder/redis-server"
        for program in redis-cli redis-benchmark; do
            ln -sf "$(command -v "$program")" "$folder/$program"
        done
        ln -sf "$checker" "$folder/redis-server"
    fi
    printf '%s\n' "$folder/redis-server"
}

need_compile() {
    if ! c_compiles || ! have g++; then install "No compilers for C and C++" gcc g++ libc6-dev; fi
    local program missing=()
    for program in make tar gzip xz; do
        have "$program" || missing+=("${program/%xz/xz-utils}")
    done
    [ ${#missing[@]} -eq 0 ] || install "No ${missing[*]}" "${missing[@]}"
}

# Debian splits venv off: the module is there, but cannot put pip into what it makes.
need_python() { python3 -c 'import ensurepip, venv' 2>/dev/null || install "No python3 with venv" python3 python3-venv; }

need_make() { have make || install "No make" make; }

# Built once, into a folder named after its version, so that nothing of the user's own is replaced.
need_deb() {
    local version=3.8.0
    local folder=$home/tools/cargo-deb-$version
    if [ ! -x "$folder/bin/cargo-deb" ]; then
        need_build
        say "no cargo-deb $version; building it into $folder"
        # Without optimisation it packs a module just as well, and is built sooner.
        CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --quiet --locked --version "$version" --no-default-features \
            --features lzma --root "$folder" cargo-deb >&2
    fi
    # It reads from these what a package depends on, and what it links.
    have dpkg-shlibdeps || install "No dpkg-shlibdeps" dpkg-dev
    printf '%s\n' "$folder/bin/cargo-deb"
}

need_cross() {
    local target=aarch64-unknown-linux-gnu
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
        say "no standard library of Rust for $target; asking rustup for it"
        rustup target add "$target" >&2
    fi
    have aarch64-linux-gnu-gcc || install "No C compiler for aarch64" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
}

need_node() {
    local missing=()
    have node || missing+=(nodejs)
    have npm || missing+=(npm)
    [ ${#missing[@]} -eq 0 ] || install "No ${missing[*]}" "${missing[@]}"
    local major
    major=$(node --version | sed -nE 's/^v([0-9]+).*/\1/p')
    [ "${major:-0}" -ge 20 ] || fail "node is older than 20, and this distribution has no newer one: bring one to the PATH"
}

# Debian's nginx would start a service on port 80 as soon as it is installed. Unpacked it does not, and needs no root.
# unpacked <why> <folder> <package>...: what packages and those that they depend on hold, in a folder of the cache.
unpacked() {
    local why=$1 folder=$2
    shift 2
    [ ! -e "$folder/complete" ] || return 0
    have apt-get || fail "$why. There is no apt-get here: install what Debian calls $*"
    say "$why; unpacking it into $folder"
    rm -rf "$folder"
    if ! unpack "$folder" "$@"; then
        become_root "The lists of packages are missing or too old" "apt-get update"
        update_lists
        unpack "$folder" "$@" || fail "$* cannot be had here"
    fi
    touch "$folder/complete"
}

need_nginx() {
    local folder=$home/nginx
    if [ -e /usr/sbin/nginx ] && [ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ]; then
        folder=/
    else
        unpacked "No nginx with Lua" "$folder" libnginx-mod-http-lua
    fi
    printf '%s\n' "$folder"
}

need_prometheus() {
    unpacked "No Prometheus with redis_exporter" "$home/prometheus" prometheus prometheus-redis-exporter
    printf '%s\n' "$home/prometheus"
}

# unpack <folder> <package>...: the files of packages and of everything that they need and this machine lacks.
unpack() {
    local folder=$1 packages package
    shift
    packages=$(apt-get -s install --no-install-recommends "$@" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p') || return 1
    [ -n "$packages" ] || return 1
    mkdir -p "$folder/packages"
    # shellcheck disable=SC2086
    (cd "$folder/packages" && apt-get -qq -o APT::Sandbox::User=root download $packages >&2) || return 1
    for package in "$folder"/packages/*.deb; do
        dpkg-deb -x "$package" "$folder" || return 1
    done
}

[ $# -gt 0 ] || fail "usage: $0 build|lint|server|compile|python|make|deb|cross|node|nginx|prometheus ..."
for what; do
    case $what in
        build | lint | server | compile | python | make | deb | cross | node | nginx | prometheus) "need_$what" ;;
        *) fail "$what: not one of build, lint, server, compile, python, make, deb, cross, node, nginx, prometheus" ;;
    esac
done
