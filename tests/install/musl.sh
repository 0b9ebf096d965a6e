#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# musl.sh BUILD SOURCE CMAKE: two modules build with another libc's compiler, whose headers must
# come before those of the system.
set -eu
command -v musl-gcc >/dev/null || { echo "skip: no musl-gcc"; exit 77; }
rm -rf "$1"
"$3" -S "$2" -B "$1" -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_BUILD_TYPE=Debug \
    -DSNIC_MODULES="ring;cuckoo" -DSNIC_WITH_IO_URING=OFF \
    -DSNIC_BUILD_TESTS=OFF -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_FUZZ=OFF \
    -DSNIC_WERROR=ON -DSNIC_BUILD_SHARED=OFF
"$3" --build "$1" --target snicstore
if grep -rqs --include=flags.make --include=build.ninja -- '-isystem /usr/include' "$1"; then
    echo "the build puts /usr/include before the compiler's own headers"
    exit 1
fi
