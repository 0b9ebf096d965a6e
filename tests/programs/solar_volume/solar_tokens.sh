#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_tokens.sh PROGRAM: a catalog that grants tokens, two servers that want them, and clients
# with keys of their own, as processes. Each client reaches its disk alone; keys of tokens are
# exchanged while I/O continues, a token expires while the catalog is stopped, a lease is revoked, a
# client is taken off the list.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
ctl='' s1='' s2='' c7='' c8='' copier='' without=''
ours() { echo $copier $c7 $c8 $without $s1 $s2 $ctl; }
solar_begin solar_tokens nbdcopy
key() { "$program" ctl key "$@" || fail "ctl key $*"; }
verb() { "$program" ctl "$@" --control "$control" --wire-key "$work/wire"; }

key wire "$work/wire"
key wire "$work/wire2"
for n in 7 8 9; do key client "$work/client$n" "$work/wire" $n; done
key client "$work/other7" "$work/wire2" 7
key token "$work/tokens"
key token "$work/tokens2" "$work/tokens"
[ "$(sed 1d "$work/tokens")" = "$(sed 1,2d "$work/tokens2")" ] || fail "the old key is not there"
[ "$(stat -c %a "$work/tokens2")" = 600 ] || fail "a key is open to others"
refused 'another kind' ctl key token "$work/none" "$work/wire"
cp "$work/tokens2" "$work/k2"
for n in 3 4 5 6 7 8; do key token "$work/k$n" "$work/k$((n - 1))"; done
refused 'at most 7 keys' ctl key token "$work/none" "$work/k8"
{ cat "$work/k8"; sed -n 2p "$work/wire"; } >"$work/k9"
chmod 600 "$work/k9"
cp "$work/tokens" "$work/at-servers"
cp "$work/tokens" "$work/at-catalog"
printf '7 1 rw\n8 2 rw\n' >"$work/list"

echo "== what opens everything has to be asked for"
refused 'any-client to permit it' server --store "$work/none" --wire-key "$work/wire"
refused 'any-client to permit it' server --store "$work/none" --listen 0.0.0.0:0
refused 'any-client to permit it' ctl serve --catalog "$work/none" --wire-key "$work/wire"
refused 'any-client to permit it' ctl serve --catalog "$work/none" --listen 0.0.0.0:0
refused 'need --wire-key FILE' ctl serve --catalog "$work/none" --clients "$work/list"
refused 'needs --clients FILE' ctl serve --catalog "$work/none" --wire-key "$work/wire" \
    --token-key "$work/tokens"
refused 'needs --control' server --store "$work/none" --wire-key "$work/wire" \
    --token-key "$work/tokens"
refused 'more than 8 keys' ctl serve --catalog "$work/none" --wire-key "$work/wire" \
    --clients "$work/list" --token-key "$work/k9"
refused 'use one of' server --store "$work/none" --wire-key "$work/wire" --any-client \
    --clients "$work/list"

echo "== a catalog and servers that prove who they are"
: >"$work/ctl.log"
"$program" ctl serve --listen 127.0.0.1:0 --catalog "$work/catalog" --catalog-size 8M \
    --wire-key "$work/wire" --clients "$work/list" --token-key "$work/at-catalog" --token-time 3 \
    >>"$work/ctl.log" 2>&1 &
ctl=$!
ready "$work/ctl.log" $ctl
control=$at
for n in 1 2; do
    : >"$work/server$n.log"
    "$program" server --listen 127.0.0.1:0 --peer 127.0.0.1:0 --store "$work/store$n" \
        --store-size 256M --control "$control" --wire-key "$work/wire" \
        --token-key "$work/at-servers" --transport both --stats 2 >>"$work/server$n.log" 2>&1 &
    eval "s$n=$!"
    ready "$work/server$n.log" $!
    eval "a$n=$at"
    logged 'registered with the catalog' "$work/server$n.log"
done
refused 'requires a key' ctl list --control "$control"
refused 'does not accept the key' ctl list --control "$control" --wire-key "$work/client7"
refused 'does not accept the key' ctl list --control "$control" --wire-key "$work/wire2"
verb create seven 32M || fail "create"
verb create eight 32M || fail "create"

echo "== each client reaches its disk alone"
attach() { # N DISK ARGUMENT...
    n=$1 disk=$2
    shift 2
    : >"$work/client$n.log"
    "$program" client --control "$control" --disk "$disk" --wire-key "$work/client$n" \
        --socket "$work/nbd$n" "$@" >>"$work/client$n.log" 2>&1 &
    eval "c$n=$!"
    ready "$work/client$n.log" $!
}
uri() { echo "nbd+unix:///?socket=$work/nbd$1"; }
none() { refused "$1" client --control "$control" --socket "$work/nbd" --disk "$2" $3; }
none 'does not permit this client' eight "--wire-key $work/client7"
none 'does not permit this client' nothing "--wire-key $work/client7"
none 'does not permit this client' seven "--wire-key $work/client8 --take"
none 'does not accept the key' seven "--wire-key $work/client9"
none 'does not accept the key' seven "--wire-key $work/other7"
none 'requires a key' seven ''
none 'does not permit this client' seven "--wire-key $work/wire"
head -c 32M /dev/urandom >"$work/image7"
head -c 32M /dev/urandom >"$work/image8"
attach 7 seven
attach 8 eight
for n in 7 8; do
    copy "$work/image$n" "$(uri $n)" || fail "$n cannot write its disk"
    copy "$(uri $n)" "$work/back" || fail "$n cannot read its disk"
    cmp "$work/image$n" "$work/back" || fail "other bytes came back"
done
# A good key of the wire, and no token: a client that sends what the catalog would have granted.
segment=$(verb show seven | sed -n 's/^segment \([0-9]*\) server=1 .*/\1/p' | sed -n 1p)
epoch=$(verb list | sed -n 's/^disk seven .* lease=\([0-9]*\) .*/\1/p')
[ -n "$segment" ] && [ -n "$epoch" ] || fail "no segment of it is at server 1: $(verb show seven)"
for n in 7 8; do
    : >"$work/without.log"
    "$program" client --server "$a1" --disk 1 --size 32M --epoch "$epoch" \
        --wire-key "$work/client$n" --socket "$work/nbd" >>"$work/without.log" 2>&1 &
    without=$!
    ready "$work/without.log" $without
    copy_fails "a wire key opens a disk" "nbd+unix:///?socket=$work/nbd" "$work/back"
    grep -q 'not permitted' "$work/copy.log" || fail "not EPERM: $(cat "$work/copy.log")"
    logged 'key does not permit it' "$work/without.log"
    kill -9 $without
    wait $without 2>/dev/null
    without=''
done

echo "== LUNA, which shows tokens in the clear"
kill -TERM $c8 && wait $c8 || fail "8 ended with $?"
attach 8 eight --transport luna
copy "$(uri 8)" "$work/back" || fail "8 cannot read its disk over LUNA"
cmp "$work/image8" "$work/back" || fail "other bytes came back"
none 'does not permit this client' seven "--wire-key $work/client8 --transport luna"
: >"$work/without.log"
"$program" client --server "$a1" --disk 1 --size 32M --epoch "$epoch" --transport luna \
    --socket "$work/nbd" >>"$work/without.log" 2>&1 &
without=$!
ready "$work/without.log" $without
copy_fails "LUNA opens a disk without a token" "nbd+unix:///?socket=$work/nbd" "$work/back"
grep -q 'not permitted' "$work/copy.log" || fail "not EPERM: $(cat "$work/copy.log")"
kill -9 $without
wait $without 2>/dev/null

echo "== keys of tokens are exchanged while I/O continues"
(while [ ! -e "$work/stop" ]; do
    copy "$work/image7" "$(uri 7)" && copy "$(uri 7)" "$work/again" &&
        cmp "$work/image7" "$work/again" || exit 1
done) >"$work/copies.log" 2>&1 &
copier=$!
exchange() { # FILE AT LOG...
    cp "$1" "$work/new" && mv "$work/new" "$2"
    shift 2
    for log in "$@"; do logged 'keys of tokens were read again' "$log"; : >"$log"; done
}
for log in ctl server1 server2; do : >"$work/$log.log"; done
exchange "$work/tokens2" "$work/at-servers" "$work/server1.log" "$work/server2.log"
exchange "$work/tokens2" "$work/at-catalog" "$work/ctl.log"
sed 3d "$work/tokens2" >"$work/tokens3" # the new one alone, before tokens of the old one expire
chmod 600 "$work/tokens3"
exchange "$work/tokens3" "$work/at-servers" "$work/server1.log" "$work/server2.log"
printf 'solar_volume token key 1\nzz\n' >"$work/new" && mv "$work/new" "$work/at-catalog"
logged 'keys of tokens are unchanged' "$work/ctl.log"
cp "$work/tokens3" "$work/new" && mv "$work/new" "$work/at-catalog"
sleep 1.5
: >"$work/stop"
wait $copier || fail "I/O failed while keys changed"
copier=''

echo "== a token expires while the catalog is stopped; I/O waits, then continues"
kill -STOP $ctl
sleep 4
: >"$work/client7.log"
copy "$(uri 7)" "$work/back" &
copier=$!
logged 'disk seven: .*token' "$work/client7.log"
logged 'tokens were refused: .*expired by the clock' "$work/server1.log"
kill -0 $copier 2>/dev/null || fail "it does not wait"
kill -CONT $ctl
wait $copier || fail "it does not continue"
copier=''
cmp "$work/image7" "$work/back" || fail "other bytes came back"

echo "== a revoked one, and one whose right is taken away, read nothing any more"
verb revoke seven || fail "revoke"
copy_fails "7 reads what was revoked" "$(uri 7)" "$work/back"
copy "$(uri 8)" "$work/back" || fail "8 cannot read its disk"
cmp "$work/image8" "$work/back" || fail "other bytes came back"
kill -9 $c7
wait $c7 2>/dev/null
attach 7 seven
copy "$(uri 7)" "$work/back" || fail "7 has no new lease"
cmp "$work/image7" "$work/back" || fail "other bytes came back"
: >"$work/ctl.log"
printf '7 1 rw\n' >"$work/list"
logged 'list of clients was read again' "$work/ctl.log"
copy_fails "8 reads on" "$(uri 8)" "$work/back"
copy "$(uri 7)" "$work/back" || fail "7 cannot read its disk"
kill -9 $c8
wait $c8 2>/dev/null
c8=''

echo "== a writer that may only read from now on: its token permits more, and is refused"
: >"$work/ctl.log"
printf '7 1 r\n' >"$work/list"
logged 'list of clients was read again' "$work/ctl.log"
copy_fails "7 writes on" "$work/image8" "$(uri 7)"
kill -9 $c7
wait $c7 2>/dev/null
attach 7 seven
copy_fails "a reader writes" "$work/image8" "$(uri 7)"
copy "$(uri 7)" "$work/back" || fail "7 cannot read its disk"
cmp "$work/image7" "$work/back" || fail "other bytes came back"
logged 'no_token=[1-9].* tokens=[1-9]' "$work/server1.log"
kill -TERM $c7 && wait $c7 || fail "7 ended with $?"
c7=''
for p in $s1 $s2 $ctl; do kill -TERM "$p"; wait "$p" || fail "one ended with $?"; done
s1='' s2='' ctl=''
echo "all well"
