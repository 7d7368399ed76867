#!/usr/bin/env bash
# Packs a built module into target/dist: an archive, on a machine with Debian's tools also a package, and their checksums.
# RL_MODULE is the module. Run again on the same commit with the same module it makes the same files, byte by byte.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
module=${RL_MODULE:-$PWD/target/release/libredis_limiters.so}
[ -e "$module" ] || { echo "no module at $module: run 'make build' first, or set RL_MODULE" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
machine=$(LC_ALL=C readelf -h "$module" | sed -n 's/^ *Machine: *//p')
case $machine in
    *X86-64*) cpu=x86_64 deb_cpu=amd64 ;;
    *AArch64*) cpu=aarch64 deb_cpu=arm64 ;;
    *) echo "$module is for $machine, which has no name here" >&2; exit 1 ;;
esac
# Every file is as old as the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
dist=target/dist
name=redis-limiters-$version-$cpu-linux
rm -rf "$dist"
mkdir -p "$dist/$name"

# A stripper for the module's own kind of machine.
tools="" target=()
[ "$(uname -m)" = "$cpu" ] || { tools=$cpu-linux-gnu- target=(--target "$cpu-unknown-linux-gnu"); }
"${tools}strip" --strip-unneeded --remove-section .comment -o "$dist/$name/libredis_limiters.so" "$module"
chmod 755 "$dist/$name/libredis_limiters.so"
# What the README leads to, as far as it is kept: what was built or fetched in these folders stays out.
parts=(README.md CHANGELOG.md CONTRIBUTING.md LICENSE Dockerfile redis.conf.example docs functions examples monitoring bench .github)
git ls-files -- "${parts[@]}" | while read -r file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    install -D -m "$mode" "$file" "$dist/$name/$file"
done
sums=$(cd "$dist/$name" && find . -type f -printf '%P\n' | sort | xargs sha256sum)
printf '%s\n' "$sums" >"$dist/$name/SHA256SUMS"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar \
    -C "$dist" -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"

if command -v dpkg-deb >/dev/null; then
    cargo_deb=$(scripts/need.sh deb)
    mkdir "$dist/package"
    cp -p "$dist/$name/libredis_limiters.so" "$dist/package"
    gzip -9nc CHANGELOG.md >"$dist/package/changelog.gz"
    # Debian's form of it, which tells the package's version and its date.
    cat >"$dist/package/changelog" <<END
redis-limiters ($version-1) unstable; urgency=medium

  * See changelog.gz.

 -- redis-limiters contributors <contributors@redis-limiters.invalid>  $(date -R -d "@$SOURCE_DATE_EPOCH")
END
    # From $dist/package: it is stripped already, and of the right kind.
    "$cargo_deb" --quiet --no-build --no-strip --deb-revision 1 "${target[@]}" \
        --output "$dist/redis-limiters_$version-1_$deb_cpu.deb" >/dev/null
    rm -r "$dist/package"
else
    echo "dist: there is no dpkg-deb here, so no Debian package"
fi
rm -r "${dist:?}/$name"
cd "$dist"
sums=$(sha256sum -- *)
printf '%s\n' "$sums" | tee SHA256SUMS
