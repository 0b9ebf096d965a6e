# SPDX-License-Identifier: Apache-2.0 OR MIT
# The programs kvfs_mount and kvfs_tool themselves: their messages for bad input, how they end, two
# mounts of one store, two processes of which one dies. KVFS_MOUNT and KVFS_TOOL name them.
. "$(dirname "$0")/kvfs_common.sh"
[ -n "${KVFS_MOUNT:-}" ] && [ -n "${KVFS_TOOL:-}" ] || skip "no kvfs_mount"
[ "$(id -u)" = 0 ] && [ -w /dev/fuse ] || skip "mounting wants root and /dev/fuse"

work=$(mktemp -d "${TMPDIR:-/tmp}/kvfs_program.XXXXXX")
kvfs_guard
mnt=$work/mnt
other=$work/other
spec=lmdb:$work/store
dead= # the process of the mount that is declared dead
mkdir "$mnt" "$other" "$work/store"
program_finish() {
    rc=$?
    [ -z "$dead" ] || kill -9 "$dead" 2>/dev/null
    fusermount3 -u -z "$other" 2>/dev/null
    (exit $rc)
    kvfs_finish
}
trap program_finish EXIT

# refused CODE TEXT COMMAND...: it ends with this code and prints the text.
refused() {
    want=$1 text=$2
    shift 2
    timeout 600 "$@" >"$work/out" 2>&1
    rc=$?
    [ $rc = "$want" ] || fail "$*: exit $rc, expected $want: $(cat "$work/out")"
    [ -z "$text" ] || grep -q -e "$text" "$work/out" ||
        fail "$*: not reported: '$text': $(cat "$work/out")"
}
gone() { kvfs_wait "$1 is still mounted" kvfs_no_mount "$1"; } # DIR
unmount() { kvfs_wait "it is in use" kvfs_unmounted "$1"; }    # DIR
mount_at() { # DIR OPTION...
    at=$1
    shift
    timeout 600 "$KVFS_MOUNT" --store "$spec" "$@" "$at" 2>>"$work/log" || fail "cannot mount"
}
serving() { # the only one
    for p in $(kvfs_pid); do
        ! tr '\0' '\n' <"/proc/$p/cmdline" 2>/dev/null | grep -qxF -e "$mnt" || echo "$p"
    done
}
ended() { kvfs_gone || fail "a process is left"; } # none is left that served
step "bad input"
refused 1 "unknown option" "$KVFS_MOUNT" --nonsense x "$mnt"
refused 1 "not one of" "$KVFS_MOUNT" --store what "$mnt"
refused 1 "mount point is missing" "$KVFS_MOUNT" --store mem
refused 32 "make the folder: No such" "$KVFS_MOUNT" --store "lmdb:$work/no/store" --mkfs "$mnt"
refused 0 "^  -f " "$KVFS_MOUNT" --help
refused 0 "8 not" "$KVFS_TOOL" fsck --help
refused 16 "takes no value" "$KVFS_TOOL" fsck --quiet=1 --store mem
refused 2 "unknown command 'chek'" "$KVFS_TOOL" chek --store mem
refused 2 "only while kvfs_mount" "$KVFS_TOOL" ls --store mem
refused 32 "No such file" "$KVFS_MOUNT" --store mem "$work/none"
refused 32 "not a directory" "$KVFS_MOUNT" --store mem /etc/passwd
refused 32 "kvfs_tool mkfs" "$KVFS_MOUNT" --store "$spec" "$mnt"
if unshare -m --propagation private true 2>/dev/null; then # if mounted, no other process saw it
    refused 32 "cannot mount over the root" timeout 600 unshare -m --propagation private \
        "$KVFS_MOUNT" --store mem -f /
fi
refused 1 "exclusive" "$KVFS_MOUNT" --store mem --kernel-writeback "$mnt"
refused 1 "two-process" "$KVFS_MOUNT" --store mem --two-process --threads 2 "$mnt"
refused 1 "two-process" "$KVFS_MOUNT" --store mem --link nvmefs "$mnt"
refused 1 "must be ring or" "$KVFS_MOUNT" --store mem --two-process --link wire "$mnt"
refused 1 "ADDRESS:PORT" "$KVFS_MOUNT" --store mem --metrics nowhere "$mnt"
refused 1 "must be dpu or host" "$KVFS_MOUNT" --store mem --role other "$mnt"
refused 1 "socket" "$KVFS_MOUNT" --store mem --role dpu
refused 0 "MOUNTPOINT" "$KVFS_MOUNT" --help
refused 2 "Usage" "$KVFS_TOOL" nonsense
refused 2 "names the store" "$KVFS_TOOL" ls
refused 2 "not one of" "$KVFS_TOOL" ls --store what
refused 1 "kvfs_tool mkfs" "$KVFS_TOOL" ls --store "$spec"
refused 0 "" "$KVFS_TOOL" mkfs --store "$spec"
refused 1 "force" "$KVFS_TOOL" mkfs "--store=$spec"
refused 1 "no such" "$KVFS_TOOL" cat --store "$spec" /none
refused 1 "directory\|No such" "$KVFS_TOOL" load --store "$spec" "$work/none"

step "a limit of reads by -o"
timeout 600 "$KVFS_MOUNT" --store mem -o max_read=4096 "$mnt" >"$work/log.read" 2>&1 ||
    fail "$(cat "$work/log.read")"
head -c 20000 /dev/zero >"$mnt/x" && [ "$(cat "$mnt/x" | wc -c)" = 20000 ] || fail "max_read"
unmount "$mnt"
gone "$mnt"
ended

step "load, dump, ls, cat, stat, stats"
mkdir -p "$work/tree/d/e"
echo hello >"$work/tree/d/hello"
ln "$work/tree/d/hello" "$work/tree/link"
ln -s d/hello "$work/tree/soft"
mkfifo "$work/tree/fifo"
truncate -s 100000 "$work/tree/sparse"
head -c 300000 /dev/urandom >"$work/tree/big"
chmod 4751 "$work/tree/big"
chown 12:34 "$work/tree/d/hello"
touch -d "2001-02-03 04:05:06.789" "$work/tree/big" "$work/tree/d"
refused 0 "8 files" "$KVFS_TOOL" load --store "$spec" "$work/tree"
refused 0 "hello" "$KVFS_TOOL" cat --store "$spec" /d/hello
refused 0 "rwsr-x--x .* big" "$KVFS_TOOL" ls --store "$spec"
refused 0 "300000" "$KVFS_TOOL" stat --store "$spec" /big
refused 0 "damaged  *0" "$KVFS_TOOL" stats --store "$spec"
refused 0 '"hello"' "$KVFS_TOOL" dump --store "$spec"
refused 0 "" "$KVFS_TOOL" fsck --store "$spec"
mount_at "$mnt"
diff -r --no-dereference -x fifo "$work/tree" "$mnt" || fail "what was loaded differs"
for f in big d/hello d soft fifo sparse; do
    a=$(cd "$work/tree" && stat -c '%n %f %h %u %g %Y' "$f")
    b=$(cd "$mnt" && stat -c '%n %f %h %u %g %Y' "$f")
    [ -d "$mnt/$f" ] || [ "$a" = "$b" ] || fail "attributes: $a, mounted: $b"
done
[ "$(stat -c %b "$mnt/sparse")" -le 16 ] || fail "a hole takes space"

step "a mounted store is refused by mkfs and fsck"
refused 1 "unmount it first" "$KVFS_TOOL" mkfs --force --store "$spec"
refused 8 "is mounted" "$KVFS_TOOL" fsck --repair --store "$spec"
refused 8 "is mounted" "$KVFS_TOOL" fsck --repair --force --store "$spec"
refused 0 "mounted: 1 mount;" "$KVFS_TOOL" fsck --force --store "$spec"
[ "$(cat "$mnt/d/hello")" = hello ] || fail "a mounted file system was made anew"

step "so is one that may be mounted: a heartbeat cannot be read"
hurt=lmdb:$work/hurt
mkdir "$work/hurt"
refused 0 "" "$KVFS_TOOL" mkfs --store "$hurt"
timeout 600 "$KVFS_MOUNT" --store "$hurt" "$other" 2>>"$work/log" || fail "cannot mount"
cat >"$work/hurt.py" <<'END'
import re, sys

with open(sys.argv[1], "r+b") as f:
    data = f.read()
    for beat in re.finditer(rb"R.{8}s.{8}b", data, re.S):
        f.seek(beat.end() + 4)
        f.write(bytes([data[beat.end() + 4] ^ 1]))
END
i=0
until python3 "$work/hurt.py" "$work/hurt/data.mdb" && # the next one, a second later, is good
    timeout 600 "$KVFS_TOOL" fsck --repair --store "$hurt" >"$work/out" 2>&1
    [ $? = 8 ] && grep -q "cannot find out whether it is mounted: corrupt" "$work/out"; do
    [ $((i += 1)) -le 200 ] || fail "a damaged heartbeat is not reported: $(cat "$work/out")"
done
unmount "$other"
gone "$other"

step "SIGTERM, also with a file open"
kill -TERM "$(serving)"
gone "$mnt"
ended
mount_at "$mnt"
exec 7>"$mnt/open"
echo kept >&7
kill -TERM "$(serving)"
gone "$mnt"
exec 7>&-
ended
refused 0 "kept" "$KVFS_TOOL" cat --store "$spec" /open

dead_mount() { # a name that the kernel has not cached
    stat "$mnt/none$(date +%N)" 2>&1 | grep -q -e "not connected" -e "connection abort"
}
step "kill -9: a mount over a dead one is refused; synced data is present afterwards"
mount_at "$mnt"
echo one >"$mnt/one"
sync "$mnt/one"
kill -9 "$(serving)"
kvfs_wait "a dead mount answers" dead_mount
refused 32 "fusermount3" "$KVFS_MOUNT" --store "$spec" "$mnt"
fusermount3 -u -z "$mnt"
ended
mount_at "$mnt" --threads 2
[ "$(cat "$mnt/one")" = one ] || fail "a synced file is gone"

step "two mounts of one store"
timeout 600 "$KVFS_MOUNT" --store "$spec" "$other" 2>>"$work/log" || fail "no second mount"
ls "$mnt/two" 2>/dev/null && fail "there is no such file yet"
echo two >"$other/two"
[ "$(cat "$mnt/two")" = two ] || fail "the other mount does not see a new file"
echo three >"$mnt/two"
[ "$(cat "$other/two")" = three ] || fail "the first mount's change is not seen"
rm "$mnt/two"
[ ! -e "$other/two" ] || fail "a removed file is seen"
unmount "$other"
gone "$other"
unmount "$mnt"
gone "$mnt"
ended
mount_at "$mnt" --exclusive
refused 32 "in use\|other\|has" "$KVFS_MOUNT" --store "$spec" "$other"
unmount "$mnt"
gone "$mnt"

step "slow readers of the log do not block the mount; statistics of one process and of two"
timeout 600 sh -c 'x=$("$1" --store mem "$2" 2>/dev/null)' - "$KVFS_MOUNT" "$mnt" ||
    fail "its output stays open"
unmount "$mnt"
gone "$mnt"
for how in --exclusive --two-process "--two-process --link nvmefs"; do
    # shellcheck disable=SC2086
    timeout 600 "$KVFS_MOUNT" --store "$spec" $how --stats 1 "$mnt" >"$work/figures" 2>>"$work/log"
    until grep -q 'requests=[1-9].* sessions=1' "$work/figures"; do
        ls "$mnt" >/dev/null && sleep 0.1
    done
    grep -q '\(requests\|sessions\)=0' "$work/figures" && fail "$how: figures of nothing"
    unmount "$mnt"
    gone "$mnt"
    ended
done

step "a mount that is declared dead logs it and exits with 1"
mount_at "$mnt"
"$KVFS_MOUNT" -f --store "$spec" "$other" 2>"$work/dead" &
dead=$!
until grep -q " $other fuse" /proc/mounts; do
    kill -0 $dead 2>/dev/null || fail "cannot mount: $(cat "$work/dead")"
    sleep 0.1
done
# Where it is stopped with a lock of the store's, no session can declare it dead: once more then.
for _ in $(seq 40); do
    kill -STOP $dead
    sleep 13
    kill -CONT $dead
    sleep 2
    ! grep -q "declared it dead" "$work/dead" || break
done
grep -q "declared it dead" "$work/dead" || fail "its death is not reported: $(cat "$work/dead")"
! ls "$other" >/dev/null 2>&1 || fail "a dead mount answers"
unmount "$other"
wait $dead
rc=$?
dead=
[ $rc = 32 ] || fail "a mount that was declared dead ended with $rc: $(cat "$work/dead")"
! grep -q "info: unmounted" "$work/dead" || fail "it logs a clean unmount"
ls "$mnt" >/dev/null || fail "the other mount does not answer"
unmount "$mnt"
gone "$mnt"
ended

# An fsync() that was under way when it died, or comes later, does not report success.
cat >"$work/under_way.py" <<'END'
import errno, os, signal, sys, threading, time

mnt, dpu = sys.argv[1], int(sys.argv[2])
folder = os.open(mnt, os.O_RDONLY)
written = os.open(mnt + "/written", os.O_CREAT | os.O_RDWR)
results = []


def sync(fd):
    try:
        os.fsync(fd)
        results.append(0)
    except OSError as e:
        results.append(e.errno)


for fd in folder, written:
    sync(fd)  # hears of the deaths before
    os.fsync(fd)
results.clear()
os.write(written, b"x" * 10000)
os.unlink(mnt + "/k1")
os.truncate(mnt + "/k2", 0)
os.kill(dpu, signal.SIGSTOP)
threads = [threading.Thread(target=sync, args=(fd,)) for fd in (folder, written)]
for t in threads:
    t.start()
time.sleep(0.3)
os.kill(dpu, signal.SIGKILL)
for t in threads:
    t.join()
later = os.open(mnt + "/k2", os.O_RDWR)
sync(later)
assert results == [errno.EIO] * 3, results
for fd in folder, written, later:
    os.fsync(fd)
END
for link in ring nvmefs; do
    step "two processes, $link between them; the file system's dies"
    : >"$work/acknowledged"
    mount_at "$mnt" --two-process --link $link
    n=0
    while [ $n -lt 60 ]; do
        { echo $n >"$mnt/k$n" && sync "$mnt/k$n"; } 2>/dev/null && echo $n >>"$work/acknowledged"
        [ $((n % 20)) != 10 ] || kill -9 "$(kvfs_role dpu)"
        n=$((n + 1))
    done
    while read -r n; do
        [ "$(cat "$mnt/k$n")" = "$n" ] || fail "file k$n was synced and is not there"
    done <"$work/acknowledged"
    [ "$(wc -l <"$work/acknowledged")" -ge 50 ] || fail "most writes failed"
    python3 "$work/under_way.py" "$mnt" "$(kvfs_role dpu)" ||
        fail "a change that may be lost is synced"
    unmount "$mnt"
    gone "$mnt"
    ended
    refused 0 "" "$KVFS_TOOL" fsck --store "$spec"
done
step "all well"
