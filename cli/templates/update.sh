#!/bin/sh
# update.sh MAKE_ARCHIVES TEMPLATE_DIR NAME...: writes TEMPLATE_DIR/NAME/train.pt anew.
set -eu
make_archives=$1 templates=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$make_archives" "$folder" "$templates" "$@"
for name in "$@"; do
  mv "$folder/$name.pt" "$templates/$name/train.pt"
done
