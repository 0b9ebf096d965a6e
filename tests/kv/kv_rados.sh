#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# A Ceph cluster of one monitor and one OSD in a folder of its own, for one run of a program.
#
#   kv_rados.sh memstore|bluestore PROGRAM [ARGS...]
#                       starts it, runs the program with CEPH_CONF, SNIC_RADOS_RUN (unlike other
#                       runs'), SNIC_RADOS_DIR and SNIC_RADOS_OSD_PID, and ends it
#   kv_rados.sh restart DIR
#                       kill -9 of the OSD, and another one on its data (bluestore)
#
# Exit code: the program's; 77 where Ceph's packages are missing.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
up=$here/tools/rados_up.sh

stop() { # PIDFILE SIGNAL
    [ -s "$1" ] && kill "-$2" "$(cat "$1")" 2>/dev/null
}

if [ "$1" = restart ]; then
    CEPH_CONF="$2/ceph.conf"
    export CEPH_CONF
    stop "$2/osd.0.pid" KILL
    sleep 1
    setsid ceph-osd -i 0 -f >"$2/log/osd.0.again" 2>&1 </dev/null &
    echo $! >"$2/osd.0.pid"
    exit 0
fi

store=$1
shift
for need in ceph-mon ceph-osd ceph rados monmaptool python3; do
    command -v $need >/dev/null || { echo "kv_rados: no $need: skipped"; exit 77; }
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/snic_rados.XXXXXX") || exit 1
(setsid sh "$here/support/guard.sh" $$ "$dir" &)
down() {
    stop "$dir/c/osd.0.pid" CONT
    stop "$dir/c/osd.0.pid" KILL
    stop "$dir/c/mon.pid" KILL
    rm -rf "$dir"
}
trap down EXIT
trap 'exit 1' INT TERM HUP
# A slow machine needs the time for one try; the next ones are for a port that another one takes.
end=$(($(date +%s) + 420))
for try in 1 2 3; do
    port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
    left=$((end - $(date +%s)))
    RADOS_UP_SECONDS=$left timeout $((left + 20)) sh "$up" "$dir/c" "$store" 1 "$port" \
        >"$dir/up" 2>&1 && break
    stop "$dir/c/osd.0.pid" KILL
    stop "$dir/c/mon.pid" KILL
    [ $try = 3 ] || [ $((end - $(date +%s))) -lt 60 ] || continue
    cat "$dir/up"
    echo "kv_rados: the cluster did not start"
    exit 1
done
CEPH_CONF="$dir/c/ceph.conf"
SNIC_RADOS_RUN=$$
SNIC_RADOS_DIR="$dir/c"
SNIC_RADOS_OSD_PID=$(cat "$dir/c/osd.0.pid")
export CEPH_CONF SNIC_RADOS_RUN SNIC_RADOS_DIR SNIC_RADOS_OSD_PID
"$@"
