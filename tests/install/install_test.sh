#!/usr/bin/env bash
# Installs a build, compiles an application against what was installed alone, and runs it.
# Usage: install_test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/usr" >/dev/null
# The library shows what include/forerun declares, under its version, and nothing of its insides.
library=$(find "$scratch/usr" -name libforerun.so)
readelf -d "$library" | grep -q 'SONAME.*libforerun\.so\.[0-9]' || { echo "no SONAME"; exit 1; }
nm -DC --defined-only "$library" | cut -d' ' -f3- | sed 's/@@FORERUN_0$//' >"$scratch/symbols"
grep -q '^forerun::Engine::create(' "$scratch/symbols"
if grep -vE '^(FORERUN_0|forerun::(CompletionQueue::~?[A-Za-z_]+|Engine::create|[a-z_]+(\[abi:cxx11\])?)\(.*)$' \
  "$scratch/symbols"; then
  echo "symbols that are not public"
  exit 1
fi
cmake -S "$here" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/usr" >/dev/null
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
models=$here/../../models
text=$("$scratch/build/application" "$models/demo-target" "$models/demo-draft" "def fibonacci(n):")
echo "$text"
[ -n "$text" ]
"$scratch/usr/bin/forerun" --version
