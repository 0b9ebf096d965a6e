#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# rados_down.sh DIR [keep]: stops the cluster that rados_up.sh started in DIR, by its process ids,
# and removes DIR unless `keep` is there.
set -u
dir=${1:?usage: rados_down.sh DIR [keep]}

# stop PIDFILE: SIGTERM, after ten seconds SIGKILL; a process id that now belongs to another program
# is left alone.
stop() {
    pid=$(cat "$1" 2>/dev/null) || return 0
    rm -f "$1"
    case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in ceph-*) ;; *) return 0 ;; esac
    kill -TERM "$pid"
    i=0
    while kill -0 "$pid" 2>/dev/null; do
        i=$((i + 1))
        [ $i -le 100 ] || { kill -KILL "$pid" 2>/dev/null; return 0; }
        sleep 0.1
    done
}
for f in "$dir"/osd.*.pid; do
    [ ! -e "$f" ] || stop "$f"
done
stop "$dir/mon.pid"
[ "${2:-}" = keep ] || rm -rf "$dir"
