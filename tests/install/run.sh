#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# run.sh BUILD SOURCE CC CMAKE: install BUILD, build users of the installation by find_package and
# by pkg-config, in C and C++, shared and static; then move it and build them again, and run the
# programs from there.
set -eu
build=$1 source=$2 cc=$3 cmake=$4
command -v pkg-config >/dev/null || { echo "skip: no pkg-config"; exit 77; }
cxx=
for c in c++ g++ clang++; do command -v $c >/dev/null && { cxx=$c; break; }; done
[ -n "$cxx" ] || { echo "skip: no C++ compiler"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

users() { # PREFIX
    uring=OFF packages=snicstore
    pc=$(find "$1" -name snicstore.pc)
    [ -f "${pc%.pc}-uring.pc" ] && { uring=ON; packages="snicstore snicstore-uring"; }
    rm -rf "$tmp/users"
    CC=$cc CXX=$cxx "$cmake" -S "$source/tests/install" -B "$tmp/users" -DCMAKE_PREFIX_PATH="$1" \
        -DWANT_URING=$uring >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    "$cmake" --build "$tmp/users" -j2 >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    (cd "$tmp/users" && ctest --output-on-failure) || exit 1
    PKG_CONFIG_PATH=$(dirname "$pc")
    LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
    for p in $packages; do
        use=
        [ $p = snicstore ] || use=-DUSE_URING
        for static in "" -static; do
            flags=$(pkg-config ${static:+--static} --cflags --libs $p)
            # shellcheck disable=SC2086
            $cc -std=c11 -Werror -Wall $use $static -o "$tmp/user" \
                "$source/tests/install/consumer.c" $flags
            "$tmp/user"
            # shellcheck disable=SC2086
            $cxx -std=c++17 -Werror -Wall $use $static -x c++ -o "$tmp/user" \
                "$source/tests/install/consumer.c" -x none $flags
            "$tmp/user"
            echo "pkg-config $p ${static:-shared}: ok"
        done
    done
}

"$cmake" --install "$build" --prefix "$tmp/first" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
users "$tmp/first"
mkdir "$tmp/moved"
mv "$tmp/first" "$tmp/moved/second"
users "$tmp/moved/second"
sh "$source/tests/install/programs.sh" "$tmp/moved/second" "$build" "$source" "$cmake"
if grep -rl "$tmp/first" "$tmp/moved/second"; then
    echo "the installation names the place it was installed to"
    exit 1
fi

# Examples and benches are users too: public headers only.
for f in $(find "$source/examples" -name '*.c') "$source"/bench/bench_*.c; do
    case $f in */bench_explorer.c | */bench_swarm.c) continue ;; esac # of tests/mc, tests/sim
    $cc -std=gnu11 -D_GNU_SOURCE -fsyntax-only -I "$tmp/moved/second/include" "$f" ||
        { echo "$f does not compile against the installed headers"; exit 1; }
done
