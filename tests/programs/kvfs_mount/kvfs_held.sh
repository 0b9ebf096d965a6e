# SPDX-License-Identifier: Apache-2.0 OR MIT
# Inodes without a name stay as long as the kernel knows them, beside a plain folder; they are gone
# when it has forgotten them, or at the next mount.
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
held=$(dirname "$0")/kvfs_held.py
holder=

# The last line of figures that --stats printed.
figures() { grep 'held=' "$work/log" | tail -n 1; }
figured() { figures | grep -q -e "$1"; }
wait_for() { kvfs_wait "no '$1' in the figures" figured "$1"; }
no_orphans() {
    "$KVFS_TOOL" stats --store "$spec" >"$work/stats" || fail "stats: $(cat "$work/stats")"
    grep -q 'orphans  *0 ' "$work/stats" || fail "$1: $(grep orphans "$work/stats")"
    grep -q 'bytes taken  *0$' "$work/stats" || fail "$1: $(grep 'bytes taken' "$work/stats")"
}
hold() {
    mkfifo "$work/in" "$work/out"
    python3 "$held" hold "$mnt" <"$work/in" >"$work/out" 2>>"$work/log" &
    holder=$!
    pids="$pids $holder"
    exec 8>"$work/in" 9<"$work/out"
    read -r line <&9 && [ "$line" = held ] || fail "nothing is held"
}
let_go() { # what it has read last: $line
    exec 8>&-
    read -r line <&9
    exec 9<&-
    wait $holder
    rm "$work/in" "$work/out"
}

kvfs_open --stats 1
step "as in a plain folder"
mkdir "$work/plain"
timeout 900 python3 "$held" compare "$mnt" "$work/plain" || fail "they differ"
step "many, and none is left when all is forgotten"
timeout 900 python3 "$held" storm "$mnt" || fail "a held file is not what it was"
wait_for 'held=0 '
hold
wait_for 'held=20 '
let_go
[ "$line" = "alive 20" ] || fail "of twenty held: $line"
wait_for 'held=0 '
kvfs_close
no_orphans "after unmounting"

step "held when the process is killed: the next mount removes them"
kvfs_again
hold
kvfs_kill
let_go
kvfs_again
kvfs_close
no_orphans "after the next mount"

case ${KVFS_OPTIONS:-} in *two-process*) ;; *) exit 0 ;; esac
step "held when the file system's process dies: as a file at a power cut"
kvfs_again --stats 1
hold
for p in $(kvfs_pid); do
    tr '\0' ' ' <"/proc/$p/cmdline" | grep -q 'role dpu' && kill -9 "$p"
done
touch "$mnt/later" || fail "no successor"
rm "$mnt/later"
let_go
[ "$line" = "alive 0" ] || fail "of twenty that a death took: $line"
: >"$mnt/x" && rm "$mnt/x"
kvfs_close
no_orphans "after a death of the file system's process"
