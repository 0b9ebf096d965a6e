#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_clients.sh PROGRAM: a server whose clients have keys of their own, as processes: what each
# may do with which disk, and no more; the list of it, and the key that theirs are made of, change
# while the server runs.
set -u
. "$(dirname "$0")/solar_common.sh"
program=$1
server='' client=''
ours() { echo $client $server; }
solar_begin solar_clients nbdcopy nbdinfo
key() { "$program" ctl key "$@" || fail "ctl key $*"; }

key wire "$work/wire"
key wire "$work/wire2"
key client "$work/seven" "$work/wire" 7
key client "$work/eight" "$work/wire" 8
key client "$work/nine" "$work/wire" 9
key client "$work/new7" "$work/wire2" 7
cmp -s "$work/seven" "$work/eight" && fail "two clients have one key"
[ "$(stat -c %a "$work/seven")" = 600 ] || fail "a key is open to others"
for n in 0 x 4294967296 -1 ''; do
    refused 'is not the number of a client' ctl key client "$work/none" "$work/wire" "$n"
done
refused 'another kind' ctl key client "$work/none" "$work/seven" 1

echo "== lists that are none"
serve() { # ARGUMENT...: in the background only
    exec "$program" server --listen 127.0.0.1:0 --store "$work/store" --store-size 256M \
        --disk 1:16M --disk 2:16M "$@"
}
list() { # WHAT TEXT
    printf "$2" >"$work/list"
    refused "$1" server --store "$work/none" --wire-key "$work/wire" --clients "$work/list"
}
list 'line 1: not NUMBER DISK' '7 1\n'
list 'line 2: not NUMBER DISK' '# one\n7 1 rx\n'
list 'line 1: not NUMBER DISK' '0 1 rw\n'
list 'line 1: not NUMBER DISK' 'seven 1 rw\n'
list 'line 1: not NUMBER DISK' '7 1rw\n'
list 'are listed twice' '7 1 rw\n7 1 r\n'
awk 'BEGIN { for (i = 1; i <= 4097; i++) print i, 1, "r" }' >"$work/list"
refused 'line 4097: more than 4096 entries' server --store "$work/none" \
    --wire-key "$work/wire" --clients "$work/list"
printf '7 1 rw\n' >"$work/list"
chmod 666 "$work/list"
refused 'writable by other users' server --store "$work/none" --wire-key "$work/wire" \
    --clients "$work/list"
chmod 644 "$work/list"
refused 'need --wire-key FILE' server --store "$work/none" --clients "$work/list"
refused "is the key of a client" server --store "$work/none" --wire-key "$work/seven" \
    --clients "$work/list"

echo "== each does what it may"
cat >"$work/list" <<'END'
# client disk may
7        1    rw    # its own
8        1    r
8        2    rw
END
cp "$work/wire" "$work/now"
cp "$work/wire" "$work/before"
: >"$work/server.log"
serve --wire-key "$work/now" --wire-key-before "$work/before" --clients "$work/list" --stats 1 \
    >>"$work/server.log" 2>&1 &
server=$!
ready "$work/server.log" $server
address=$at
epoch=0
uri="nbd+unix:///?socket=$work/nbd"
attach() { # KEY DISK
    epoch=$((epoch + 1))
    : >"$work/client.log"
    "$program" client --server "$address" --disk "$2" --size 16M --epoch $epoch \
        --wire-key "$work/$1" --socket "$work/nbd" >"$work/client.log" 2>&1 &
    client=$!
    ready "$work/client.log" $client
}
left() {
    stop $client
    client=''
}
reads() { # KEY DISK
    attach "$1" "$2"
    copy "$uri" "$work/back" || fail "$1 cannot read disk $2"
    cmp "$work/image" "$work/back" || fail "other bytes came back"
    left
}
no() { # KEY DISK reads|writes
    attach "$1" "$2"
    if [ "$3" = reads ]; then
        copy_fails "$1 $3 disk $2" "$uri" "$work/back"
    else
        copy_fails "$1 $3 disk $2" "$work/other" "$uri"
    fi
    grep -q 'not permitted' "$work/copy.log" || fail "not EPERM: $(cat "$work/copy.log")"
    logged 'key does not permit it' "$work/client.log"
    left
}
unanswered() { # KEY: a client with it gets no answer
    epoch=$((epoch + 1))
    : >"$work/client.log"
    "$program" client --server "$address" --disk 1 --size 16M --epoch $epoch \
        --wire-key "$work/$1" --socket "$work/nbd" >"$work/client.log" 2>&1 &
    client=$!
    logged 'no path to .* works' "$work/client.log"
    kill -9 $client
    wait $client 2>/dev/null
    client=''
}
head -c 16M /dev/urandom >"$work/image"
head -c 16M /dev/urandom >"$work/other"
attach seven 1
copy "$work/image" "$uri" || fail "7 cannot write its disk"
left
reads seven 1
reads eight 1
no eight 1 writes
no seven 2 reads
no seven 2 writes
reads seven 1 # 8 has fenced nothing
unanswered nine
unanswered wire
cp "$work/eight" "$work/forged" # 8's secret in 7's name
sed -i 's/0800000\(.\{9\}\)$/0700000\1/' "$work/forged"
cmp -s "$work/eight" "$work/forged" && fail "nothing is forged"
unanswered forged
logged 'forbidden=[1-9]' "$work/server.log"

echo "== while it runs"
: >"$work/server.log"
printf '7 1 rw\n8 1 bad\n' >"$work/list"
logged 'line 2: not NUMBER DISK.*the rights of clients are unchanged' "$work/server.log"
reads eight 1
attach eight 1
: >"$work/server.log"
printf '7 1 rw\n' >"$work/list"
logged 'read again; [1-9][0-9]* connections were closed' "$work/server.log"
timeout 20 nbdcopy "$uri" "$work/back" 2>/dev/null && fail "8 reads on" # it waits for ever
kill -9 $client
wait $client 2>/dev/null
client=''
reads seven 1
unanswered new7
: >"$work/server.log"
cp "$work/wire2" "$work/new" && mv "$work/new" "$work/now"
logged 'read again; 0 connections were closed' "$work/server.log"
reads seven 1 # made of the one before
reads new7 1
: >"$work/server.log"
cp "$work/wire2" "$work/new" && mv "$work/new" "$work/before"
logged 'read again' "$work/server.log"
unanswered seven
reads new7 1
stop $server
server=''
echo "all well"
