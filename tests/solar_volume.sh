#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_volume.sh PROGRAM solar|luna: a block server and a client that is an NBD server, as
# processes, and nbdcopy on it: an ext4 image goes there while the server is killed (-9) and started
# again, and comes back as it was.
set -u
exec </dev/null
program=$1
transport=$2
for p in nbdcopy mkfs.ext4 e2fsck; do
    command -v $p >/dev/null || { echo "skipped: no $p"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/solar_volume.XXXXXX") || exit 1
server='' client=''
finish() {
    rc=$?
    trap - EXIT
    for p in $server $client; do kill -9 "$p" 2>/dev/null; done
    rm -rf "$work"
    exit $rc
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
fail() {
    echo "FAILED: $*"
    tail -n 20 "$work"/*.log
    exit 1
}
# ready LOG PID: what it says it is ready at
ready() {
    i=0
    until at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$1") && [ -n "$at" ]; do
        kill -0 "$2" 2>/dev/null || {
            ! grep -q io_uring "$1" || { echo "skipped: $(cat "$1")"; exit 77; }
            fail "it ended"
        }
        [ $((i += 1)) -le 600 ] || fail "it is not ready"
        sleep 0.05
    done
}
serve() {
    "$program" server --listen "$1" --store "$work/store" --store-size 256M --disk 1:64M \
        >"$work/server.log" 2>&1 &
    server=$!
    ready "$work/server.log" $server
    address=$at
}
mkdir "$work/tree"
head -c 25000000 /dev/urandom >"$work/tree/random"
truncate -s 64M "$work/image"
mkfs.ext4 -q -d "$work/tree" "$work/image" || fail "mkfs.ext4"

serve 127.0.0.1:0
"$program" client --transport "$transport" --server "$address" --disk 1 --size 64M \
    --socket "$work/nbd" >"$work/client.log" 2>&1 &
client=$!
ready "$work/client.log" $client
uri="nbd+unix:///?socket=$work/nbd"

echo "== an image goes there; the server is killed meanwhile, and comes back"
timeout 120 nbdcopy --requests=4 --request-size=65536 "$work/image" "$uri" >"$work/copy.log" 2>&1 &
copy=$!
i=0 # some of it has arrived
until [ "$(du -k "$work/store" | cut -f1)" -gt 4096 ]; do
    kill -0 $copy 2>/dev/null || break
    [ $((i += 1)) -le 2000 ] || fail "nothing arrives"
done
kill -9 $server
wait $server 2>/dev/null
under_way=$(kill -0 $copy 2>/dev/null && echo 1 || echo 0)
serve "$address"
wait $copy || fail "nbdcopy"
echo "the copy was under way when the server died: $under_way"

echo "== all of it is there, also after the next death"
kill -9 $server
wait $server 2>/dev/null
serve "$address"
timeout 120 nbdcopy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
e2fsck -fn "$work/back" >/dev/null 2>&1 || fail "e2fsck"

echo "== both end when they are told"
kill -TERM $client
wait $client || fail "the client ended with $?"
client=''
kill -TERM $server
wait $server || fail "the server ended with $?"
server=''
echo "all well"
