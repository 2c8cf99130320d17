#!/bin/sh
# Leaves libssl.a and libcrypto.a in `built` beside this script, unless they are there, made by this
# very script with the same flags.
# Usage: build.sh C_COMPILER C_FLAGS
set -eu
cd "$(dirname "$0")"
stamp=$(echo "$2" | cat - build.sh | sha256sum)
[ "$(cat built/stamp 2>/dev/null)" != "$stamp" ] || exit 0
work=$PWD/built.$$
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work"

# Nothing that is loaded at run time, and no date or path of this machine in the bytes. The folder is
# that of certificates on Debian.
(cd "$work" && export CC="$1" CFLAGS="$2" SOURCE_DATE_EPOCH=0 &&
  perl ../Configure no-shared no-module no-dso no-engine no-legacy no-apps no-tests no-docs \
    no-ssl3 no-comp no-quic no-cmp --prefix=/usr --openssldir=/usr/lib/ssl &&
  make -j"$(nproc)" build_libs) >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  echo "OpenSSL could not be built: it needs perl, make and a C compiler" >&2
  exit 1
}
mkdir "$work/built"
mv "$work/libssl.a" "$work/libcrypto.a" "$work/built"
echo "$stamp" >"$work/built/stamp"
rm -rf built
# Another build folder may have been faster.
mv -T "$work/built" built 2>/dev/null || [ -d built ]
