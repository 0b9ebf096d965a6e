#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_keys.sh PROGRAM: keys of solar_volume, as processes: files that are no keys or not their
# owner's alone, a disk that is encrypted at rest, packets that are sealed; and the messages for a
# client that has another key, or none, with a catalog and without.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
ctl='' server='' client=''
ours() { echo $client $server $ctl; }
solar_begin solar_keys nbdcopy python3

echo "== files"
key() { "$program" ctl key "$@"; }
key disk "$work/disk" || { cat "$work"/*.log 2>/dev/null; fail "ctl key disk"; }
key disk "$work/disk2" && key wire "$work/wire" && key wire "$work/wire2" || fail "ctl key"
[ "$(stat -c %a "$work/disk")" = 600 ] || fail "a key is open to others"
cmp -s "$work/disk" "$work/disk2" && fail "two keys are one"
refused 'File exists' ctl key disk "$work/disk"
refused 'Usage' ctl key tape "$work/none"
wrong() { # what is wrong with $work/bad
    refused "$1" client --disk-key "$work/bad" --size 64M --epoch 1 --socket "$work/nbd"
}
wrong 'No such file'
cp "$work/disk" "$work/bad"
for mode in 640 604 660 620; do
    chmod $mode "$work/bad"
    wrong 'accessible to other users'
done
chmod 600 "$work/bad"
head -c 100 "$work/disk" >"$work/bad"
wrong 'truncated'
{ cat "$work/disk"; echo; } >"$work/bad"
wrong 'too long'
head -c 64 /dev/urandom >"$work/bad"
wrong 'not a key made by'
: >"$work/bad"
wrong 'not a key made by'
sed '2s/^./x/' "$work/disk" >"$work/bad"
wrong 'corrupt'
cat "$work/wire" >"$work/bad"
wrong 'another kind'
rm "$work/bad"
mkdir "$work/bad"
wrong 'not a regular file'
rmdir "$work/bad"
mkfifo "$work/bad"
chmod 600 "$work/bad"
wrong 'not a regular file'
if [ "$(id -u)" = 0 ]; then
    rm "$work/bad"
    cp "$work/disk" "$work/bad"
    chmod 600 "$work/bad"
    chown 12345 "$work/bad"
    wrong 'belongs to another user'
fi
refused 'LUNA has no encryption' client --transport luna --wire-key "$work/wire" --size 64M \
    --socket "$work/nbd"
refused 'LUNA has no' server --transport both --wire-key "$work/wire" --store "$work/none"
refused 'needs --peer ADDRESS:PORT' server --control 127.0.0.1:1 --wire-key "$work/wire" \
    --store "$work/none"

echo "== without a catalog: sealed, and encrypted at rest"
"$program" server --listen 127.0.0.1:0 --store "$work/store" --store-size 256M --disk 1:64M \
    --wire-key "$work/wire" --any-client --stats 1 >"$work/server.log" 2>&1 &
server=$!
ready "$work/server.log" $server
address=$at
# attach LOG ARGUMENT...
attach() {
    log=$1
    shift
    : >"$work/$log"
    "$program" client --server "$address" --disk 1 --size 64M --stats 1 --socket "$work/nbd" "$@" \
        >"$work/$log" 2>&1 &
    client=$!
}
uri="nbd+unix:///?socket=$work/nbd"
python3 -c '
import sys
with open(sys.argv[1], "wb") as f:
    f.write(b"a plain text to search for" * 100000)
    f.truncate(16 << 20)' "$work/image"
attach client.log --wire-key "$work/wire" --disk-key "$work/disk" --epoch 1
ready "$work/client.log" $client
copy "$work/image" "$uri" || fail "nbdcopy"
stop $client
attach client.log --wire-key "$work/wire" --disk-key "$work/disk" --epoch 2
ready "$work/client.log" $client
truncate -s 64M "$work/image"
copy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
stop $client
client=''
grep -q 'plain text to search for' "$work/store" && fail "the store has the plain text"
logged 'unauthentic=0' "$work/server.log" # a line of figures comes every second

echo "== another disk key, or none"
refused 'was not written with the key' client --server "$address" --disk 1 --size 64M --epoch 3 \
    --socket "$work/nbd" --wire-key "$work/wire" --disk-key "$work/disk2"
attach client.log --wire-key "$work/wire" --epoch 4
ready "$work/client.log" $client
copy_fails "ciphertext is read as data" "$uri" "$work/back"
stop $client

echo "== another wire key, or none"
attach client.log --wire-key "$work/wire2" --epoch 5
logged 'no path to .* its wire key is another' "$work/client.log"
logged 'not sealed with the key' "$work/server.log"
kill -9 $client
wait $client 2>/dev/null
attach client.log --epoch 6
logged 'no path to .* needs a wire key' "$work/client.log"
kill -9 $client
wait $client 2>/dev/null
attach client.log --wire-key "$work/wire" --disk-key "$work/disk" --epoch 7
ready "$work/client.log" $client
copy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
stop $client
client=''
stop $server
server=''

echo "== with a catalog, which knows which key it is"
"$program" ctl serve --listen 127.0.0.1:0 --catalog "$work/catalog" --catalog-size 8M \
    --wire-key "$work/wire" --any-client >"$work/ctl.log" 2>&1 &
ctl=$!
ready "$work/ctl.log" $ctl
control=$at
: >"$work/server.log"
"$program" server --listen 127.0.0.1:0 --store "$work/store1" --store-size 256M \
    --control "$control" --peer 127.0.0.1:0 --wire-key "$work/wire" --any-client \
    >"$work/server.log" 2>&1 &
server=$!
ready "$work/server.log" $server
verb() {
    "$program" ctl "$@" --control "$control" --wire-key "$work/wire"
}
verb create root 64M --disk-key "$work/disk" || fail "create"
verb create plain 64M || fail "create"
verb list >"$work/list.log"
grep -q '^disk root .* key=[0-9a-f]\{16\}$' "$work/list.log" || fail "no key in the list"
grep -q '^disk plain .* key=none$' "$work/list.log" || fail "a plain disk has a key"
with() {
    refused "$1" client --control "$control" --disk "$2" --take --socket "$work/nbd" \
        --wire-key "$work/wire" $3
}
: >"$work/client.log"
"$program" client --control "$control" --disk root --socket "$work/nbd" --wire-key "$work/wire" \
    --disk-key "$work/disk" >"$work/client.log" 2>&1 &
client=$!
ready "$work/client.log" $client
copy "$work/image" "$uri" || fail "nbdcopy"
with 'another key than that in' root "--disk-key $work/disk2"
with 'is encrypted: --disk-key FILE is needed' root ''
with 'is not encrypted' plain "--disk-key $work/disk"
copy "$work/image" "$uri" || fail "the refused clients took the lease from it"
copy "$uri" "$work/back" || fail "nbdcopy back"
cmp "$work/image" "$work/back" || fail "other bytes came back"
grep -q 'plain text to search for' "$work/store1" "$work/catalog" && fail "the plain text is there"
refused 'it is connected' ctl forget 1 --control "$control" --wire-key "$work/wire"
refused 'arguments are missing' ctl forget --control "$control"
stop $client
client=''
stop $server
server=''
gone() {
    verb forget 1 >"$work/forget.log" 2>&1 || ! grep -q 'it is connected' "$work/forget.log"
}
wait_until "it stays here" gone
refused 'it has segments' ctl forget 1 --control "$control" --wire-key "$work/wire"
verb delete root && verb forget 1 || fail "forget"
verb list | grep -q '^server' && fail "it is not forgotten"
stop $ctl
ctl=''
echo "all well"
