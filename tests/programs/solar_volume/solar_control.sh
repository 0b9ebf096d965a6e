#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_control.sh PROGRAM: a catalog, three block servers and a client that is an NBD server, as
# processes. An ext4 image goes to a disk that is on all three, while its segments move, and a
# server and the catalog are killed (-9) and started again; it comes back as it was. Then a second
# client takes the disk from the first.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
ctl='' s1='' s2='' s3='' client='' other='' mover=''
ours() { echo $mover $client $other $s1 $s2 $s3 $ctl; }
solar_begin solar_control nbdcopy mkfs.ext4 e2fsck
# I/O of a killed process that is in flight may keep its store locked for long: the restart
# is tried again.
retry_locked() { # LOG COMMAND...: the command starts a process that is ready, or ends
    log=$1 last=$(($(date +%s) + long))
    shift
    until "$@" && comes "$log" $!; do
        grep -q 'in use' "$log" && [ "$(date +%s)" -lt $last ] || fail "it ended"
    done
}
catalog_once() {
    : >"$work/ctl.log"
    "$program" ctl serve --listen "$1" --catalog "$work/catalog" --catalog-size 8M \
        >>"$work/ctl.log" 2>&1 &
    ctl=$!
}
catalog() { # ADDRESS
    retry_locked "$work/ctl.log" catalog_once "$1"
}
serve_once() {
    : >"$work/server$1.log"
    "$program" server --listen "$2" --store "$work/store$1" --store-size 256M \
        --control "$control" >>"$work/server$1.log" 2>&1 &
    eval "s$1=$!"
}
serve() { # N ADDRESS
    retry_locked "$work/server$1.log" serve_once "$@"
    eval "a$1=$at"
}
verb() {
    "$program" ctl "$@" --control "$control"
}
up() { # N: so many servers are up
    wait_until "not $1 servers" servers_up "$1"
}
servers_up() {
    [ "$(verb list 2>/dev/null | grep -c '^server [0-9]* up')" -eq "$1" ]
}
arrived() { # some of an image is there, or all of it
    [ "$(verb show root 2>/dev/null | grep -c '^segment')" -gt 3 ] || ! kill -0 $copy 2>/dev/null
}
session_ended() { # after the first $gone ones
    [ "$(grep -c 'its client is gone' "$work/ctl.log")" -gt "$gone" ]
}
mkdir "$work/tree"
head -c 45000000 /dev/urandom >"$work/tree/random"
truncate -s 96M "$work/image"
mkfs.ext4 -q -d "$work/tree" "$work/image" || fail "mkfs.ext4"

catalog 127.0.0.1:0
control=$at
# The catalog numbers servers in the order of their registration, which is after they are ready.
for n in 1 2 3; do
    serve $n 127.0.0.1:0
    logged "registered with the catalog at .* as server $n\$" "$work/server$n.log"
done
up 3
verb create root 96M || fail "create"
verb create root 96M 2>/dev/null && fail "created twice"
"$program" client --control "$control" --disk rot --socket "$work/rot" 2>"$work/rot.log" &&
    fail "a client of a disk that is not there"
grep -q "disk rot: no disk of that name in the catalog" "$work/rot.log" || fail "rot: no reason"
"$program" client --control "$control" --disk root --socket "$work/nbd" --stats 1 \
    >"$work/client.log" 2>&1 &
client=$!
ready "$work/client.log" $client
uri="nbd+unix:///?socket=$work/nbd"

echo "== an image goes there while segments move; a server and the catalog die meanwhile"
timeout 600 nbdcopy --requests=4 --request-size=65536 "$work/image" "$uri" >"$work/copy.log" 2>&1 &
copy=$!
wait_until "nothing arrives" arrived
# All segments go round until the file stop is there; a move may fail while a process is dead.
(while [ ! -e "$work/stop" ]; do
    for n in 1 2 3; do verb move root all $n; done
done >"$work/move.log" 2>&1) &
mover=$!
sleep 0.3
kill -9 $s2
wait $s2 2>/dev/null
under_way=$(kill -0 $copy 2>/dev/null && echo 1 || echo 0)
sleep 0.2
serve 2 "$a2"
kill -9 $ctl
wait $ctl 2>/dev/null
sleep 0.2
catalog "$control"
wait $copy || fail "nbdcopy"
echo "the copy was under way when the server died: $under_way"
up 3
sleep 0.5
: >"$work/stop"
wait $mover
mover=''
wait_until "it does not move" moves root 1
verb show root | grep '^segment' >"$work/show.log"
[ "$(grep -c 'server=' "$work/show.log")" -ge 20 ] || fail "few segments"
[ "$(grep -vc 'server=1 ' "$work/show.log")" -eq 0 ] || fail "not all are at server 1"
grep -o 'server[0-9]*_path[0-9]_srtt_us=[1-9]' "$work/client.log" | sort -u >"$work/paths.log"
[ "$(sed 's/_.*//' "$work/paths.log" | sort -u | wc -l)" -ge 2 ] ||
    fail "the client does not report the paths to its servers"
echo "generations: $(sed 's/.*generation=//' "$work/show.log" | sort -u | tr '\n' ' ')"

echo "== all data is there after all processes but the client were killed"
for p in $s1 $s2 $s3 $ctl; do kill -9 "$p"; wait "$p" 2>/dev/null; done
catalog "$control"
for n in 1 2 3; do eval "at=\$a$n"; serve $n "$at"; done
up 3
copy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
e2fsck -fn "$work/back" >/dev/null 2>&1 || fail "e2fsck"

echo "== a client is stopped while all its segments leave a server that is gone for good"
gone=$(grep -c 'its client is gone' "$work/ctl.log")
kill -STOP $client
wait_until "its session does not end" session_ended # then it is notified of no move
wait_until "it does not move" moves root 2
kill -9 $s1
wait $s1 2>/dev/null
kill -CONT $client
copy "$uri" "$work/back" || fail "nbdcopy back from server 2"
cmp "$work/image" "$work/back" || fail "other bytes came back"
serve 1 "$a1"

echo "== another client takes it, and is the only one that writes"
"$program" client --control "$control" --disk root --socket "$work/nbd2" \
    >"$work/other.log" 2>&1 && fail "two clients have it"
grep -q 'in use by another client' "$work/other.log" || fail "the reason is missing"
"$program" client --control "$control" --disk root --take --socket "$work/nbd2" \
    >"$work/other.log" 2>&1 &
other=$!
ready "$work/other.log" $other
copy_fails "the first one still writes" "$work/image" "$uri"
verb qos root --iops 100000 || fail "qos"
copy "nbd+unix:///?socket=$work/nbd2" "$work/back2" || fail "nbdcopy of the other"
cmp "$work/image" "$work/back2" || fail "other bytes came back to the other"
grep -q 'at most 100000 I/Os' "$work/other.log" || fail "QoS did not reach it"
verb delete root 2>/dev/null && fail "deleted while it is used"

echo "== all end on SIGTERM"
kill -TERM $client $other
wait $client || fail "the client ended with $?"
wait $other || fail "the other client ended with $?"
client='' other=''
verb list | grep -q 'held=0' || fail "the lease was not released"
verb delete root || fail "delete"
kill -TERM $s1 $s2 $s3 $ctl
for p in $s1 $s2 $s3 $ctl; do wait "$p" || fail "one ended with $?"; done
s1='' s2='' s3='' ctl=''
echo "all well"
