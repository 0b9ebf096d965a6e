#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_sparse.sh: a program that copies a file by SEEK_DATA, SEEK_HOLE or st_blocks while another
# process has it mapped, or has written what the kernel or the hybrid cache still holds, copies
# every byte; when no process can write to it any more, its holes are known.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)

ready() { [ -e "$work/ready" ] || ! kill -0 $writer 2>/dev/null; }
tried() { # PROGRAM: the copies of those that are installed are tried
    command -v "$1" >/dev/null
}
for how in "" "--threads 2" "--two-process" "--two-process --cache-size 4M --cache-writeback" \
    "--exclusive --kernel-writeback"; do
    step "mounted with '$how'"
    # shellcheck disable=SC2086
    if [ -z "$work" ]; then kvfs_open $how; else kvfs_again $how; fi
    for way in map mapped-only write old-empty; do
        timeout -s KILL 900 python3 "$here/kvfs_sparse.py" "$mnt/$way" $way "$work/ready" \
            2>"$work/workers.log" &
        writer=$!
        pids=$writer
        kvfs_wait "$way: no writer" ready
        [ -e "$work/ready" ] || fail "$way: no writer: $(tail -n 3 "$work/workers.log")"
        timeout 600 python3 "$here/kvfs_sparse.py" "$mnt/$way" same ||
            fail "$how, $way: by SEEK_DATA and SEEK_HOLE bytes are left out"
        if tried cp; then
            cp --sparse=auto "$mnt/$way" "$work/copy" && cmp "$mnt/$way" "$work/copy" ||
                fail "$how, $way: cp"
        fi
        if tried tar; then
            tar -S -cf - -C "$mnt" $way | tar -xOf - >"$work/copy"
            cmp "$mnt/$way" "$work/copy" || fail "$how, $way: tar -S"
        fi
        rm "$work/ready"
        wait $writer || fail "$way: the writer: $(cat "$work/workers.log")"
        pids=
        case $how in
        *--kernel-writeback*) ;; # the kernel has been notified once that it has to answer itself
        *)
            timeout 600 python3 "$here/kvfs_sparse.py" "$mnt/$way" holes ||
                fail "$how, $way: no process has it open, and there is no hole"
            ;;
        esac
    done
    kvfs_close
done
step "all well"
