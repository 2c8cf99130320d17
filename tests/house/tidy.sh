#!/bin/sh
# clang-tidy with the checks of .clang-tidy: tidy.sh [--build DIR] [BASE]
# Checks all sources, or those that differ from the commit BASE. Configures a separate build folder
# (build-tidy; not compiled), because it needs one command per file. Fails on any finding.
set -eu
cd "$(dirname "$0")/../.."

build=build-tidy
if [ "${1:-}" = --build ]; then
  build=$2
  shift 2
fi
base=${1:-}

[ -f "$build/build.ninja" ] ||
  meson setup "$build" -Dunity=off -Db_pch=false >"${TMPDIR:-/tmp}/tidy-setup.log" ||
  { tail -5 "${TMPDIR:-/tmp}/tidy-setup.log"; exit 1; }
ninja -C "$build" core/base/commit.h >/dev/null

files=$(if [ -n "$base" ]; then git diff --name-only --diff-filter=d "$base" -- '*.cpp'
  else git ls-files '*.cpp'; fi)
# The sources that this build compiles: all, with LibTorch.
known=$(sed -n 's/^ *"file": "\(\.\.\/\)*\(.*\)",*$/\2/p' "$build/compile_commands.json" | sort -u)
chosen=$(printf '%s\n' "$files" | sort -u | grep -Fx "$known" || true)
[ -n "$chosen" ] || { echo "nothing to look at"; exit 0; }
echo "clang-tidy: $(printf '%s\n' "$chosen" | wc -l) files"
# Ignore options of g++ that clang does not know.
printf '%s\n' "$chosen" | xargs -P "$(nproc)" -n 1 \
  clang-tidy -p "$build" --quiet --warnings-as-errors='*' \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Qunused-arguments
