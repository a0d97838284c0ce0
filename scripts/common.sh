# SPDX-License-Identifier: Apache-2.0
# Sourced by every script here, never run. Sets `root` (the repository), `cache` and `jobs`, and leaves the caller in
# `root`, so that scripts work from any directory. Defines the helpers that several scripts share.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${ISTHMUS_CACHE:-$HOME/.cache/isthmus}
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu)
cd "$root" || exit 1

say() { printf '== %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# For engines that share the cores with other work: OpenMP's threads wait by spinning for a moment, then sleep.
share_cores() { export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000}; }

configure() {  # preset [option of cmake...]: quiet unless it fails
  local preset=$1 log=build/$1.configure.log
  shift
  mkdir -p build
  if ! cmake --preset "$preset" -Wno-dev "$@" >"$log" 2>&1; then
    cat "$log" >&2
    die "configuring preset '$preset' failed"
  fi
}

configure_and_build() {  # preset [target...]: everything, or the targets named
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  say "build: $preset"
  configure "$preset"
  cmake --build "build/$preset" -j "$jobs" "${targets[@]}" >&2
}

# Results go to one folder per run; tools/tally.py turns them into counts.
start_results() {  # folder
  results=$1
  rm -rf "$results"
  mkdir -p "$results"
}

# One named step: its output is shown, its exit status is kept for the tally. A step that writes a JUnit file
# (results/NAME.xml) is counted by test case, any other as one check.
step() {  # name command...
  local name=$1 rc=0
  shift
  say "$name"
  ("$@") >&2 || rc=$?
  printf '%s\n' "$rc" >"$results/$name.rc"
  [ "$rc" -eq 0 ] || say "$name FAILED (exit status $rc)"
}

run_unit_tests() {  # preset [wrapper...]: every unit-test program of the preset, each with a time limit
  local preset=$1 program name
  shift
  for program in "build/$preset"/*_test; do
    [ -x "$program" ] || continue
    name=$preset-$(basename "$program")
    step "$name" timeout -k 10 900 "$@" "$program" --gtest_brief=1 "--gtest_output=xml:$results/$name.xml"
  done
}

finish() { python3 tools/tally.py "$results"; }  # last line: N passed, N failed; status 1 on failure or no test at all
