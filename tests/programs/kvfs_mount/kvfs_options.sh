# SPDX-License-Identifier: Apache-2.0 OR MIT
# Mount options, mount(8) and fstab, and the messages for wrong ones.
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
[ -n "${KVFS_INSIDE:-}" ] || skip "no mount namespace"
kvfs_open
kvfs_close
spec=lmdb:$work/store
two=${KVFS_OPTIONS:-}
KVFS_OPTIONS=

refused() { # CODE TEXT COMMAND...
    want=$1 text=$2
    shift 2
    timeout 600 "$@" >"$work/out" 2>&1
    rc=$?
    [ $rc = "$want" ] || fail "$*: exit $rc, expected $want: $(cat "$work/out")"
    grep -q -e "$text" "$work/out" || fail "$*: not reported: '$text': $(cat "$work/out")"
}
away() {
    kvfs_unmount
    ! kvfs_mounted || fail "another mount was below"
}
on() { # OPTIONS of -o
    # shellcheck disable=SC2086
    timeout 600 "$KVFS_MOUNT" $two -o "$1" "$spec" "$mnt" 2>>"$work/log" || fail "-o $1 is refused"
}

step "access times"
on rw
mkdir "$mnt/d"
head -c 20000 /dev/urandom >"$mnt/d/f"
sum=$(cat "$mnt/d/f" | cksum)
away
# read_all: read file and folder twice; $file and $folder: their access times in seconds
read_all() {
    cat "$mnt/d/f" >/dev/null
    ls "$mnt/d" >/dev/null
    head -c 1 "$mnt/d/f" >/dev/null
}
look() {
    file=$(stat -c %X "$mnt/d/f") folder=$(stat -c %X "$mnt/d")
    new=$(($(date +%s) - 3600))
    [ "$file" -lt "$new" ] && file=old || file=new
    [ "$folder" -lt "$new" ] && folder=old || folder=new
}
exact() { # as a mount sees it that changes nothing
    on ro
    stat -c %x "$mnt/d/f" "$mnt/d"
    away
}
# Older than the last change: relatime has them updated.
for o in "rw new new" "lazytime new new" "strictatime new new" "noatime old old" \
    "nodiratime new old" "noatime,relatime new new"; do
    # shellcheck disable=SC2086
    set -- $o
    on "$1"
    touch -a -d "-3 hours" "$mnt/d" "$mnt/d/f"
    read_all
    look
    [ "$file $folder" = "$2 $3" ] || fail "-o $1: atime of the file $file, of the folder $folder"
    away
    on ro
    look
    [ "$file $folder" = "$2 $3" ] || fail "-o $1: after mounting anew $file $folder"
    away
done
# Newer: only strictatime.
exact >"$work/first"
for o in relatime strictatime; do
    on $o
    read_all
    away
    exact >"$work/$o"
done
cmp "$work/first" "$work/relatime" || fail "relatime changes a time that is newer than a change"
[ "$(cat "$work/strictatime" "$work/relatime" | sort -u | wc -l)" = 4 ] ||
    fail "strictatime leaves a time as it is"

step "read-only: nothing changes in the store, and nothing may"
on rw
touch -a -d "-3 hours" "$mnt/d" "$mnt/d/f"
away
contents() { # the object file is as large as its disk, and nearly all of it a hole
    sync "$work/store/data.mdb" "$work/store/objects" # what it occupies may change with that
    cksum <"$work/store/data.mdb"
    head -c 4M "$work/store/objects" | cksum
    stat -c '%b %Y %Z' "$work/store/objects"
}
contents >"$work/before"
on ro
read_all
[ "$(cat "$mnt/d/f" | cksum)" = "$sum" ] || fail "read-only, other bytes"
for c in "touch $mnt/d/f" "touch $mnt/x" "rm $mnt/d/f" "mkdir $mnt/e" "chmod 600 $mnt/d/f" \
    "ln $mnt/d/f $mnt/l" "mv $mnt/d $mnt/e" "truncate -s 1 $mnt/d/f"; do
    # shellcheck disable=SC2086
    refused 1 "Read-only file system" $c
done
sync -f "$mnt"
sleep 1.2
look
[ "$file $folder" = "old old" ] || fail "read-only: atime $file $folder"
away
contents | cmp - "$work/before" ||
    fail "a read-only mount has changed the store"
on rw
away

step "messages name the fault and the remedy"
refused 1 "-o ro excludes" "$KVFS_MOUNT" -o ro --mkfs "$spec" "$mnt"
refused 1 "-o ro excludes" "$KVFS_MOUNT" -o ro mem "$mnt"
refused 1 "use --kernel-writeback" "$KVFS_MOUNT" --exclusive --writeback "$spec" "$mnt"
refused 1 "use --cache-writeback" "$KVFS_MOUNT" --write-back "$spec" "$mnt"
refused 1 "use --cache-writeback" "$KVFS_MOUNT" -o write_back "$spec" "$mnt"
refused 1 "MOUNTPOINT" "$KVFS_MOUNT" "$mnt" "$mnt"
refused 1 "MOUNTPOINT" "$KVFS_MOUNT" "$spec" "$mnt" "$mnt"
refused 1 "mount point is missing" "$KVFS_MOUNT" "$spec"
refused 1 "unknown option" "$KVFS_MOUNT" -o nonsense "$spec" "$mnt"
refused 1 "between 1M and 1T" "$KVFS_MOUNT" -o cache_size=0 "$spec" "$mnt"
refused 1 "use --attr-timeout" "$KVFS_MOUNT" -o timeout=5 "$spec" "$mnt"
for o in "threads 257 256" "attr-timeout 86401 86400" "stats 86401 86400" "open-files 63 16777216" \
    "open-files 16777217 16777216" "user-open-files 0 16777216" "spin 1000001 1000000" \
    "records-size 1048575 1T" "cache-size 1025G 1T"; do
    # shellcheck disable=SC2086
    set -- $o
    refused 1 "between [0-9]*[M]* and $3" "$KVFS_MOUNT" "--$1" "$2" "$spec" "$mnt"
done
refused 1 "must be libfuse or dev" "$KVFS_MOUNT" --fuse kernel "$spec" "$mnt"
refused 1 "excludes --fuse dev" "$KVFS_MOUNT" -o fuse=dev,threads=2 "$spec" "$mnt"
refused 0 "kvfs_mount (snicstore) [0-9]" "$KVFS_MOUNT" --version

step "copy_file_range() copies the whole length"
on rw
head -c 9000000 /dev/urandom >"$mnt/long"
python3 - "$mnt" <<'END' || fail "a copy is short"
import os, sys
a, b = (os.open(sys.argv[1] + n, os.O_RDWR | os.O_CREAT) for n in ("/long", "/copy"))
assert os.copy_file_range(a, b, 20000000) == 9000000
assert os.copy_file_range(a, b, 20000000, 8000000, 8000000) == 1000000
END
cmp "$mnt/long" "$mnt/copy" || fail "a copy differs"
rm "$mnt/long" "$mnt/copy"
away

step "twice at one place; the place is free again afterwards"
on rw
refused 32 "is mounted there already: unmount it first" "$KVFS_MOUNT" "$spec" "$mnt"
[ "$(grep -c " $mnt fuse" /proc/mounts)" = 1 ] || fail "mounted twice"
refused 1 "-o remount is not supported" "$KVFS_MOUNT" "$spec" "$mnt" -o remount,ro
away

command -v mount.fuse >/dev/null || skip "no mount.fuse (package fuse3)"
step "mount(8) and fstab"
mkdir "$work/bin"
cp "$KVFS_MOUNT" "$work/bin/kvfs_mount"
mount --bind "$work/bin" /usr/local/sbin || fail "no /usr/local/sbin"
mount -t fuse.kvfs_mount "$spec" "$mnt" -o noatime,cache_size=8M 2>>"$work/log" || fail "mount(8)"
grep -q "^$spec $mnt fuse.kvfs_mount .*noatime" /proc/mounts || fail "$(grep "$mnt" /proc/mounts)"
[ "$(cat "$mnt/d/f" | cksum)" = "$sum" ] || fail "mount(8), other bytes"
refused 1 "-o remount is not supported" mount -o remount,ro "$mnt"
refused 32 "unmount it first" mount -t fuse.kvfs_mount "$spec" "$mnt"
away
words=noauto,nofail,_netdev,x-test,ro,two_process,nodev
echo "$spec $mnt fuse.kvfs_mount $words 0 0" >"$work/fstab"
mount -T "$work/fstab" "$mnt" 2>>"$work/log" || fail "mount by fstab: $(tail -n 3 "$work/log")"
grep -q "^$spec $mnt fuse.kvfs_mount ro,nodev" /proc/mounts || fail "$(grep "$mnt" /proc/mounts)"
[ "$(cat "$mnt/d/f" | cksum)" = "$sum" ] || fail "fstab, other bytes"
refused 1 "Read-only" touch "$mnt/d/f"
umount "$mnt"
kvfs_gone || fail "it does not end"
umount /usr/local/sbin
kvfs_check
