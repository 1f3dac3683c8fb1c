#!/usr/bin/env bash
# Compiles every public header by itself, with the warnings of a careful user, under every compiler
# that is here: g++ and clang of any version. None may leave a macro behind: those have no namespace.
# With FORERUN_TEST_PART above 1, each header under one of the compilers, and each compiler with some.
# Usage: headers_test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
# One of several names for the same compiler.
compilers=$(compgen -c | grep -xE '(g\+\+|clang\+\+)(-[0-9]+)?' | sort -u |
  while read -r name; do echo "$(readlink -f "$(command -v "$name")") $name"; done | sort -u -k1,1 |
  cut -d' ' -f2)
[ -n "$compilers" ]
failed=0
number=0
part=1
[ "${FORERUN_TEST_PART:-1}" -gt 1 ] && part=$(wc -w <<<"$compilers")
for header in include/forerun/*.h; do
  number=$((number + 1))
  turn=0
  for compiler in $compilers; do
    turn=$((turn + 1))
    [ $(((number + turn) % part)) = 0 ] || continue
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
