#!/usr/bin/env bash
# Starts a Redis with the module, an application that says "hello", and nginx as in nginx.conf; Ctrl-C ends all.
#
#   RL_SERVER    redis-server, 7.0 or later      default: the one on the PATH, else that of `make run`
#   RL_MODULE    libredis_limiters.so            default: the one that `make build` leaves
#   PORT         where nginx listens             default: 8080
#   REDIS_PORT   where Redis listens             default: 6396
set -euo pipefail
cd "$(dirname "$0")"
module=${RL_MODULE:-$PWD/../../target/release/libredis_limiters.so}
# Else the one that `make run` fetched.
cached=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/servers/redis-7.0/redis-server
server=${RL_SERVER:-$(command -v redis-server || echo "$cached")}
port=${REDIS_PORT:-6396}
[ -e "$module" ] || { echo "no module at $module: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
command -v "$server" >/dev/null || { echo "no $server: set RL_SERVER to a redis-server" >&2; exit 1; }
root=$(../../scripts/need.sh nginx)
[ "$root" != / ] || root=

data=$(mktemp -d)
pids=()
stop() {
    trap - EXIT INT TERM
    [ ${#pids[@]} -eq 0 ] || { kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; }
    rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$server" --port "$port" --bind 127.0.0.1 --dir "$data" --save "" --appendonly no --loadmodule "$module" >"$data/redis.log" &
pids+=($!)
until grep -qs "Ready to accept connections" "$data/redis.log"; do
    kill -0 "${pids[0]}" 2>/dev/null || { cat "$data/redis.log" >&2; exit 1; }
    sleep 0.1
done
echo "redis-server has the process id ${pids[0]} and the port $port"

# nginx' workers are nobody in particular, and read limits.lua. Where an unpacked nginx would look for its folders, there are none.
chmod 755 "$data"
cp limits.lua "$data"
mkdir "$data/logs"
sed -e "s|6379|$port|; s|127.0.0.1:8080|127.0.0.1:${PORT:-8080}|; s|/usr/lib/nginx|$root/usr/lib/nginx|" \
    -e "s|^http {|&client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;|" \
    -e "s|^http {|&server { listen 127.0.0.1:9000; location / { return 200 \"hello\\\\n\"; } }|" nginx.conf >"$data/nginx.conf"
libraries=$(find "$root/usr/lib" "$root/lib" -maxdepth 1 -name '*-linux-gnu' 2>/dev/null | paste -sd:)
LUA_PATH="$root/usr/share/lua/5.1/?.lua;;" LD_LIBRARY_PATH=${root:+$libraries} \
    "$root/usr/sbin/nginx" -p "$data" -c nginx.conf -e stderr &
pids+=($!)
echo "nginx listens on http://127.0.0.1:${PORT:-8080}"
# Redis may end and be started again by hand meanwhile: what nginx does then is worth a look.
wait "${pids[1]}"
