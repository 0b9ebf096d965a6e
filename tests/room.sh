#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# room.sh MODULE BUILD CC: the module with nothing but what it needs: libraries and single header
# build, and the shared ones link. In a nightly run its tests and fuzz targets, too.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() {
    "$@" >"$log" 2>&1 || { cat "$log"; echo "room $module: $1 failed"; exit 1; }
}
module=$1 build=$2 nightly=ON
[ "${SNIC_NIGHTLY:-0}" != 0 ] || nightly=OFF
step cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER="$3" -DSNIC_MODULES="$module" \
    -DSNIC_WERROR=ON -DSNIC_BUILD_BENCH=OFF -DCMAKE_BUILD_TYPE=Debug \
    -DSNIC_BUILD_TESTS=$nightly -DSNIC_BUILD_FUZZ=$nightly
step cmake --build "$build"
step cmake --build "$build" --target single_header
[ $nightly = ON ] || exit 0
cd "$build" && step ctest --output-on-failure --no-tests=error -LE slow
