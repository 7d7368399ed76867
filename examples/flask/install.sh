#!/usr/bin/env bash
# Installs what requirements.txt names into the user's cache, once, and prints the path of its python.
set -euo pipefail
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/examples
venv=$cache/flask-$(sha256sum requirements.txt | cut -c1-12)
if [ ! -e "$venv/complete" ]; then
    mkdir -p "$cache"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt >&2
    touch "$venv/complete"
fi
printf '%s\n' "$venv/bin/python"
