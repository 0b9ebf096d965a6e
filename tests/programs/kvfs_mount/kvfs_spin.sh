#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_spin.sh: a host whose file system is in another process sleeps while it waits, unless --spin
# is set: it does not look for more to do even once.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null

figure() { # NAME
    python3 - "$figures" "$1" <<'PY'
import sys, urllib.request
with urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=600) as f:
    print(dict(line.split() for line in f.read().decode().splitlines() if line[:1] != "#")
          ["kvfs_" + sys.argv[2]])
PY
}
for how in "" "--spin 50" "--link nvmefs" "--cache-size 4M --cache-writeback"; do
    step "two processes '$how'"
    figures=127.0.0.1:$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
    # shellcheck disable=SC2086
    if [ -z "$work" ]; then kvfs_open --two-process --metrics "$figures" $how; else
        kvfs_again --two-process --metrics "$figures" $how
    fi
    i=0
    while [ $((i += 1)) -le 100 ]; do echo $i >"$mnt/file$i"; done
    calls=$(figure calls) spins=$(figure spins)
    [ "$calls" -ge 100 ] || fail "$calls calls"
    case $how in
    *--spin*) [ "$spins" -gt 0 ] || fail "--spin does nothing" ;;
    *) [ "$spins" = 0 ] || fail "it has looked $spins times" ;;
    esac
    kvfs_close
done
step "all well"
