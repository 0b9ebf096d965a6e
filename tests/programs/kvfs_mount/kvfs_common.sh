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
# the script ends. 77 is the exit code where mounting is impossible. A script that fails prints the
# end of the mount's log, and the cause last.
#
# Nothing is judged by the time that it takes: on a busy machine anything takes long. kvfs_wait
# waits for an event; its limit, and that of each `timeout`, is for what never happens.

# A mount namespace of its own. One that another test makes of a copy of all mounts would keep ours,
# and its process, alive after the unmount; and what looks at all mounts (df) would have it in use.
case ${KVFS_INSIDE:-} in
"")
    [ "$(id -u)" != 0 ] || ! unshare -m --propagation private true 2>/dev/null ||
        KVFS_INSIDE=new exec unshare -m --propagation private sh "$0" "$@"
    ;;
new) # the copies of other tests' mounts
    for m in $(awk '$2 ~ "/kvfs(_[a-z]*)?[.][A-Za-z0-9]*/" { print $2 }' /proc/mounts | tac); do
        umount -l "$m"
    done
    export KVFS_INSIDE=yes
    ;;
esac

LC_ALL=C.UTF-8
export LC_ALL
store=${KVFS_STORE:-lmdb}
nightly=${SNIC_NIGHTLY:-}
[ "$nightly" != 0 ] || nightly=
work= mnt= spec=- pids= cluster= this_step=start

skip() {
    echo "skip: $*"
    exit 77
}
fail() { # a subshell's is added to by the shell that ends with it
    if [ -n "$work" ]; then echo "$*" >>"$work/failed"; else echo "FAILED: $*"; fi
    exit 1
}
step() {
    this_step=$*
    echo "== $*"
}
kvfs_wait() { # WHAT COMMAND...: until the command succeeds; else it fails with WHAT
    missing=$1 until=$(($(date +%s) + 600))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $until ] || fail "$missing, after 600 s"
        sleep 0.05
    done
}

kvfs_finish() {
    rc=$?
    trap - EXIT
    for p in $pids; do kill "$p" 2>/dev/null; done
    if [ -n "$mnt" ] && kvfs_mounted; then
        fusermount3 -u -z "$mnt" 2>/dev/null
        kvfs_gone 30
    fi
    for p in $pids; do kill -9 "$p" 2>/dev/null; done
    [ -z "$cluster" ] || sh "$cluster/rados_down.sh" "$work/ceph" >/dev/null 2>&1
    if [ $rc != 0 ] && [ $rc != 77 ] && [ -e "$work/log" ]; then
        echo "-- the end of the mount's log:"
        tail -n 12 "$work/log" | cut -c1-300
    fi
    [ -z "$work" ] || [ ! -e "$work/failed" ] ||
        echo "FAILED at '$this_step': $(tail -n 8 "$work/failed" | cut -c1-800)"
    [ -z "$work" ] || [ -n "${KVFS_KEEP:-}" ] || rm -rf "$work"
    exit $rc
}
trap kvfs_finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

kvfs_mounted() { grep -q " $mnt fuse" /proc/mounts; }
kvfs_no_mount() { ! grep -q " ${1:-$mnt} fuse" /proc/mounts; }
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
# The process of a role, "host" or "dpu", or the supervisor of both. A process that any of them has
# forked has the same arguments until it executes its own program.
kvfs_role() { # ROLE
    ours=" $(kvfs_pid | tr '\n' ' ')"
    for p in $ours; do
        words=$(tr '\0' ' ' <"/proc/$p/cmdline")
        read -r _ _ _ parent _ <"/proc/$p/stat" || continue
        above=
        case $ours in *" $parent "*) above=$(tr '\0' ' ' <"/proc/$parent/cmdline") ;; esac
        case $1,$words,$above in
        *,, | *" --refresh "* | *" --unmount "* | *,*,*--role*) ;;
        supervisor,*--role* | supervisor,*,?*) ;;
        supervisor,* | *,*"--role $1 "*) echo "$p" ;;
        esac
    done 2>/dev/null
}
# Those that end: they have no arguments any more, and still have files open, and locks.
kvfs_ending() {
    for f in $(grep -lsxE 'kvfs_(mount|pass)|exe' /proc/[0-9]*/comm); do
        d=${f%/comm}
        [ -z "$(tr -d '\0' <"$d/cmdline")" ] && read -r _ _ state _ <"$d/stat" || continue
        [ "$state" != Z ] || [ "$(ls "$d/task" | wc -l)" != 1 ] || continue
        case $(readlink "$d/ns/mnt") in
        "" | "$(readlink /proc/$$/ns/mnt)") echo "${d#/proc/}" ;;
        esac
    done 2>/dev/null
}
# Wait until the mount's processes have ended: the store is free then. Those that have not are
# killed, and shown with what they wait for.
kvfs_gone() { # [SECONDS]
    until=$(($(date +%s) + ${1:-600}))
    while :; do
        left="$(kvfs_pid) $(kvfs_ending)"
        [ "$left" != " " ] || return 0
        [ "$(date +%s)" -lt $until ] || break
        sleep 0.05
    done
    for p in $left; do
        echo "left: $p $(tr '\0' ' ' <"/proc/$p/cmdline" | tail -c 100) in" \
            "$(cat /proc/"$p"/task/*/wchan 2>/dev/null | tr '\0' ' ')"
        kill -9 "$p" 2>/dev/null
    done
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
        timeout 600 "$KVFS_MOUNT" --store "$spec" $([ "$store" != mem ] || echo --mkfs) \
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
    kvfs_wait "it is in use" kvfs_unmounted "$mnt"
    kvfs_gone || fail "the mount's process did not end after it was unmounted"
}
kvfs_unmounted() { # DIR: now; not while a process uses it, even if it only looks (df)
    fusermount3 -u "$1" 2>"$work/busy"
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
