#!/bin/sh
# with_data.sh VECTORS KIND FILE: runs the check on FILE below $ADAPTDL_TEST_DATA/vectors, or skips
# (77) where there is none.
if [ -z "$ADAPTDL_TEST_DATA" ] || [ ! -f "$ADAPTDL_TEST_DATA/vectors/$3" ]; then
  echo "skipped: ADAPTDL_TEST_DATA names no folder with vectors/$3"
  exit 77
fi
exec "$1" "$2" "$ADAPTDL_TEST_DATA/vectors/$3"
