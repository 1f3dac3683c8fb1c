#!/usr/bin/env bash
# Installs a build, compiles an application against what was installed alone, and runs it.
# Usage: install_test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=${FORERUN_TEST_CACHE:-$scratch}
cmake --build "$1" --target installable >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --install "$1" --prefix "$scratch/usr" >/dev/null
# The library shows what include/forerun declares, under its version, and nothing of its insides.
library=$(find "$scratch/usr" -name libforerun.so)
readelf -d "$library" | grep -q 'SONAME.*libforerun\.so\.[0-9]' || { echo "no SONAME"; exit 1; }
nm -DC --defined-only "$library" | cut -d' ' -f3- | sed 's/@@FORERUN_0$//' >"$scratch/symbols"
grep -q '^forerun::Engine::create(' "$scratch/symbols"
if grep -vE '^(FORERUN_0|forerun::((CompletionQueue|ControlText)::~?[A-Za-z_]+|Engine::create|[a-z_]+(\[abi:cxx11\])?)\(.*)$' \
  "$scratch/symbols"; then
  echo "symbols that are not public"
  exit 1
fi
python3 "$here/exports.py" "$library" "$scratch/usr/include"
cmake -S "$here" -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/usr" >/dev/null
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
models=$here/../../models
text=$("$scratch/build/application" "$models/demo-target" "$models/demo-draft" "def fibonacci(n):")
echo "$text"
[ -n "$text" ]
"$scratch/usr/bin/forerun" --version
# The same by pkg-config.
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/usr" -name forerun.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs forerun)"
"${CXX:-c++}" -std=c++20 "$here/application.cc" -o "$scratch/application" "${flags[@]}"
again=$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir forerun) "$scratch/application" \
  "$models/demo-target" "$models/demo-draft" "def fibonacci(n):")
[ "$again" = "$text" ]
# What shells and man look for.
for described in bash-completion/completions/forerun zsh/vendor-completions/_forerun \
  fish/vendor_completions.d/forerun.fish man/man1/forerun.1; do
  grep -q temperature "$scratch/usr/share/$described"
done
