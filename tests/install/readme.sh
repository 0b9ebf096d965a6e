#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# readme.sh BUILD SOURCE CC CMAKE: every C program of README.md (a ```c block with a main) builds as
# shown and exits 0: against the single header when it defines SNIC_IMPLEMENTATION, else against an
# installation by pkg-config.
set -eu
build=$1 source=$2 cc=$3 cmake=$4
[ -e "$source/README.md" ] || { echo "skip: no README.md"; exit 77; }
command -v pkg-config >/dev/null || { echo "skip: no pkg-config"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
awk -v d="$tmp" '
    /^```c$/ { n++; on = 1; next }
    /^```/ { on = 0 }
    on { print > (d "/" n ".c") }' "$source/README.md"
"$cmake" --install "$build" --prefix "$tmp/p" --component library >"$tmp/log" 2>&1 ||
    { cat "$tmp/log"; exit 1; }
pc=$(find "$tmp/p" -name snicstore.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
packages=snicstore
[ -e "${pc%.pc}-uring.pc" ] && packages="snicstore snicstore-uring"
built=0
for c in "$tmp"/*.c; do
    grep -q 'int main' "$c" || continue
    if grep -q SNIC_IMPLEMENTATION "$c"; then
        flags="-I $build/single"
    else
        # shellcheck disable=SC2086
        flags=$(pkg-config --cflags --libs $packages)
    fi
    # shellcheck disable=SC2086
    $cc -std=c11 -Wall -Wextra -Werror -o "$tmp/program" "$c" $flags || { cat "$c"; exit 1; }
    (cd "$tmp" && ./program) || { echo "exit code $?"; cat "$c"; exit 1; }
    built=$((built + 1))
done
[ $built -gt 0 ] || { echo "README.md shows no program"; exit 1; }
