#!/usr/bin/env bash
# Installs a build, compiles an application against what was installed alone, and runs it.
# Usage: install_test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/usr" >/dev/null
cmake -S "$here" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/usr" >/dev/null
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
models=$here/../../models
text=$("$scratch/build/application" "$models/demo-target" "$models/demo-draft" "def fibonacci(n):")
echo "$text"
[ -n "$text" ]
"$scratch/usr/bin/forerun" --version
