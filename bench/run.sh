#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# run.sh [MODULE...] [--seconds N] [--requests N] [--repeats N] [--short]
#
# Installs the peers, makes a Release build and prints machine, compiler, commit and the rows of
# the named modules' benchmarks, or of all. `dds` stands for those of the storage node's modules,
# `proxy` and `figures`: the paper's, by bench/dds.sh. `kv` is the storage node itself beside
# redis-server and fio, `kvfs` the engine alone and the file system as it is mounted beside ext4 and
# a FUSE pass-through (as root), `proxy` the director in front of an unmodified redis-server,
# `tenants` the switch beside the kernel's schedulers on a loop device (as root), `qos` the storage
# node with a tenant that floods it; `solar` packets and tables, the engine alone, SOLAR and LUNA on
# sockets beside plain ones (veth as root), and a virtual disk by NBD beside nbdkit; `nvmefs` queue
# pairs beside the shape of virtio-fs; `hcache` its hits beside memcpy, and the mount with it and
# without (as root); `minos` the replication engine, its explorer, its simulation, and the MINOS
# paper's figures in simulated time. `neighbours`: what a slow, paused, hostile or full client costs
# the others of the same server, beside what it costs with redis-server, nbdkit and ext4 (40
# minutes; bench/neighbours.sh runs parts of it). `replica`: clusters of ddp_server beside etcd,
# redis-server with replicas and a server on libraft (20 minutes, --short: 5). --seconds N: time of
# each program per case; --requests N: of a node, in the figures of minos (10000; the paper's are
# 100000), and of the victims in neighbours (100000); --repeats N: of neighbours (5). Save the
# output: bench/plot.sh makes pictures of it.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
exec </dev/null
LC_ALL=C.UTF-8
export LC_ALL

usage() { sed -n '3,21s/^# \{0,1\}//p' "$0"; exit "$1"; }
seconds= modules= requests= repeats= short=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --requests) requests=${2:?--requests N}; shift ;;
    --repeats) repeats=${2:?--repeats N}; shift ;;
    --short) short=--short ;;
    minos) modules="$modules ddp explorer swarm minos" ;;
    solar) modules="$modules ebs solar" ;;
    dds)
        for m in ring cuckoo channel files filelib offload director; do
            [ ! -e "bench/bench_$m.c" ] || modules="$modules $m"
        done
        modules="$modules proxy figures"
        ;;
    --help | -h) usage 0 ;;
    -*) usage 2 >&2 ;;
    *) modules="$modules $1" ;;
    esac
    shift
done
case $seconds$requests$repeats in
*[!0-9]*) echo "--seconds, --requests and --repeats take numbers" >&2; exit 2 ;;
esac

. tests/packages.sh
{
    packages gcc:gcc g++:g++ /usr/include/stdio.h:libc6-dev cmake:cmake make:make \
        pkg-config:pkg-config liburing.h:liburing-dev xxhash.h:libxxhash-dev \
        ck_ring.h:libck-dev urcu.h:liburcu-dev /usr/include/libcuckoo:libcuckoo-dev \
        isa-l.h:libisal-dev rte_ring.h:libdpdk-dev redis-cli:redis-tools \
        redis-server:redis-server fio:fio || exit 1
} >&2

case " $modules " in
*" solar "*) packages nbdkit:nbdkit openssl/evp.h:libssl-dev ip:iproute2 >&2 ;;
*" nvmetcp "*) packages nbdkit:nbdkit openssl/evp.h:libssl-dev taskset:util-linux >&2 ;;
esac
case " $modules " in
*" neighbours "*) packages nbdkit:nbdkit lmdb.h:liblmdb-dev mkfs.ext4:e2fsprogs losetup:mount \
    /usr/include/fuse3/fuse.h:libfuse3-dev fusermount3:fuse3 openssl/evp.h:libssl-dev >&2 ;;
esac
case " $modules " in
*" replica "*) packages etcd:etcd-server etcdctl:etcd-client raft.h:libraft-dev uv.h:libuv1-dev \
    grpcpp/grpcpp.h:libgrpc++-dev google/protobuf/message.h:libprotobuf-dev \
    protoc:protobuf-compiler grpc_cpp_plugin:protobuf-compiler-grpc \
    /usr/share/gocode/src/go.etcd.io/etcd:golang-etcd-server-dev >&2 ;;
esac
case " $modules " in
*" kvfs "* | *" hcache "*)
    # Without one of them its rows are missing, visibly.
    {
        packages lmdb.h:liblmdb-dev /usr/include/fuse3/fuse.h:libfuse3-dev fusermount3:fuse3
        case " $modules " in
        *" kvfs "*) packages /usr/include/rados/librados.h:librados-dev ceph-osd:ceph-osd \
            ceph-mon:ceph-mon ceph:ceph-common ;;
        esac
    } >&2
    ;;
esac

out=${SNIC_BUILD:-$root/build}/bench
mkdir -p "$out" || exit 1
[ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null && CMAKE_GENERATOR=Ninja &&
    export CMAKE_GENERATOR
# Only what the named modules need; everything when the storage node is among them.
case " $modules " in
*" kv "* | *" kvfs "* | *" proxy "* | *" figures "* | *" tenants "* | *" qos "* | \
    *" neighbours "* | *" replica "*) only= ;;
*) only=$(echo $modules | tr ' ' ';') ;;
esac
case "$only " in gimbal[\;\ ]* | *\;gimbal[\;\ ]*) only="$only;ssd;credit" ;; esac
case "$only;" in
*hcache\;*)
    only="$only;kvop;kv;kvfs;fs;net;channel;fsdispatch;nvmefslink;hcachelink;fscache;fusedev" ;;
esac
case "$only;" in *nvmefs\;*) only="$only;nvmefslink" ;; esac
# Whose programs they are.
only=$(echo "$only" | sed 's/\bminos\b/ddpnic/; s/\bexplorer\b/ddp/; s/\bswarm\b/replica/')
case "$only " in solar[\;\ ]* | *\;solar[\;\ ]*) only="$only;luna;volume;control" ;; esac
case "$only;" in
*nvmetcp\;*) only="$only;nvmet;nvmehost;qos;ebs;solar;luna;volume;control" ;;
esac
build() {
    cmake -S "$root" -B "$out" -DSNIC_MODULES="$only" -DCMAKE_BUILD_TYPE=Release \
        -DSNIC_BUILD_TESTS=OFF -DSNIC_BUILD_FUZZ=OFF -DSNIC_BUILD_SHARED=OFF || return 1
    targets=
    programs= # of all modules
    case $modules in
    " neighbours")
        programs="neighbours kv_server page_server solar_volume director_proxy kvfs_mount"
        ;;
    " replica") programs="ddp_server resp_load calibrate raft_server etcd_load" ;;
    esac
    if [ -n "$programs" ]; then
        known=$(cmake --build "$out" --target help)
        for t in $programs; do
            case $known in *"$t"*) targets="$targets $t" ;; esac
        done
    fi
    # shellcheck disable=SC2086
    cmake --build "$out" -j "$(nproc)" --target ${targets:-all}
}
build >"$out/log" 2>&1 || { tail -n 40 "$out/log" >&2; exit 1; }

if [ -z "$modules" ]; then
    for f in bench/bench_*.c; do
        m=${f#bench/bench_}
        modules="$modules ${m%.c}"
    done
    modules="$modules kv proxy tenants qos"
fi

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)
echo "machine $(nproc) x ${cpu:-$(uname -m)}, $memory, Linux $(uname -r)"
echo "compiler $(gcc --version | head -n 1)"
echo "commit $(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)"

status=0
for m in $modules; do
    case $m in
    kv | proxy | tenants | qos)
        SNIC_BENCH_BUILD=$out sh "bench/$m.sh" ${seconds:+--seconds "$seconds"} || status=1
        continue
        ;;
    figures)
        SNIC_BENCH_BUILD=$out sh bench/dds.sh ${seconds:+--seconds "$seconds"} || status=1
        continue
        ;;
    esac
    if [ "$m" = replica ]; then
        # shellcheck disable=SC2086
        SNIC_BENCH_BUILD=$out sh bench/replica.sh $short ${seconds:+--seconds "$seconds"} ||
            status=1
    elif [ "$m" = neighbours ]; then
        SNIC_BENCH_BUILD=$out sh bench/neighbours.sh ${seconds:+--seconds "$seconds"} \
            ${requests:+--requests "$requests"} ${repeats:+--repeats "$repeats"} || status=1
    elif [ "$m" = kvfs ]; then
        [ ! -x "$out/bench/bench_kvfs" ] ||
            "$out/bench/bench_kvfs" ${seconds:+--seconds "$seconds"} || status=1
        SNIC_BENCH_BUILD=$out sh bench/kvfs.sh ${seconds:+--seconds "$seconds"} || status=1
    elif [ "$m" = minos ]; then
        "$out/bench/bench_minos" ${requests:+--requests "$requests"} || status=1
    elif [ -x "$out/bench/bench_$m" ]; then
        series=
        [ "$m" != gimbal ] || series=$out/gimbal_series.rows
        "$out/bench/bench_$m" ${seconds:+--seconds "$seconds"} ${series:+--series "$series"} ||
            status=1
        case $m in
        files | hcache)
            SNIC_BENCH_BUILD=$out sh "bench/$m.sh" ${seconds:+--seconds "$seconds"} || status=1 ;;
        nvmetcp)
            "$out/bin/nvmetcp_net" ${seconds:+--seconds "$seconds"} || status=1
            SNIC_BENCH_BUILD=$out sh bench/nvmetcp_nbd.sh ${seconds:+--seconds "$seconds"} ||
                status=1
            ;;
        esac
        if [ "$m" = solar ]; then
            for what in "raw.sh --net" raw.sh nbd.sh; do
                # shellcheck disable=SC2086
                SNIC_BENCH_BUILD=$out sh bench/solar_$what ${seconds:+--seconds "$seconds"} ||
                    status=1
            done
        fi
    else
        echo "no benchmark '$m'" >&2
        status=1
    fi
done
exit $status
