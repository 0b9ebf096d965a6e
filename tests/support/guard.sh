#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# guard.sh PID DIR: what a test leaves behind that could not tidy up
#
# A test that starts mounts or servers below DIR, a folder of its own, removes it at its end. Killed
# by ctest at its time-out it does not come to that. Then this ends all processes that have DIR
# among their arguments or in their environment, the mounts below it, and DIR. To be started as
# (setsid sh guard.sh $$ DIR &): no child of the test, it outlives it.
set -u
exec </dev/null >/dev/null 2>&1
pid=$1 dir=$2
while [ -d "$dir" ] && [ -d "/proc/$pid" ]; do sleep 1; done
[ -d "$dir" ] || exit 0
for round in 1 2; do # the second for a process that was just being started
    for f in $(grep -lsF -e "$dir" /proc/[0-9]*/cmdline /proc/[0-9]*/environ); do
        p=${f#/proc/}
        p=${p%/*}
        [ "$p" = $$ ] || kill -9 "$p"
    done
    sleep 1
done
for m in $(awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts); do
    fusermount3 -u -z "$m" || umount -l "$m"
done
rm -rf "$dir"
