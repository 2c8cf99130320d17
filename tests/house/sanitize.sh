#!/bin/sh
# Builds with sanitizers in a separate build folder, which is kept for the next time, and runs tests
# there. Without LibTorch, whose headers take as long to compile as all else, unless
# $SANITIZE_TORCH is enabled.
# Usage: sanitize.sh SOURCE_ROOT BUILD_FOLDER SANITIZERS ARGUMENTS_OF_MESON_TEST...
set -eu
source=$1 build=$2 sanitizers=$3
shift 3

# Line numbers only, and no optimisation for AddressSanitizer: -O1 -g takes three times as long to
# compile, which costs more than the tests gain.
optimization=0
[ "$sanitizers" != thread ] || optimization=1
if [ ! -f "$build/build.ninja" ]; then
  meson setup "$build" "$source" -Dtorch="${SANITIZE_TORCH:-disabled}" \
    -Db_sanitize="$sanitizers" -Db_lundef=false -Dunity_size=41 -Doptimization=$optimization -Ddebug=false \
    -Dc_args=-g1 -Dcpp_args=-g1
fi
# It compiles for minutes, beside tests that mostly wait and are not to be held up.
printf '#!/bin/sh\nexec nice -n 10 ninja "$@"\n' >"$build/nice-ninja"
chmod +x "$build/nice-ninja"
export NINJA="$build/nice-ninja"
# The generated histories of launch are arithmetic in one thread: fewer suffice here.
export ADAPTDL_HISTORIES=50
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$source/tests/house/tsan.supp"
export ASAN_OPTIONS="halt_on_error=1 detect_stack_use_after_return=1"
export UBSAN_OPTIONS="halt_on_error=1 print_stacktrace=1"

# ThreadSanitizer needs fixed memory ranges: switch address randomisation off if that is allowed.
still=
[ "$sanitizers" != thread ] || ! setarch -R true 2>/dev/null || still='setarch -R'
exec $still meson test -C "$build" --print-errorlogs --timeout-multiplier 10 "$@"
