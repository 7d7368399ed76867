#!/usr/bin/env bash
# Starts a Redis with the module, an application that says "hello", and nginx as in nginx.conf; Ctrl-C ends all.
#
#   RL_SERVER, RL_MODULE                       see ../redis.sh
#   PORT         where nginx listens             default: 8080
#   REDIS_PORT   where Redis listens             default: 6396
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=examples/redis.sh
source ../redis.sh
port=${REDIS_PORT:-6396}
root=$(../../scripts/need.sh nginx)
[ "$root" != / ] || root=

start_redis "$port"

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
