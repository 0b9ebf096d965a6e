#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_rekey.sh PROGRAM: files of keys and rights that change while a catalog and its servers run,
# as processes. One that cannot be used is used when it has been corrected, though its contents do
# not change then; a wire key is replaced everywhere, and servers that were not restarted register
# with the new one, and copy from each other with it.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
ctl='' s1='' s2='' client='' copy=''
ours() { echo $copy $client $s1 $s2 $ctl; }
solar_begin solar_rekey nbdcopy
key() { "$program" ctl key "$@" || fail "ctl key $*"; }
verb() { "$program" ctl "$@" --control "$control" --wire-key "$work/now"; }
catalog() { # LISTEN
    : >"$work/ctl.log"
    "$program" ctl serve --listen "$1" --catalog "$work/catalog" --catalog-size 8M \
        --wire-key "$work/now" --wire-key-before "$work/before" --clients "$work/list" \
        --token-key "$work/at-catalog" >>"$work/ctl.log" 2>&1 &
    ctl=$!
    ready "$work/ctl.log" $ctl
    control=$at
}
server() { # N
    : >"$work/server$1.log"
    "$program" server --listen 127.0.0.1:0 --peer 127.0.0.1:0 --store "$work/store$1" \
        --store-size 64M --control "$control" --wire-key "$work/now" \
        --wire-key-before "$work/before" --token-key "$work/at-servers" \
        >>"$work/server$1.log" 2>&1 &
    eval "s$1=$!"
    ready "$work/server$1.log" $!
    logged 'registered with the catalog' "$work/server$1.log"
}

attach() {
    : >"$work/client.log"
    "$program" client --control "$control" --disk one --wire-key "$work/client" \
        --socket "$work/nbd" >>"$work/client.log" 2>&1 &
    client=$!
    ready "$work/client.log" $client
}

key wire "$work/wire"
key wire "$work/wire2"
key client "$work/client" "$work/wire2" 7
key token "$work/tokens"
key token "$work/tokens2" "$work/tokens"
cp "$work/wire" "$work/now"
cp "$work/wire" "$work/before"
cp "$work/tokens" "$work/at-servers"
cp "$work/tokens" "$work/at-catalog"
echo '7 1 rw' >"$work/list"
{ cat "$work/tokens"; for n in 1 2 3 4 5 6 7 8; do for k in 1 2 3 4 5 6 7 8 9 10; do
    sed -n 2p "$work/tokens"; done; done; } >"$work/eighty"
chmod 600 "$work/eighty"
"$program" ctl serve --catalog "$work/none" --wire-key "$work/now" --clients "$work/list" \
    --token-key "$work/eighty" >"$work/eighty.log" 2>&1 && fail "it takes 81 keys"
grep -q 'more than 8 keys' "$work/eighty.log" || fail "$(cat "$work/eighty.log")"
catalog 127.0.0.1:0
server 1
server 2

echo "== a file with wrong permissions is read when they are right"
place() { cp "$1" "$work/new" && chmod "$2" "$work/new" && mv "$work/new" "$3"; }
corrected() { # FILE AT MODE WHY LOG: then it is read
    : >"$5"
    place "$1" "$3" "$2"
    logged "$2: $4" "$5"
    [ "$(id -u)" != 0 ] || chown 0 "$2"
    sleep 2.2
    [ "$(grep -c -- "$2: $4" "$5")" = 1 ] || fail "it is logged again and again"
    chmod 600 "$2"
    logged "$2: .*read again" "$5"
}
corrected "$work/tokens2" "$work/at-servers" 644 'accessible to other users' "$work/server1.log"
corrected "$work/tokens2" "$work/at-catalog" 640 'accessible to other users' "$work/ctl.log"
echo '7 1 rw # again' >"$work/list2"
corrected "$work/list2" "$work/list" 666 'writable by other users' "$work/ctl.log"
corrected "$work/wire2" "$work/now" 644 'accessible to other users' "$work/server1.log"

echo "== a wire key is replaced, and then the one before is not accepted any more"
for log in ctl server1 server2; do : >"$work/$log.log"; done
place "$work/wire2" 600 "$work/before"
logged 'list of clients was read again' "$work/ctl.log"
for n in 1 2; do logged 'the wire key was read again' "$work/server$n.log"; done
kill -9 $ctl
wait $ctl 2>/dev/null
catalog "$control"
both_up() {
    [ "$(verb list 2>/dev/null | grep -c '^server [12] up')" -eq 2 ]
}
wait_until "not both are up" both_up

echo "== one server was restarted since, one was not: they copy from each other"
kill -TERM $s2 && wait $s2 || fail "server 2 ended with $?"
server 2
verb create one 8M || fail "create"
head -c 8M /dev/urandom >"$work/image"
attach
uri="nbd+unix:///?socket=$work/nbd"
copy "$work/image" "$uri" || fail "it cannot be written"
for n in 1 2; do
    wait_until "its segments are not moved to server $n" moves one $n
done
copy "$uri" "$work/back" || fail "it cannot be read"
cmp "$work/image" "$work/back" || fail "other bytes came back"
echo "== a server without the catalog's key of tokens logs what is missing"
place "$work/tokens" 600 "$work/at-catalog" # its key is the second at the servers
logged 'keys of tokens were read again' "$work/ctl.log"
sed 3d "$work/tokens2" >"$work/tokens3"
for n in 1 2; do : >"$work/server$n.log"; done
place "$work/tokens3" 600 "$work/at-servers"
for n in 1 2; do logged 'keys of tokens were read again' "$work/server$n.log"; done
kill -TERM $client && wait $client || fail "the client ended with $?"
attach # it has a token of that key
copy "$uri" "$work/back" &
copy=$!
logged 'tokens were refused: .*signed with a key that the file does not have' "$work/server2.log"
place "$work/tokens2" 600 "$work/at-servers"
wait $copy || fail "reads do not continue with the key"
copy=''
cmp "$work/image" "$work/back" || fail "other bytes came back"
kill -TERM $client && wait $client || fail "the client ended with $?"
client=''
verb list | grep -q '^disk one .* held=0 ' || fail "its lease is not released: $(verb list)"
for p in $s1 $s2 $ctl; do kill -TERM "$p"; wait "$p" || fail "one ended with $?"; done
s1='' s2='' ctl=''
echo "all well"
