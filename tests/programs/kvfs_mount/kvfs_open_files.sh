#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_open_files.sh: one user with as many files open as there may be is refused more (EMFILE),
# and others are not; when all that there may be are open (ENFILE) root still opens some. What is
# refused was not made, is counted, and is a line in the log each second at most; when files are
# closed the next ones open.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
figures=127.0.0.1:$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')

began=$(date +%s)
for how in "" "--threads 2" "--two-process"; do
    step "mounted with '$how'"
    limits="--open-files 160 --user-open-files 100 --metrics $figures"
    # shellcheck disable=SC2086
    if [ -z "$work" ]; then kvfs_open $how $limits; else kvfs_again $how $limits; fi
    rm -rf "$mnt/all"
    mkdir "$mnt/all" && chmod 1777 "$mnt/all"
    timeout -s KILL 1200 python3 "$here/kvfs_open_files.py" "$mnt/all" "$figures" ||
        fail "$how: open files"
    kvfs_close
done
n=$(grep -c -e 'raise --\(user-\)\?open-files' "$work/log")
seconds=$(($(date +%s) - began))
[ "$n" -ge 1 ] && [ "$n" -le $((2 * (seconds + 3))) ] || # one a second of each option and mount
    fail "$n lines of it in the log, in $seconds s"
for option in user-open-files open-files; do # both within one second: a line of each
    grep -q -e "raise --$option" "$work/log" || fail "no line of --$option in the log"
done
step "all well"
