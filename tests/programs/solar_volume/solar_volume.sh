#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_volume.sh PROGRAM solar|luna: a block server and a client that is an NBD server, as
# processes, and nbdcopy on it: an ext4 image goes there while the server is killed (-9) and started
# again, falls silent for a while, and receives garbage from others; and comes back as it was.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
transport=$2
server='' client='' early=''
ours() { echo $server $client $early; }
solar_begin solar_volume nbdcopy mkfs.ext4 e2fsck python3
serve() {
    : >"$work/server.log"
    "$program" server --listen "$1" --store "$work/store" --store-size 256M --disk 1:64M --stats 1 \
        >>"$work/server.log" 2>&1 &
    server=$!
    ready "$work/server.log" $server
    address=$at
}
mkdir "$work/tree"
head -c 25000000 /dev/urandom >"$work/tree/random"
truncate -s 64M "$work/image"
mkfs.ext4 -q -d "$work/tree" "$work/image" || fail "mkfs.ext4"

serve 127.0.0.1:0
echo "== a server ends on SIGTERM while it makes the segments of its disk"
"$program" server --listen 127.0.0.1:0 --store "$work/early" --store-size 512M --disk 1:400M \
    --transport "$transport" >"$work/early.log" 2>&1 &
early=$!
until grep -q 'blocks from the log' "$work/early.log"; do
    kill -0 $early || fail "it ended"
    sleep 0.01
done
kill $early
wait $early || fail "it does not end in order"
early=''
! grep -q error "$work/early.log" || fail "it ends with an error"
rm "$work/early"
for wrong in '--transport tcp' '--transport both' '--transport solar --paper' \
    '--transport luna --paper --paths 2' '--transport solar --paths 9'; do
    # shellcheck disable=SC2086
    "$program" client $wrong --size 64M --socket "$work/nbd" >"$work/wrong.log" 2>&1 &&
        fail "it takes $wrong"
    grep -q -- '--p\|--transport' "$work/wrong.log" || fail "$wrong: no clear error"
done
"$program" client --transport "$transport" --server "$address" --disk 1 --size 64M \
    --epoch 1 --stats 1 --socket "$work/nbd" >"$work/client.log" 2>&1 &
client=$!
ready "$work/client.log" $client
uri="nbd+unix:///?socket=$work/nbd"

echo "== an image goes there; the server is killed meanwhile, and comes back"
timeout 600 nbdcopy --requests=4 --request-size=65536 "$work/image" "$uri" >"$work/copy.log" 2>&1 &
copy=$!
arrived() { # some of it is there, or all
    [ "$(du -k "$work/store" | cut -f1)" -gt 4096 ] || ! kill -0 $copy 2>/dev/null
}
wait_until "nothing arrives" arrived
kill -9 $server
wait $server 2>/dev/null
under_way=$(kill -0 $copy 2>/dev/null && echo 1 || echo 0)
serve "$address"
wait $copy || fail "nbdcopy"
echo "the copy was under way when the server died: $under_way"

echo "== it is silent for 2 s, and others send it noise"
kill -STOP $server # before the copy: it could be over by then
timeout 600 nbdcopy --requests=4 --request-size=65536 "$work/image" "$uri" >"$work/copy.log" 2>&1 &
copy=$!
sleep 2
kill -CONT $server
for i in 1 2 3 4 5 6 7 8; do
    timeout $long python3 -c '
import os, socket, sys
at = sys.argv[1].rsplit(":", 1)
kind = socket.SOCK_STREAM if sys.argv[2] == "luna" else socket.SOCK_DGRAM
with socket.socket(socket.AF_INET, kind) as s:
    s.connect((at[0], int(at[1])))
    try:
        for _ in range(20):
            s.send(os.urandom(1400))
    except OSError:
        pass  # it is closed, as it should be
' "$address" "$transport" || fail "noise"
done
wait $copy || fail "nbdcopy"
reported() { # WHAT LOG: a line of it has it; there is one in a second
    logged "\\b$1" "$2"
}
if [ "$transport" = luna ]; then
    # It lost its connections by the kill, and by silence.
    for n in connects silences; do reported "$n=[1-9]" "$work/client.log"; done
fi

if [ "$transport" = solar ]; then
    for n in 'path[0-9]_srtt_us=[1-9]' 'path[0-9]_window=' 'path[0-9]_lost=' \
        'path[0-9]*_rerolls=[1-9]'; do
        reported "$n" "$work/client.log"
    done
fi
# The server's lines have figures of the client, too, as long as it does I/O.
for n in client0_id=[1-9] client0_blocks_written=[1-9] clients_not_shown=0 \
    "client0_luna=$([ "$transport" = luna ] && echo 1 || echo 0)"; do
    reported "$n" "$work/server.log"
done
tail -n 1 "$work/client.log"

echo "== all of it is there, also after the next death"
kill -9 $server
wait $server 2>/dev/null
serve "$address"
copy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
e2fsck -fn "$work/back" >/dev/null 2>&1 || fail "e2fsck"

if [ "$transport" = solar ] && unshare -n true 2>/dev/null; then
    echo "== a link that is too narrow for a block is named"
    # Not with timeout(1), which sends SIGCONT after SIGTERM: where that comes while LeakSanitizer
    # attaches to the process that ends, the stop it waits for is gone, and it waits for ever.
    unshare -n sh -c '
        ip link set lo up mtu 1500
        "$0" client --server 127.0.0.1:7000 --disk 1 --size 64M --epoch 1 \
            --stats 1 --socket "$1/narrow" >"$1/narrow.log" 2>&1 &
        i=0
        until grep -q "drops packets of" "$1/narrow.log" &&
            grep -q "too_large=[1-9]" "$1/narrow.log"; do
            [ $((i += 1)) -le 3000 ] || break
            sleep 0.1
        done
        kill -TERM $!
        wait $!' "$program" "$work" || fail "the client ended with $?"
    grep -q 'drops packets of 4252 bytes' "$work/narrow.log" || fail "the MTU is not named"
    grep -q '\btoo_large=[1-9]' "$work/narrow.log" || fail "nothing is too large"
fi

echo "== both end on SIGTERM"
kill -TERM $client
wait $client || fail "the client ended with $?"
client=''
kill -TERM $server
wait $server || fail "the server ended with $?"
server=''
echo "all well"
