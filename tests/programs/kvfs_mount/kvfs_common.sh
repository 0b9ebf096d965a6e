# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced by the scripts that test a mount. Environment variables:
#
#   KVFS_MOUNT, KVFS_TOOL   the programs
#   KVFS_STORE              lmdb (default), mem, rados; beside them dir, a plain folder, and pass,
#                           the pass-through KVFS_PASS on one, to try the tests themselves
#   KVFS_OPTIONS            more options of the mount
#   KVFS_SCOPE              nightly: skip unless SNIC_NIGHTLY is set
#
# kvfs_open makes a file system and mounts it at $mnt; kvfs_close unmounts and checks it; kvfs_kill
# and kvfs_again are a crash of the mount and what comes after. All is below $work, which goes when
# the script ends. 77 is the exit code where mounting is impossible.
LC_ALL=C.UTF-8
export LC_ALL
store=${KVFS_STORE:-lmdb}
nightly=${SNIC_NIGHTLY:-}
[ "$nightly" != 0 ] || nightly=
work= mnt= spec=- pids= cluster=

skip() {
    echo "skip: $*"
    exit 77
}
fail() {
    echo "FAILED: $*"
    exit 1
}
step() { echo "== $*"; }

kvfs_finish() {
    rc=$?
    trap - EXIT
    for p in $pids; do kill "$p" 2>/dev/null; done
    if [ -n "$mnt" ] && kvfs_mounted; then
        fusermount3 -u -z "$mnt" 2>/dev/null
        kvfs_gone
    fi
    for p in $pids; do kill -9 "$p" 2>/dev/null; done
    [ -z "$cluster" ] || sh "$cluster/rados_down.sh" "$work/ceph" >/dev/null 2>&1
    if [ $rc != 0 ] && [ $rc != 77 ] && [ -e "$work/log" ]; then
        echo "-- the end of the mount's log:"
        tail -n 30 "$work/log"
    fi
    [ -z "$work" ] || [ -n "${KVFS_KEEP:-}" ] || rm -rf "$work"
    exit $rc
}
trap kvfs_finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

kvfs_mounted() { grep -q " $mnt fuse" /proc/mounts; }
# The processes that serve the mount: they have it, or its store, among their arguments. A store in
# memory is each mount's own, though all have the same name.
kvfs_pid() {
    own=$spec
    [ "$own" != mem ] || own=$mnt
    for f in $(grep -lszxF -e "$mnt" -e "$own" /proc/[0-9]*/cmdline 2>/dev/null); do
        d=${f%/cmdline}
        case $(readlink "$d/exe" 2>/dev/null) in
        */kvfs_mount | */kvfs_pass) echo "${d#/proc/}" ;;
        esac
    done
}
# Wait until the mount's processes have ended: the store is free then.
kvfs_gone() {
    i=0
    while [ -n "$(kvfs_pid)" ] && [ $((i += 1)) -le 600 ]; do sleep 0.05; done
    [ -z "$(kvfs_pid)" ] && return
    for p in $(kvfs_pid); do kill -9 "$p" 2>/dev/null; done
    return 1
}

kvfs_cluster() {
    command -v ceph-osd >/dev/null || skip "no ceph-osd (package ceph-osd)"
    cluster=$(cd "$(dirname "$0")/../../tools" && pwd)
    for port in $((20000 + $$ % 20000)) $((20000 + ($$ + 7777) % 20000)) failed; do
        [ $port != failed ] || fail "the cluster does not start: $(tail "$work/cluster.log")"
        sh "$cluster/rados_up.sh" "$work/ceph" "${KVFS_OSD:-memstore}" 1 $port \
            >"$work/cluster.log" 2>&1 && break
        sh "$cluster/rados_down.sh" "$work/ceph"
    done
    spec=rados:$work/ceph/ceph.conf:kvfs
}

# What tidies up below $work if this script is killed.
kvfs_guard() {
    [ -n "${KVFS_KEEP:-}" ] || (setsid sh "$(dirname "$0")/../../support/guard.sh" $$ "$work" &)
}

# kvfs_open [OPTION...]
kvfs_open() {
    [ "$(id -u)" = 0 ] || skip "mounting with dev and suid needs root"
    [ "${KVFS_SCOPE:-}" != nightly ] || [ -n "$nightly" ] || skip "nightly only"
    work=$(mktemp -d /var/tmp/kvfs.XXXXXX) && chmod 755 "$work" || exit 1
    kvfs_guard
    mnt=$work/mnt
    mkdir "$mnt" "$work/store"
    [ "$store" != dir ] || return 0
    [ -c /dev/fuse ] && (: <>/dev/fuse) 2>/dev/null || skip "no /dev/fuse"
    caps=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    [ $((0x$caps >> 21 & 1)) = 1 ] || skip "no right to mount"
    command -v fusermount3 >/dev/null || skip "no fusermount3 (package fuse3)"
    case $store in
    mem) spec=mem ;;
    lmdb) spec=lmdb:$work/store ;;
    rados) kvfs_cluster ;;
    pass) ;;
    *) fail "no store '$store'" ;;
    esac
    if [ "$store" != pass ] && [ "$store" != mem ]; then
        "$KVFS_TOOL" mkfs --store "$spec" >"$work/log" 2>&1 || fail "mkfs: $(cat "$work/log")"
    fi
    kvfs_again "$@"
    chmod 755 "$mnt"
}
kvfs_again() {
    [ "$store" != dir ] || return 0
    if [ "$store" = pass ]; then
        # shellcheck disable=SC2086
        "$KVFS_PASS" ${KVFS_OPTIONS:-} "$@" "$work/store" "$mnt" >>"$work/log" 2>&1
    else
        # shellcheck disable=SC2086
        timeout 120 "$KVFS_MOUNT" --store "$spec" $([ "$store" != mem ] || echo --mkfs) \
            ${KVFS_OPTIONS:-} "$@" "$mnt" >>"$work/log" 2>&1
    fi || fail "mount: $(tail -n 5 "$work/log")"
    kvfs_mounted || fail "nothing is mounted at $mnt"
}
# The next kvfs_open makes another file system.
kvfs_forget() {
    [ -z "$cluster" ] || sh "$cluster/rados_down.sh" "$work/ceph" >/dev/null 2>&1
    rm -rf "$work"
    work= mnt= spec=- cluster=
}
kvfs_unmount() {
    [ "$store" != dir ] || return 0
    i=0
    until fusermount3 -u "$mnt" 2>"$work/busy"; do
        [ $((i += 1)) -le 100 ] || fail "unmount: $(cat "$work/busy")"
        sleep 0.1
    done
    kvfs_gone || fail "the mount's process did not end within 30 s of unmounting"
}
kvfs_check() {
    case $store in lmdb | rados) ;; *) return 0 ;; esac
    "$KVFS_TOOL" fsck --store "$spec" >"$work/fsck" 2>&1 ||
        fail "fsck: $(tail -n 20 "$work/fsck")"
}
kvfs_close() {
    kvfs_unmount
    kvfs_check
}
# As if the machine that mounts lost its power, but for what it gave to the kernel.
kvfs_kill() {
    # shellcheck disable=SC2046
    kill -9 $(kvfs_pid)
    fusermount3 -u -z "$mnt" 2>/dev/null
    kvfs_gone || fail "the mount's process survived SIGKILL"
}
