#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# solar_table2.sh SOLAR_FAULTS SOLAR_VOLUME [ROW...]: Table 2 of the SOLAR paper, for real.
#
# tools/fabric.sh makes a fabric of network namespaces (four spines, two ToRs, ECMP by
# the ports) and breaks it as each row describes, while clients with virtual disks and the same
# over kernel TCP run side by side: 16 of each, I/Os of 4 to 32 KiB, depth 4, a read for four
# writes. Wanted: no I/O of SOLAR without an answer for a second, less what clients, server and the
# kernel's threads waited for a CPU, in no row, and every block as it was acknowledged; TCP hangs
# where the fabric fails silently, so the fault was there; every rule of the fabric has hit packets,
# and every link that goes down had carried some. Row server_killed kills the server (-9): nothing
# acknowledged is lost, and I/Os resume within such a second after it is back.
# Row programs: fio, which verifies what it wrote, and nbdcopy, with an ext4 image there and back
# again and again, on solar_volume's clients, through all of that one after the other.
#
# One round by day, of every other fault of the fabric, by SNIC_TURN; ten of all by night
# (SNIC_NIGHTLY=1) or SNIC_TABLE2_ROUNDS of them. Needs root,
# nft, ip, ethtool; skips otherwise (77). The fabric's names are its tool's, so one run waits for
# another; whatever becomes of this process, a guardian takes the fabric down.
set -u
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
tool=$here/../../tools/fabric.sh
faults=$1 volume=$2
shift 2
nightly=${SNIC_NIGHTLY:-}
[ "$nightly" != 0 ] || nightly=
rounds=${SNIC_TABLE2_ROUNDS:-$([ -n "$nightly" ] && echo 10 || echo 1)}
every=none
n=0
for w in port_fail tor_fail spine_fail drop75 drop75_1spine reboot bh_tor bh_spine bh_ports; do
    n=$((n + 1))
    if [ -n "$nightly${SNIC_TABLE2_ROUNDS:-}" ] || [ $(((n + ${SNIC_TURN:-0}) % 2)) = 0 ]; then
        every="$every $w"
    fi
done
every="$every server_killed"
rows=${*:-$every programs}
clients=16 disk=4M fio_disk=17 ext4_disk=18
where=10.77.200.1

skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "not root"
for p in nft ip ethtool flock setsid nsenter; do
    command -v $p >/dev/null || skip "no $p"
done

# ---- One at a time, and nothing is left ----

lock=/run/lock/snic_solar_ns
touch $lock 2>/dev/null || skip "no lock to be had"
exec 9>>$lock
flock -w 3000 9 || skip "another one runs for 50 minutes"
memory=/dev/shm # the store: a disk that is slow because of others is no row of this table
[ -d $memory ] && [ -w $memory ] || memory=${TMPDIR:-/tmp}
work=$(mktemp -d "$memory/solar_table2.XXXXXX") || exit 1
mkfifo "$work/alive"
# It reads until no process has the other end, and then takes all down. It is no child of this one.
cat >"$work/guardian" <<END
read -r _ <"$work/alive"
[ ! -e "$work/rebooting" ] || kill -9 -- "-\$(cat "$work/rebooting")" 2>/dev/null
for n in sol_c sol_f sol_s; do
    for p in \$(ip netns pids \$n 2>/dev/null); do kill -9 "\$p" 2>/dev/null; done
done
sh "$tool" down >/dev/null 2>&1
rm -rf "$work"
END
(setsid sh "$work/guardian" </dev/null >/dev/null 2>&1 &)
exec 8>"$work/alive"
finish() {
    rc=$?
    trap - EXIT
    exec 8>&-
    i=0 # the guardian has the lock, too, until it is done
    while [ -d "$work" ] && [ $((i += 1)) -le 300 ]; do sleep 0.1; done
    exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
fail() {
    echo "FAILED: $*"
    [ -z "${log:-}" ] || tail -n 20 "$log".* 2>/dev/null
    exit 1
}
# Clients and servers come before what else the machine does, where that is permitted: an I/O that
# has no answer for lack of a CPU proves nothing about the fabric.
prio=''
[ "$(nice -n -10 nice 2>/dev/null)" -ge "$(nice)" ] || prio='nice -n -10'
# run PID_NAME LOG COMMAND...: in the background, in a group of its own
run() {
    name=$1 out=$2
    shift 2
    : >"$out" # it exists at once, for printed()
    # shellcheck disable=SC2086
    setsid $prio "$@" >"$out" 2>&1 7>&- 8>&- 9>&- &
    eval "$name=\$!"
}
# printed WORD LOG PID: LOG has a line that begins with it
printed() {
    i=0
    until grep -q "^$1" "$2"; do
        kill -0 "$3" 2>/dev/null || {
            ! grep -q io_uring "$2" || skip "$(cat "$2")"
            fail "it ended: $(tail -n 5 "$2")"
        }
        [ $((i += 1)) -le 1200 ] || fail "no '$1' from it: $(tail -n 5 "$2")"
        sleep 0.05
    done
}
value() { sed -n "s/^result .*\b$2=\([0-9]*\).*/\1/p" "$1"; } # LOG NAME
fabric() { sh "$tool" "$@" 8>&- 9>&- >>"$work/tool" 2>&1; }

# ---- The fabric and the servers ----

fabric up && ip netns exec sol_f nft list chain inet f fab >/dev/null 2>&1 ||
    skip "no such fabric here: $(tail -n 3 "$work/tool")"
disks="--disk $fio_disk:16M --disk $ext4_disk:16M"
for i in $(seq $clients); do disks="$disks --disk $i:$disk"; done
# The kernel's threads for packets that are too many for it to receive in passing.
packets=$(grep -s -l '^ksoftirqd/' /proc/[0-9]*/comm | cut -d/ -f3)
serve() {
    # nsenter, not ip netns exec, whose mount namespace would keep all mounts of the machine.
    # shellcheck disable=SC2086
    run server "$work/server.log" nsenter --net=/run/netns/sol_s "$volume" server \
        --listen $where:7000 --any-client --store "$work/store" --store-size 512M $disks \
        --log-level warning
    echo "$server" $packets >"$work/waits"
    printed ready "$work/server.log" "$server"
}
serve
run peer "$work/peer.log" nsenter --net=/run/netns/sol_s "$faults" tcp_server --listen $where:7004
printed ready "$work/peer.log" "$peer"
epoch=0
full_pause=${SNIC_TABLE2_PAUSE_US:-8000}
pause=$full_pause

# load TRANSPORT PORT OPTION...: until SIGUSR2
load() {
    t=$1
    port=$2
    shift 2
    run "$t" "$log.$t" nsenter --net=/run/netns/sol_c "$faults" load --transport "$t" \
        --server "$where:$port" --clients $clients --depth 4 --milliseconds 600000 --epoch $epoch \
        --seed $epoch --pause-us "$pause" --verbose "$@"
}

# ---- A row ----

counted() { # by the rules that are read
    sed -n 's/.*counter packets \([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}
hits() { ip netns exec sol_f nft list chain inet f fab | counted; }
carried() { ip netns exec sol_f cat "/sys/class/net/$1/statistics/rx_packets"; }

# waited PID: for a CPU, so far, in ms (the first thread)
waited() { awk '{ print int($2 / 1000000) }' "/proc/$1/schedstat" 2>/dev/null || echo 0; }

# stolen: by the host of a virtual machine, so far, in ms; it is no part of a thread's waiting
stolen() { awk '/^cpu / { print $9 * 10 }' /proc/stat; }

uptime_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# soon NUMBER_OF ARGUMENT...: that number, when it is more than 0, or after 20 s
soon() {
    i=0
    until n=$("$@") && [ "$n" -gt 0 ]; do
        [ $((i += 1)) -le 200 ] || break
        sleep 0.1
    done
    echo "$n"
}
more() { echo $(($(carried "$1") - $2)); } # LINK: carried since then

# used: of the machine's CPUs, by others, in a second, in percent
cpu() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $5 + $6 }' /proc/stat; }
used() {
    # shellcheck disable=SC2046
    set -- $(cpu)
    sleep 1
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(cpu)
    echo $((100 * ($3 - $1) / ($3 - $1 + $4 - $2 + 1)))
}
waits=600
quiet() {
    while [ $waits -gt 0 ] && [ "$(used)" -gt 30 ]; do waits=$((waits - 1)); done
    [ $waits -gt 0 ] || echo "this machine is never quiet"
}

# Which links go down; what silently loses hangs TCP.
down_of() { case $1 in port_fail) echo fc0 fs0 ;; spine_fail) echo fc2 fs2 ;; esac; }
is_silent() {
    case $1 in tor_fail | drop75 | reboot | bh_tor | bh_spine) return 0 ;; esac
    return 1
}
has_rule() { [ "$1" != none ] && [ -z "$(down_of "$1")" ]; }

# It ends when the fabric is whole again; the guardian has to know of it before that.
reboots() {
    run reboot "$work/reboot.log" sh "$tool" fault reboot
    echo "$reboot" >"$work/rebooting"
    wait "$reboot" || fail "the fault could not be made: $(tail -n 3 "$work/reboot.log")"
    rm -f "$work/rebooting"
}

columns='%-14s %6s %6s %7s %7s %7s %8s %8s %6s | %6s %6s %7s %7s | %8s\n'
line() { # ROW HITS
    s=$log.solar p=$log.tcp
    # shellcheck disable=SC2059
    printf "$columns" "$1" \
        "$(value $s ios)" "$(value $s hung)" "$(value $s max_ms)" "$(value $s p50_us)" \
        "$(value $s p99_us)" "$(value $s retransmits)" "$(value $s rerolls)" \
        "$starved" "$(value $p ios)" "$(value $p hung)" "$(value $p max_ms)" \
        "$(value $p p99_us)" "$2"
}
heading() {
    # shellcheck disable=SC2059
    printf "$columns" "" ios hung max_ms p50_us p99_us resent rerolls "wait%" tcp_io hung max_ms \
        p99_us hit
}
bad='' unjudged=''
is_bad() { # ROW WHAT: the run continues, and fails in the end
    echo "FAILED: $1: $2"
    grep -h -A 8 -e HANGS -e WRONG -e ERROR "$log.solar" 2>/dev/null | head -n 30
    bad="$bad $1"
}
judge() { # ROW: what must hold in each round
    r=$log.solar
    [ "$(value "$r" hung)" = 0 ] ||
        is_bad "$1" "$(value "$r" hung) I/Os of SOLAR had no answer for a second (clients and \
server waited $starved % of the time for a CPU)"
    [ "$(value "$r" errors)" = 0 ] || is_bad "$1" "$(value "$r" errors) I/Os failed"
    [ "$(value "$r" wrong)" = 0 ] ||
        is_bad "$1" "$(value "$r" wrong) blocks are not as they were acknowledged"
    [ "$(value "$r" checked)" -gt 1000 ] || is_bad "$1" "nothing was read"
}

# A row whose clients and server (and the machine, where it is virtual) waited together for a CPU
# for more than a fifth of its time, and in which I/Os had no answer, is tried again with half as
# many I/Os a second, and then with a quarter, each time when the machine has time for it: the
# kernel, too, needs a CPU for the packets. All together wait ten minutes at most for that. The last
# try is judged.
row() { # NAME TRY
    epoch=$((epoch + 1))
    log=$work/$1.$epoch
    load solar 7000 --waits "$work/waits"
    load tcp 7004
    printed ready "$log.solar" "$solar"
    printed ready "$log.tcp" "$tcp"
    hit=- began=$(uptime_ms) from=$(($(waited "$server") + $(waited "$solar") + $(stolen)))
    for l in $(down_of "$1"); do eval "was_$l=$(carried "$l")"; done
    sleep 1
    for l in $(down_of "$1"); do
        hit=$(soon more "$l" "$(eval "echo \$was_$l")")
        [ "$hit" -gt 0 ] || is_bad "$1" "link $l carried nothing before it went down"
    done
    case $1 in
    none) sleep 2.5 ;;
    reboot)
        reboots
        hit=$(counted <"$work/reboot.log")
        ;;
    *)
        fabric fault "$1" || fail "the fault could not be made: $(tail -n 3 "$work/tool")"
        sleep 2.5
        ! has_rule "$1" || hit=$(soon hits)
        ;;
    esac
    ! has_rule "$1" || [ "$hit" -gt 0 ] || is_bad "$1" "the rule has hit nothing"
    fabric clear
    sleep 1
    starved=$(($(waited "$server") + $(waited "$solar") + $(stolen) - from))
    starved=$((100 * starved / ($(uptime_ms) - began)))
    kill -USR2 "$solar" "$tcp" # no new I/Os
    wait "$solar" || fail "$1: the clients of SOLAR ended with $?"
    wait "$tcp" || fail "$1: the clients of TCP ended with $?"
    line "$1" "$hit"
    if [ "$(value "$log.solar" hung)" != 0 ] && [ "$starved" -gt 20 ] && [ "$2" -lt 3 ]; then
        echo "$1: $(value "$log.solar" hung) I/Os of SOLAR had no answer for a second, and clients \
and server waited $starved % for a CPU: once more, with half as many I/Os a second"
        pause=$((pause * 2))
        quiet
        row "$1" $(($2 + 1))
        return
    fi
    pause=$full_pause
    judge "$1"
    eval "solar_$1=\$((\${solar_$1:-0} + $(value "$log.solar" hung)))"
    eval "tcp_$1=\$((\${tcp_$1:-0} + $(value "$log.tcp" hung)))"
    m=$(value "$log.solar" max_ms)
    [ "$m" -le "$(eval "echo \${max_$1:-0}")" ] || eval "max_$1=$m"
}

# The server dies and comes back, twice under way and once when all is answered.
server_killed() {
    epoch=$((epoch + 1))
    log=$work/killed.$epoch
    mkfifo "$log.fifo"
    run solar "$log.solar" sh -c 'exec "$@" <"$0"' "$log.fifo" nsenter --net=/run/netns/sol_c \
        "$faults" load --transport solar --server $where:7000 --clients $clients --depth 4 \
        --milliseconds 600000 --epoch $epoch --seed $epoch --pause-us "$pause" \
        --waits "$work/waits" --hold --verbose
    exec 7>"$log.fifo"
    printed ready "$log.solar" "$solar"
    for i in 1 2; do
        sleep 1
        kill -9 "$server"
        wait "$server" 2>/dev/null
        sleep 0.3
        serve
        kill -USR1 "$solar"
    done
    sleep 1
    kill -USR2 "$solar"
    printed held "$log.solar" "$solar"
    kill -9 "$server"
    wait "$server" 2>/dev/null
    serve
    echo go >&7
    exec 7>&-
    wait "$solar" || fail "server_killed: the clients ended with $?"
    printf '%-14s %6s I/Os, %s blocks compared, %s us after the server was back, max %s ms\n' \
        server_killed "$(value "$log.solar" ios)" "$(value "$log.solar" checked)" \
        "$(value "$log.solar" resumed_us)" "$(value "$log.solar" max_ms)"
    judge_killed
}
judge_killed() { # an outage may be longer than a second, and is not SOLAR's
    r=$log.solar us=$(value "$log.solar" resumed_us)
    [ "$(value "$r" errors)" = 0 ] || is_bad server_killed "$(value "$r" errors) I/Os failed"
    [ "$(value "$r" wrong)" = 0 ] ||
        is_bad server_killed "$(value "$r" wrong) blocks are not as they were acknowledged"
    [ "$(value "$r" open)" = 0 ] || is_bad server_killed "$(value "$r" open) I/Os hang"
    [ "$us" -gt 0 ] || is_bad server_killed "no I/O ended after the server was back"
    [ "$us" -le 1000000 ] || is_bad server_killed "I/Os resumed $us us after the server was back"
    [ "$(value "$r" resets)" -gt 0 ] || is_bad server_killed "no client reset a path"
}

# ---- Programs on the virtual disk ----

attach() { # NAME DISK: a client, in $client_NAME, and its socket
    run "client_$1" "$log.$1" nsenter --net=/run/netns/sol_c "$volume" client \
        --server $where:7000 --disk "$2" --size 16M --epoch $epoch --socket "$work/$1"
    eval "printed ready '$log.$1' \$client_$1"
}
# All of the disk is written, then verified. Blocks of one size a time: fio takes what an earlier
# time wrote for this one's where sizes are mixed, or a backlog is verified meanwhile.
verifies() { # URI
    n=0
    until [ -e "$work/enough" ]; do
        fio --name=verify --ioengine=nbd --uri="$1" --rw=randwrite --bs=$((4 << n % 4))k \
            --iodepth=4 --size=16M --randrepeat=0 --verify=crc32c --verify_fatal=1 \
            --verify_state_save=0 || return 1
        n=$((n + 1))
    done
    [ $n -gt 0 ] && echo "verified $n times"
}
# One of two there and back, and what was received is a whole file system, until there is
# $work/enough.
copies() { # IMAGE URI
    n=0
    until [ -e "$work/enough" ]; do
        image=$1.$((n % 2))
        nbdcopy --requests=4 --request-size=32768 "$image" "$2" || return 1
        nbdcopy --requests=4 --request-size=32768 "$2" "$work/back" || return 1
        cmp "$image" "$work/back" || return 1
        e2fsck -fn "$work/back" >/dev/null 2>&1 || { echo "e2fsck: $?" && return 1; }
        n=$((n + 1))
    done
    [ $n -gt 0 ] && echo "copied $n times"
}
# The clients of programs have few paths: none may be among what a rule is for. Then it is made for
# another quarter.
broken() { # NAME
    for k in 0 1 2 3; do
        fabric fault "$1" $k || fail "the fault could not be made: $(tail -n 3 "$work/tool")"
        sleep 1.5
        ! has_rule "$1" || [ "$(hits)" -gt 0 ] || { fabric clear && continue; }
        return
    done
    is_bad programs "no rule of $1 has hit anything"
}
fault_of_programs() { # NAME
    case $1 in
    none) sleep 1 ;;
    server_killed)
        kill -9 "$server"
        wait "$server" 2>/dev/null
        sleep 0.3
        serve
        ;;
    reboot) reboots ;;
    *) broken "$1" ;;
    esac
    fabric clear
    sleep 0.3
    for p in "$verifier" "$copier"; do
        kill -0 "$p" 2>/dev/null || { is_bad programs "one of them ended at $1" && return 1; }
    done
}
programs() {
    for p in fio nbdcopy mkfs.ext4 e2fsck; do
        command -v $p >/dev/null || { unjudged="$unjudged $p" && echo "no $p" && return; }
    done
    epoch=$((epoch + 1))
    log=$work/programs.$epoch
    rm -rf "$work/enough" "$work/tree" "$work"/image.*
    mkdir "$work/tree"
    for i in 0 1; do
        head -c 6000000 /dev/urandom >"$work/tree/random"
        truncate -s 16M "$work/image.$i"
        mkfs.ext4 -q -d "$work/tree" "$work/image.$i" || fail "mkfs.ext4"
    done
    attach fio_nbd $fio_disk
    attach ext4_nbd $ext4_disk
    verifies "nbd+unix:///?socket=$work/fio_nbd" >"$log.fio" 2>&1 7>&- 8>&- 9>&- &
    verifier=$!
    copies "$work/image" "nbd+unix:///?socket=$work/ext4_nbd" >"$log.copy" 2>&1 7>&- 8>&- 9>&- &
    copier=$!
    for f in $every; do fault_of_programs "$f" || break; done
    : >"$work/enough"
    wait "$copier" || is_bad programs "the copies: $(tail -n 5 "$log.copy")"
    wait "$verifier" || is_bad programs "fio: $(tail -n 5 "$log.fio")"
    for p in "$client_fio_nbd" "$client_ext4_nbd"; do
        kill -TERM "$p"
        wait "$p" || is_bad programs "a client ended with $?"
    done
    printf '%-14s fio: %s, an ext4 image: %s, through each of the faults\n' programs \
        "$(tail -n 1 "$log.fio")" "$(tail -n 1 "$log.copy")"
}

echo "load $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) CPUs, store in $memory"
for r in $(seq "$rounds"); do
    [ "$rounds" = 1 ] || echo "-- round $r of $rounds"
    heading
    for w in $rows; do
        case $w in server_killed | programs) $w ;; *) row "$w" 1 ;; esac
    done
done
echo "-- I/Os without an answer for a second, all rounds: SOLAR, TCP; SOLAR's slowest"
for w in $rows; do
    case $w in server_killed | programs) continue ;; esac
    eval "n=\${solar_$w} t=\${tcp_$w} m=\${max_$w:-0}"
    # shellcheck disable=SC2154
    printf '%-14s %6d %6d %6d ms\n' "$w" "$n" "$t" "$m"
    if is_silent "$w" && [ "$t" = 0 ]; then
        echo "FAILED: $w: TCP has not hung: was the fault there?"
        bad="$bad $w"
    fi
done
[ -z "$bad" ] || { echo "FAILED:$bad"; exit 1; }
[ -z "$unjudged" ] || skip "all but row programs is well, for which there is no$unjudged"
echo "all well"
