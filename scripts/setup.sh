# Sourced by scripts/demo and scripts/test: makes a bare Debian 12 able to build Forerun.
# shellcheck shell=bash

FORERUN_PACKAGES=(g++ cmake ninja-build ccache git pkg-config
  nlohmann-json3-dev libcli11-dev libpcre2-dev libedit-dev libtomlplusplus-dev
  libboost-dev prometheus-cpp-dev libgtest-dev libbenchmark-dev libxxhash-dev libopenmpi-dev openmpi-bin)
# numpy multiplies a hundred times faster through OpenBLAS than through Debian's reference BLAS.
FORERUN_TEST_PACKAGES=(clang clang-format clang-tidy libclang-rt-14-dev xz-utils dpkg-dev iproute2
  python3 python3-venv python3-numpy libopenblas0-pthread chromium)

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

# install_missing PACKAGE...: installs what is not there, or says the one line that would.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    else
      say "These packages are missing; install them with:"
      echo "  sudo apt-get install -y ${missing[*]}" >&2
      return 1
    fi
  fi
  say "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# Clients of the server from PyPI, for its tests, ruff and lizard, in build/venv; fails where they cannot
# be had.
install_test_clients() {
  local wanted=tests/server/requirements.txt venv=build/venv
  cmp -s "$wanted" "$venv/installed.txt" && return 0
  say "Installing the server's test clients"
  if python3 -m venv "$venv" && "$venv/bin/pip" install -q --no-compile --disable-pip-version-check -r "$wanted"; then
    cp "$wanted" "$venv/installed.txt"
  else
    say "They cannot be had: the tests that need them are skipped"
    return 1
  fi
}

# Whether pip, with the index it is set to, gets an answer; needs the build/venv of install_test_clients.
pypi_answers() { build/venv/bin/pip -q --retries 0 index versions pip >/dev/null 2>&1; }

# build PRESET [cmake --build options]: configures, once or with FORERUN_CONFIGURE's options, and builds.
FORERUN_CONFIGURE=()
build() {
  local preset=$1
  shift
  if [ ${#FORERUN_CONFIGURE[@]} -gt 0 ] || [ ! -f "build/$preset/build.ninja" ]; then
    cmake --preset "$preset" "${FORERUN_CONFIGURE[@]}" >/dev/null
  fi
  cmake --build "build/$preset" "$@" >&2
}
