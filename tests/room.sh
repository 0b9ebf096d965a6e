#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# room.sh MODULE BUILD CC: the module with nothing but what it needs: library, tests, fuzz targets
# and single header build and link. Its tests run here in a nightly run only: the code is the same.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() {
    "$@" >"$log" 2>&1 || { cat "$log"; echo "room $module: $1 failed"; exit 1; }
}
module=$1 build=$2
step cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER="$3" -DSNIC_MODULES="$module" \
    -DSNIC_WERROR=ON -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_SHARED=OFF -DCMAKE_BUILD_TYPE=Debug
step cmake --build "$build"
step cmake --build "$build" --target single_header
cd "$build" || exit 1
skip='slow'
[ "${SNIC_NIGHTLY:-0}" != 0 ] || skip="slow|fuzz|$module"
step ctest --output-on-failure --no-tests=error -LE "$skip"
