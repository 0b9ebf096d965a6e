#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# run.sh [--quick | --nightly] [MODULE...]
#
# Installs what the tests need, builds in every configuration what its tests need, and runs all of
# them under one ctest, whose summary is the last thing printed, after the totals of explorers and
# simulations, the CPU-minutes of each configuration and the ten tests that took most of them.
# MODULE: only the tests of these modules (dds: those of the storage node, kvfs: of the file system,
# ddp or minos: of the replicated table, solar: of the block transports), in builds of nothing but
# what they need. By day a system's tests take turns as the whole run's do, a module's do not.
#
# By day some of the tests are the night's, or take turns from commit to commit (the labels are in
# tests/README.md), and enumerations take a sample: which, is the number SNIC_TURN, by default made
# of the commit. It is printed, and a run with the same number does the same again.
#
#   --quick     the main configuration only, without what takes long
#   --nightly   long scopes (SNIC_NIGHTLY=1; those of the day in single, noassert and aarch64) and
#               static analysis. A test that passed is not run again for the same commit, so an
#               interrupted night continues where it stopped, and prints what was counted before.
#
# Configurations: main (gcc, everything), asan (clang, ASan+UBSan), tsan (TSan), single (the tests
# against the generated header), noassert and aarch64 (cross build; pure modules under qemu). By day
# asan runs the tests of half of the modules, without two thirds of the slow ones, and single and
# noassert, one of them at a time, those of a third; others at each commit.
# SNIC_BUILD names the build folder, by default build/. SNIC_NO_CCACHE=1: compile without ccache.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
exec </dev/null
LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
export LC_ALL DEBIAN_FRONTEND

scope=everyday modules= also= system=
for a in "$@"; do
    case $a in
    --quick) scope=quick ;;
    --nightly) scope=nightly ;;
    dds) system=1 modules="$modules ring cuckoo channel files filelib offload director" ;;
    kvfs) # and what its programs want
        system=1 modules="$modules kvop fsop kv kvfs fs"
        also="$also net channel fsdispatch hcachelink fscache fusedev" ;;
    ddp | minos) # and what ddp_server wants
        system=1 modules="$modules ddp ddpnic member wal replica store storeclient"
        also="$also director" ;;
    nvmet) modules="$modules nvmet" also="$also qos" ;; # its tests want a switch
    solar) system=1 modules="$modules ebs solar luna segments volume control" ;;
    -*) sed -n '3,22s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) modules="$modules $a" ;;
    esac
done
for m in $modules; do
    [ -d "lib/$m" ] || { echo "no module '$m'; there are: $(cd lib && echo */ | tr -d /)"; exit 2; }
done

. tests/packages.sh
runtime="/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a"
packages gcc:gcc /usr/include/stdio.h:libc6-dev g++:g++ cmake:cmake ninja:ninja-build \
    make:make python3:python3 \
    pkg-config:pkg-config nm:binutils cmocka.h:libcmocka-dev liburing.h:liburing-dev \
    xxhash.h:libxxhash-dev clang-format:clang-format redis-cli:redis-tools \
    redis-server:redis-server musl-gcc:musl-tools help2man:help2man groff:groff-base || exit 1
# The client libraries that talk to kv_server; those that cannot be had are skipped by name.
packages /usr/include/hiredis/hiredis.h:libhiredis-dev \
    /usr/lib/python3/dist-packages/redis/client.py:python3-redis \
    /usr/share/perl5/Redis.pm:libredis-perl ruby:ruby \
    /usr/share/rubygems-integration/all/specifications/redis-4*.gemspec:ruby-redis \
    php:php-cli /usr/lib/php/2*/redis.so:php-redis node:nodejs npm:npm
[ $scope = quick ] || packages clang:clang "$runtime:libclang-rt-dev" \
    llvm-symbolizer:llvm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu \
    /usr/aarch64-linux-gnu/include/stdio.h:libc6-dev-arm64-cross qemu-aarch64:qemu-user || exit 1
# The file system's stores, its mount and the programs that run on it: where one cannot be had, its
# tests are skipped, visibly.
case " $modules " in
"  " | *" kvfs "*)
    packages lmdb.h:liblmdb-dev /usr/include/rados/librados.h:librados-dev
    packages /usr/include/fuse3/fuse.h:libfuse3-dev fusermount3:fuse3
    [ $scope = quick ] || packages git:git sqlite3:sqlite3 rsync:rsync fio:fio dbench:dbench \
        stress-ng:stress-ng bonnie++:bonnie++ getfattr:attr \
        "/usr/lib/postgresql/*/bin/initdb:postgresql"
    [ $scope = quick ] || packages ceph-osd:ceph-osd ceph-mon:ceph-mon ceph:ceph-common
    ;;
esac
case " $modules " in
"  " | *" filelib "*) packages sqlite3ext.h:libsqlite3-dev sqlite3:sqlite3 ;;
esac
case " $modules " in
"  " | *" replica "*) # the nodes of ddp_server in namespaces, on disks with faults
    packages /usr/include/fuse3/fuse.h:libfuse3-dev fusermount3:fuse3 nft:nftables ip:iproute2 ;;
esac
case " $modules " in
"  " | *" ebs "*) packages openssl/evp.h:libssl-dev nbdcopy:libnbd-bin nbdkit:nbdkit \
    qemu-img:qemu-utils mkfs.ext4:e2fsprogs \
    fio:fio nft:nftables ip:iproute2 ethtool:ethtool ;;
esac
case "$scope $modules " in
quick*) ;;
*"  " | *" nvmet "*) # Linux kernels in QEMU: skipped where they cannot be had
    packages qemu-system-x86_64:qemu-system-x86 nvme:nvme-cli busybox:busybox-static cpio:cpio \
        modprobe:kmod mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs sqlite3:sqlite3 tshark:tshark \
        debootstrap:debootstrap ;;
esac
[ $scope != nightly ] || packages clang-tidy:clang-tidy cppcheck:cppcheck || exit 1

out=${SNIC_BUILD:-$root/build}/tests
mkdir -p "$out" || exit 1
jobs=$(nproc)
CMAKE_GENERATOR=Ninja
export CMAKE_GENERATOR
if [ "${SNIC_NO_CCACHE:-0}" = 0 ] && command -v ccache >/dev/null; then
    CMAKE_C_COMPILER_LAUNCHER=ccache
    export CMAKE_C_COMPILER_LAUNCHER
fi
common="-DSNIC_WERROR=ON -DSNIC_MODULES=$(echo ${modules:+$modules $also} | tr ' ' ';')"
commit=$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)
SNIC_TURN=${SNIC_TURN:-$(printf %d "0x$(echo "$commit" | cut -c1-6)" 2>/dev/null)}
export SNIC_TURN
start=$(date +%s)
builds= configured=0

# configure NAME FILTER CMAKE_ARGUMENT...: FILTER is SKIP_LABELS:ONLY_LABELS as in merge.py. In the
# background, as many at a time as there are CPUs.
configure() {
    name=$1 filter=$2
    shift 2
    builds="$builds $name=$out/$name:$filter"
    echo 1 >"$out/$name.rc" # also when the shell in the background is killed
    {
        "$cost" "$out/costs" "$name/build" cmake -S "$root" -B "$out/$name" $common "$@" \
            >"$out/$name.log" 2>&1
        echo $? >"$out/$name.rc"
    } &
    configured=$((configured + 1))
    [ $((configured % jobs)) != 0 ] || wait
}

# build NAME: everything in main, elsewhere what tests start. The outcome is the test NAME/build.
build() {
    [ "$(cat "$out/$1.rc")" = 0 ] || { echo "== $1: FAILED to configure"; return; }
    echo 1 >"$out/$1.rc"
    began=$(date +%s)
    wanted=all
    keep_going="-k 0"
    [ -e "$out/$1/build.ninja" ] || keep_going=-k # a folder made with make stays so
    [ "$1" = main ] || wanted=$(cat "$out/$1.targets")
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || "$cost" "$out/costs" "$1/build" cmake --build "$out/$1" -j "$jobs" \
        --target $wanted -- $keep_going >>"$out/$1.log" 2>&1
    rc=$?
    echo $rc >"$out/$1.rc"
    printf '== %-9s built in %s s%s\n' "$1" $(($(date +%s) - began)) \
        "$([ $rc = 0 ] || echo ': FAILED')"
}

# What the AArch64 build needs beside the cross compiler, unpacked into a folder of its own: the
# system gets no foreign architecture.
sysroot() {
    [ -e "$SNIC_SYSROOT/done" ] && return 0
    mkdir -p "$SNIC_SYSROOT/apt/lists/partial" "$SNIC_SYSROOT/apt/archives/partial" &&
        : >"$SNIC_SYSROOT/apt/status"
    set -- -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Acquire::Languages=none \
        -o "Dir::State=$SNIC_SYSROOT/apt" -o "Dir::State::status=$SNIC_SYSROOT/apt/status" \
        -o "Dir::Cache=$SNIC_SYSROOT/apt" -o APT::Sandbox::User=
    (
        cd "$SNIC_SYSROOT" && apt-get "$@" update
        apt-get "$@" download libcmocka0 libcmocka-dev liburing2 liburing-dev libxxhash-dev &&
            for d in *.deb; do dpkg-deb -x "$d" . || exit 1; done && rm -rf ./*.deb apt && : >done
    ) >"$out/sysroot.log" 2>&1 || cat "$out/sysroot.log"
}

# A run by day for some modules runs all of theirs; for a system, it takes turns as the whole does.
rotate= single=1 noassert=1
if [ $scope = everyday ] && { [ -z "$modules" ] || [ -n "$system" ]; }; then
    rotate="--rotate asan=2,asan=3@slow,single=2@commits,single=3,noassert=2@commits,noassert=3"
    [ $((${SNIC_TURN:-0} % 2)) = 0 ] && noassert= || single=
fi

cost=$out/cost
rm -f "$out/costs"
gcc -O1 -o "$cost" tests/tools/cost.c || exit 1
SNIC_SYSROOT=$out/sysroot
export SNIC_SYSROOT
if [ $scope != quick ] && [ "$(uname -m)" != aarch64 ]; then
    sysroot &
fi
# Enough debug information for line numbers in reports; more costs a fifth of each compilation.
fast="-O2 -g1 -DNDEBUG" checked="-O1 -g1 -DNDEBUG"
configure main "$([ $scope = quick ] && echo 'install|slow'):" -DCMAKE_C_COMPILER=gcc \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO="$fast" \
    -DSNIC_STATIC_ANALYSIS=$([ $scope = nightly ] && echo ON || echo OFF)
if [ $scope != quick ]; then
    configure asan ":" -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS_RELWITHDEBINFO="$checked" \
        -DSNIC_SANITIZE=address,undefined -DSNIC_BUILD_BENCH=OFF
    configure tsan "fuzz:threads" -DCMAKE_C_COMPILER=gcc \
        -DCMAKE_C_FLAGS_RELWITHDEBINFO="$checked" -DSNIC_SANITIZE=thread -DSNIC_BUILD_BENCH=OFF \
        -DSNIC_BUILD_FUZZ=OFF
    [ -z "$single" ] || configure single "slow:" -DCMAKE_C_COMPILER=gcc \
        -DCMAKE_C_FLAGS_RELWITHDEBINFO="$fast" -DSNIC_SINGLE=ON -DSNIC_BUILD_BENCH=OFF \
        -DSNIC_BUILD_FUZZ=OFF
    [ -z "$noassert" ] || configure noassert "slow|single|install|tidy:" \
        -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DSNIC_NO_ASSERT=ON \
        -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_FUZZ=OFF -DSNIC_BUILD_EXAMPLES=OFF
    if [ "$(uname -m)" != aarch64 ]; then
        wait
        if [ -e "$SNIC_SYSROOT/done" ]; then
            configure aarch64 "slow:base|ring|cuckoo" \
                -DCMAKE_C_FLAGS_RELWITHDEBINFO="$fast" \
                -DCMAKE_TOOLCHAIN_FILE="$root/tests/aarch64.cmake" -DSNIC_BUILD_BENCH=OFF
        else
            echo 1 >"$out/aarch64.rc"
            cp "$out/sysroot.log" "$out/aarch64.log"
            builds="$builds aarch64=$out/aarch64:"
        fi
    fi
fi
wait

resume=
if [ $scope = nightly ]; then
    SNIC_NIGHTLY=1
    export SNIC_NIGHTLY
    resume="$out/passed/$commit"
    # Uncommitted work has no name that would show whether it was tested before.
    case $commit in *-dirty | unknown) rm -rf "$resume" ;; esac
    mkdir -p "$resume"
fi
# shellcheck disable=SC2086
python3 tests/merge.py "$out" --modules "$(echo $modules | tr ' ' ',')" --cost "$cost" \
    $([ $scope = nightly ] && echo "--night-in main,asan,tsan" ||
        echo "--day ${SNIC_TURN:-0} $rotate") \
    ${resume:+--resume "$resume"} $builds || exit 1
# The single header's one large file takes a CPU for long: it is compiled beside the others.
: >"$out/single.built"
for b in $builds; do
    case $b in single=*) build single >"$out/single.built" & ;; esac
done
for b in $builds; do
    case $b in single=*) ;; *) build "${b%%=*}" ;; esac
done
wait
cat "$out/single.built"

# ThreadSanitizer of older compilers does not survive the address randomisation of newer kernels.
run=
if [ -e "$out/tsan.rc" ] && [ $scope != quick ]; then
    echo 'int main(void) { return 0; }' >"$out/hello.c"
    gcc -fsanitize=thread -o "$out/hello" "$out/hello.c" &&
        ! "$out/hello" >/dev/null 2>&1 && setarch -R "$out/hello" >/dev/null 2>&1 &&
        run="setarch -R"
fi
UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
TSAN_OPTIONS=halt_on_error=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}
export UBSAN_OPTIONS TSAN_OPTIONS
echo "== tests ($scope, commit $commit, turn $SNIC_TURN, builds took $(($(date +%s) - start)) s)"
cd "$out" || exit 1
# One more than there are CPUs, in halves (merge.py): many tests wait for processes, disks and
# clocks now and then, and those labelled `waits` most of the time.
exec $run python3 "$root/tests/summarize.py" ctest --output-on-failure --no-tests=error \
    -j $((2 * (jobs + 1)))
