#!/bin/sh
# Builds redis-cell's module, to compare with it. Nothing of it goes into this project.
#
#   scripts/cell.sh [FOLDER]         the published release (0.2.2, which replicates nothing)
#   CELL_SOURCE=DIR scripts/cell.sh  a checkout of a later version (0.5.0 replicates its requests)
#
# Prints the path of the module. FOLDER is ${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/cell by default.
set -eu

version=0.2.2
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/redis-limiters/cell}
mkdir -p "$folder"
# One builder at a time: the source is laid out anew.
exec 9> "$folder/.lock"
flock 9

if [ -n "${CELL_SOURCE:-}" ]; then
    source=$CELL_SOURCE
else
    # A package that does nothing but name redis-cell lets cargo fetch and check its source.
    asking=$(mktemp -d)
    trap 'rm -rf "$asking"' EXIT
    mkdir "$asking/src"
    : > "$asking/src/lib.rs"
    printf '[package]\nname = "asking"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nredis-cell = "=%s"\n' "$version" \
        > "$asking/Cargo.toml"
    cargo vendor --quiet --versioned-dirs --manifest-path "$asking/Cargo.toml" "$asking/vendor" > /dev/null
    source=$folder/source-$version
    rm -rf "$source"
    cp -R "$asking/vendor/redis-cell-$version" "$source"
fi

RUSTFLAGS="${RUSTFLAGS:-} --cap-lints=allow" CARGO_TARGET_DIR=$folder/target cargo build --quiet --release --manifest-path "$source/Cargo.toml" >&2
# Moved into place: a server may have the old file loaded.
cp "$folder/target/release/libredis_cell.so" "$folder/libredis_cell.so.$$"
mv "$folder/libredis_cell.so.$$" "$folder/libredis_cell.so"
echo "$folder/libredis_cell.so"
