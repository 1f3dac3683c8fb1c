#!/usr/bin/env bash
# Compiles every public header by itself, with the warnings of a careful user, under every compiler
# that is here: g++ and clang of any version. None may leave a macro behind: those have no namespace.
# Usage: headers_test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
# One of several names for the same compiler.
compilers=$(compgen -c | grep -xE '(g\+\+|clang\+\+)(-[0-9]+)?' | sort -u |
  while read -r name; do echo "$(readlink -f "$(command -v "$name")") $name"; done | sort -u -k1,1 |
  cut -d' ' -f2)
[ -n "$compilers" ]
failed=0
for compiler in $compilers; do
  for header in include/forerun/*.h; do
    echo "#include \"forerun/${header##*/}\"" |
      "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude -x c++ - || {
      echo "$header does not compile alone with $compiler"
      failed=1
    }
  done
done
for header in include/forerun/*.h; do
  macros=$(grep -nE '^[[:space:]]*#[[:space:]]*define' "$header" || true)
  [ -z "$macros" ] && continue
  printf '%s defines macros:\n%s\n' "$header" "$macros"
  failed=1
done
# Warnings are errors for CI alone: a user's compiler may have others.
if ! grep -q '^option(FORERUN_WERROR .* OFF)$' CMakeLists.txt || ! grep -q FORERUN_WERROR=ON scripts/test; then
  echo "FORERUN_WERROR is to be off, and on in scripts/test"
  failed=1
fi
exit $failed
