# SPDX-License-Identifier: Apache-2.0 OR MIT
# common.sh: what the scripts that measure servers share. They source it in the project's folder,
# with `work` set to a folder of their own, which goes when they end.
exec </dev/null
LC_ALL=C.UTF-8
export LC_ALL
rounds=${SNIC_BENCH_ROUNDS:-5}
hz=$(getconf CLK_TCK)
running=

finish() {
    for p in $running; do kill "$p" 2>/dev/null; done
    for p in $running; do
        i=0
        while kill -0 "$p" 2>/dev/null && [ $((i += 1)) -le 200 ]; do sleep 0.1; done
        kill -9 "$p" 2>/dev/null
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
die() {
    echo "$0: $*" >&2
    exit 1
}

# ---- Servers ----

port=$((20000 + $$ % 12000)) # below those of outgoing connections
# begin NAME COMMAND...: starts a server, which COMMAND puts at $port; sets pid_NAME and port_NAME
begin() {
    name=$1
    shift
    "$@" >"$work/log.$name" 2>&1 &
    running="$running $!"
    eval "pid_$name=$! port_$name=$port"
    port=$((port + 1))
}
port_of() { eval "echo \$port_$1"; }
pid_of() { eval "echo \$pid_$1"; }
# answers NAME: waits until it does, in the Redis protocol
answers() {
    i=0
    until [ "$(redis-cli -p "$(port_of "$1")" ping 2>/dev/null)" = PONG ]; do
        kill -0 "$(pid_of "$1")" 2>/dev/null && [ $((i += 1)) -le 300 ] ||
            die "$1 did not start: $(cat "$work/log.$1")"
        sleep 0.1
    done
}
end_all() {
    for p in $running; do kill "$p" 2>/dev/null; done
    for p in $running; do wait "$p"; done
    running=
}
# info PORT FIELD: a field of kv_server's INFO snicstore
info() { redis-cli -p "$1" info snicstore | tr -d '\r' | sed -n "s/^$2://p"; }
# ticks PID...: their CPU time so far, in ticks of 1/$hz s
ticks() {
    for p in "$@"; do sed 's/.*) //' "/proc/$p/stat"; done 2>/dev/null |
        awk '{ s += $12 + $13 } END { print s + 0 }'
}
# per_op TICKS OPERATIONS: us
per_op() { awk "BEGIN { printf \"%.3f\", $1 * 1e6 / $hz / $2 }"; }

# ---- Values of rounds ----

# keep CASE WHO VALUE: one value of one round
keep() { echo "$3" >>"$work/v.$1.$2"; }
kept() { [ -e "$work/v.$1.$2" ]; }
# middle CASE WHO: the median of what was kept
middle() { sort -g "$work/v.$1.$2" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# A fixed loop: how much the machine itself varies.
calibrate() {
    start=$(date +%s%N)
    awk 'BEGIN { for (i = 0; i < 2000000; i++) x += i }'
    echo $((($(date +%s%N) - start) / 1000)) >>"$work/noise"
}
# noise MODULE [CASE]: the row of it
noise() {
    [ ! -e "$work/noise" ] ||
        sort -n "$work/noise" | awk -v m="$1 ${2:-noise}" '{ v[NR] = $1 } END {
        printf "row %s - - %.1f %%\n", m, 100 * (v[NR] - v[1]) / v[int((NR + 1) / 2)] }'
}
