#!/usr/bin/env bash
# Makes the Debian package of a build, unpacks it and runs what is in it.
# Usage: package_test.sh BUILD_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cpack --config "$1/CPackConfig.cmake" -B "$scratch" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
package=$(find "$scratch" -maxdepth 1 -name 'forerun_*.deb')
depends=$(dpkg-deb --field "$package" Depends)
echo "$package: $depends"
grep -q libedit2 <<<"$depends"
if grep -q readline <<<"$depends"; then exit 1; fi
dpkg-deb --extract "$package" "$scratch/root"
"$scratch/root/usr/bin/forerun" --version
for file in include/forerun/engine.h share/man/man1/forerun.1 share/doc/forerun/copyright \
  share/bash-completion/completions/forerun; do
  [ -s "$scratch/root/usr/$file" ]
done
[ -n "$(find "$scratch/root/usr" -name forerun.pc)" ]
