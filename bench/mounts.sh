# SPDX-License-Identifier: Apache-2.0 OR MIT
# mounts.sh: what the scripts that measure file systems as they are mounted share. They source it
# with $module (of the rows), $bin (where the programs are), $work (a folder of their own),
# $limit_mb (of the memory that a limited contestant may use) and $seconds set.
cluster=$PWD/tests/tools
. bench/common.sh
mounts_finish() {
    rc=$?
    [ $rc = 0 ] || tail -n 5 "$work"/log.* >&2 2>/dev/null
    for m in "$work"/mnt.*; do
        [ -d "$m" ] || continue
        fusermount3 -u -z "$m" 2>/dev/null
        for p in $(serving "${m##*/mnt.}"); do kill "$p" 2>/dev/null; done
    done
    [ ! -e "$work/ceph" ] || sh "$cluster/rados_down.sh" "$work/ceph" >/dev/null 2>&1
    sleep 0.5
    for g in "$groups"/$module.$$.*; do
        [ ! -d "$g" ] || { while read -r p; do echo "$p" >"$groups/cgroup.procs"; done \
            <"$g/cgroup.procs"; rmdir "$g"; } 2>/dev/null
    done
    finish
}
trap mounts_finish EXIT

# ---- Memory limits ----

groups=
if grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null &&
    echo +memory 2>/dev/null >/sys/fs/cgroup/cgroup.subtree_control; then
    groups=/sys/fs/cgroup limit_file=memory.max
elif [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    groups=/sys/fs/cgroup/memory limit_file=memory.limit_in_bytes
fi
# limit WHO PID...: these, and what `inside WHO` starts, have limit_mb together
limit() {
    [ -n "$groups" ] || return 0
    who=$1
    shift
    mkdir "$groups/$module.$$.$who" && echo "${limit_mb}M" >"$groups/$module.$$.$who/$limit_file" ||
        { groups=; return; }
    for p in "$@"; do echo "$p" >"$groups/$module.$$.$who/cgroup.procs"; done
}
# inside WHO COMMAND...
inside() {
    g=$groups/$module.$$.$1
    shift
    if [ -n "$groups" ] && [ -d "$g" ]; then
        sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$g" "$@"
    else
        "$@"
    fi
}

# ---- Contestants ----

place() { [ "$1" = ext4 ] && echo "$work/ext4" || echo "$work/mnt.$1"; } # place WHO
serving() { # serving WHO: its processes
    for f in $(grep -lszxF -e "$work/mnt.$1" /proc/[0-9]*/cmdline 2>/dev/null); do
        case $(readlink "${f%/cmdline}/exe" 2>/dev/null) in
        "$bin"/*) basename "${f%/cmdline}" ;;
        esac
    done
}
mounted() { # mounted WHO COMMAND...: whether it could be
    mkdir "$work/mnt.$1"
    who=$1
    shift
    if ! timeout 60 "$@" "$work/mnt.$who" >"$work/log.$who" 2>&1; then
        echo "skip $module $who: $(tail -n 1 "$work/log.$who")"
        return 1
    fi
    chmod 755 "$work/mnt.$who"
    all="$all $who"
}
[ "$(id -u)" = 0 ] && [ -c /dev/fuse ] && (: <>/dev/fuse) 2>/dev/null ||
    { echo "skip $module mounts: they need root and /dev/fuse"; exit 0; }
command -v fio >/dev/null || die "fio is not installed"

# ---- Figures ----

busy() { awk '$1 == "cpu" { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; } # ticks of all CPUs
drop() { sync; echo "${1:-3}" >/proc/sys/vm/drop_caches; }

# fio_ WHO OPTION...: operations per second
fio_() {
    who=$1
    shift
    inside "$who" fio --name=bench --directory="$(place "$who")" --thread --group_reporting \
        --randrepeat=0 --norandommap --fallocate=none --output-format=terse --terse-version=3 "$@" \
        2>"$work/fio" | awk -F';' '/^3;/ { printf "%.2f\n", $8 + $49; good = 1 }
            END { exit !good }' || die "fio on $who $*: $(cat "$work/fio")"
}
dpu_ticks() { # dpu_ticks WHO: of the file system's process, of two
    for p in $(serving "$1"); do
        ! tr '\0' '\n' <"/proc/$p/cmdline" | grep -qx dpu || ticks "$p"
    done
}

# ---- Rows ----

print_row() { # print_row CASE WHO THREADS
    kept "$1" "$2" || return 0
    unit=op/s
    case $1 in
    cpu_* | host_*) unit=us/op ;;
    device_*) unit=B/op ;;
    rss_*) unit=B ;;
    descriptors) unit=descriptors ;;
    esac
    echo "row $module ${1%.*} $2 $3 $(middle "$1" "$2") $unit"
}
# ratio_row CASE OURS PEER THREADS: more operations, or less time, is better
ratio_row() {
    kept "$1" "$2" && kept "$1" "$3" || return 0
    awk -v a="$(middle "$1" "$2")" -v b="$(middle "$1" "$3")" -v c="${1%.*}" -v w="$2/$3" \
        -v t="$4" -v m="$module" 'BEGIN {
            if (c ~ /^(cpu|host|device|rss)_/ || c == "descriptors") { x = a; a = b; b = x }
            if (b > 0) printf "ratio %s %s %s %s %.2f\n", m, c, w, t, a / b
        }'
}
