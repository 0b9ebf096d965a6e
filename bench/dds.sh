#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# dds.sh [--seconds N] [FIGURE...]
#
# The figures of the DDS paper on this machine, as rows (bench/run.sh calls it); bench/plot.sh makes
# pictures of saved rows. FIGURE: fig14 (with fig15), fig14c (the reads of those out of the page
# cache: without the device's limit), fig16, fig17, fig18, fig21, fig22, fig23, fig24 (with fig2),
# fig25 (with fig26); all by default. --seconds N: of one run (default 1), of
# which there are SNIC_BENCH_ROUNDS (5) per point, interleaved; rows are medians. Client, DPU role
# and host role share this machine's processors. SNIC_BENCH_DIR: where the files go.
#
#   baseline  the server alone, its own sockets, files of the operating system on io_uring
#   library   its files on the DPU role through the file library; every request goes to the host
#   offload   reads are answered by the DPU role
#
# What the library's way costs: fig14c, fig14, fig24, fig25, rows *_beside_baseline of `library`:
# its rate, and with _cpu the CPU of all roles and the client for an operation, in times baseline's.
#
# A row `paper` has what the paper's text states, on other hardware. For a figure that cannot be
# measured a row has "missing" and the reason.
set -u
cd "$(dirname "$0")/.." || exit 1
usage() { sed -n '3,20s/^# \{0,1\}//p' "$0"; exit "$1"; }
all="fig14 fig14c fig16 fig17 fig18 fig21 fig22 fig23 fig24 fig25"
seconds=1 figures=
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=${2:?--seconds N}; shift ;;
    --help | -h) usage 0 ;;
    fig15) figures="$figures fig14" ;;
    fig2) figures="$figures fig24" ;;
    fig26) figures="$figures fig25" ;;
    *)
        case " $all " in *" $1 "*) figures="$figures $1" ;; *) usage 2 >&2 ;; esac
        ;;
    esac
    shift
done
figures=${figures:-$all}
build=$(cd "${SNIC_BENCH_BUILD:-build/bench}" && pwd) || exit 1
bin=$build/bin
mkdir -p "$build/dds"
work=$(mktemp -d "${SNIC_BENCH_DIR:-$build/dds}/XXXXXX") || exit 1
depths="1 8 64 256"
. bench/common.sh
missing() { echo "missing dds $1: $2"; }

# ---- Rows ----

threads() {
    case $1 in baseline | *_os_files) echo 1 ;; *) echo 2 ;; esac
}
# rows UNIT CELL WHO...: the medians of what was kept
rows() {
    unit=$1 cell=$2
    shift 2
    for w in "$@"; do
        ! kept "$cell" "$w" ||
            echo "row dds $cell $w $(threads "$w") $(middle "$cell" "$w") $unit"
    done
}
paper() { echo "row dds $1 paper - $2 $3"; }
# peak CELL FROM WHO...: the largest rate that any depth of FROM reached
peak() {
    cell=$1 from=$2
    shift 2
    for w in "$@"; do
        best=$(for d in $depths; do ! kept "${from}_d$d" "$w" || middle "${from}_d$d" "$w"
        done | sort -g | tail -n 1)
        [ -z "$best" ] || echo "row dds ${cell}_$w ours $(threads "$w") $best op/s"
    done
}

# beside CELL WHO...: in CELL, how many times the baseline's; what a way costs, or saves, beside it
beside() {
    cell=$1
    shift
    kept "$cell" baseline || return
    base=$(middle "$cell" baseline)
    for w in "$@"; do
        ! kept "$cell" "$w" || awk -v c="$cell" -v w="$w" -v n="$(threads "$w")" -v b="$base" \
            -v v="$(middle "$cell" "$w")" 'BEGIN { if (b > 0)
                printf "row dds %s_beside_baseline %s %s %.2f times\n", c, w, n, v / b }'
    done
}

# ---- Servers and their loads ----

# node NAME COMMAND...: one of the servers
node() {
    name=$1
    shift
    begin "$name" "$@" --listen 127.0.0.1:$port --log-level warning
}
# spread DEPTH: so many operations on their way, over connections
spread() {
    conns=1
    while [ $((conns * conns)) -lt "$1" ]; do conns=$((conns * 2)); done
    echo "--clients $conns --pipeline $(($1 / conns))"
}
value() { sed -n "s/^$1=//p" "$work/load"; }
# cores RATE CPU_US: processors' worth
cores() { awk "BEGIN { printf \"%.4f\", $1 * $2 / 1e6 }"; }
sum() { awk "BEGIN { printf \"%.3f\", $* }"; }

# Keep one run's rate, CPU and latency. took FIG_RATE FIG_LATENCY CASE WHO
took() {
    rate=$(value rate)
    keep "$1:$3" "$4" "$rate"
    keep "$1:$3_cpu" "$4" "$(sum "$(value host_cpu_us)" + "$(value dpu_cpu_us)" + \
        "$(value client_cpu_us)")"
    keep "$1:$3_host" "$4" "$(cores "$rate" "$(value host_cpu_us)")"
    keep "$1:$3_dpu" "$4" "$(cores "$rate" "$(value dpu_cpu_us)")"
    keep "$1:$3_client" "$4" "$(cores "$rate" "$(value client_cpu_us)")"
    keep "$2:$3_p50" "$4" "$(value p50_us)"
    keep "$2:$3_p99" "$4" "$(value p99_us)"
}
# print_rows FIG_RATE FIG_LATENCY CASE WHO...: print the rows of what took() kept
print_rows() {
    a=$1 b=$2 case=$3
    shift 3
    rows op/s "$a:$case" "$@"
    rows us/op "$a:${case}_cpu" "$@"
    for r in host dpu client; do rows cores "$a:${case}_$r" "$@"; done
    for q in p50 p99; do rows us "$b:${case}_$q" "$@"; done
    beside "$a:$case" library offload
    beside "$a:${case}_cpu" library offload
}
# pages FIG_RATE FIG_LATENCY CASE SERVER OP DEPTH [WHO]
pages() {
    # shellcheck disable=SC2046
    "$bin/page_load" --server 127.0.0.1:"$(port_of "$4")" --op "$5" $(spread "$6") --report \
        --seconds "$seconds" --seed "$round" >"$work/load" 2>"$work/load.err" ||
        die "the load failed at $4: $(cat "$work/load" "$work/load.err" "$work/log.$4")"
    took "$1" "$2" "$3" "${7:-$4}"
}
fill_pages() {
    for s in baseline library offload; do
        "$bin/page_load" --server 127.0.0.1:"$(port_of $s)" --op fill --clients 8 --pipeline 32 \
            --reconnect >"$work/load" 2>&1 ||
            die "cannot fill $s: $(cat "$work/load" "$work/log.$s")"
    done
}

# ---- Figures 14, 15, 16: a remote file ----

# remote_begin [OPTION...]: the three servers, their files written
remote_begin() {
    [ -x "$bin/page_server" ] || { missing fig14 "no page_server"; return 1; }
    set -- "$bin/page_server" --remote-file --page-bytes 1K --pages 131072 --buffers 1024 "$@"
    node baseline "$@" --monolith --dir "$work/remote"
    node library "$@" --file "$work/remote.library" --offload off
    node offload "$@" --file "$work/remote.offload"
    fill_pages
}
fig14() {
    remote_begin || return
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for d in $depths; do
            for s in baseline library offload; do pages fig14 fig15 "read_d$d" $s read "$d"; done
            for s in baseline library; do pages fig14 fig15 "write_d$d" $s write "$d"; done
        done
    done
    end_all
    for c in read write; do
        for d in $depths; do print_rows fig14 fig15 "${c}_d$d" baseline library offload; done
    done
    peak fig14:read_peak fig14:read baseline library offload
    paper fig14:read_peak_baseline 390000 op/s
    paper fig14:read_peak_library 580000 op/s
    paper fig14:read_peak_offload 730000 op/s
    paper fig14:read_peak_baseline_host 10.7 cores
    paper fig14:read_peak_library_host 6.5 cores
    peak fig14:write_peak fig14:write baseline library
    paper fig14:write_peak_baseline 210000 op/s
    paper fig14:write_peak_library 290000 op/s
    paper fig15:read_peak_baseline_latency 11000 us
    paper fig15:read_peak_offload_latency 780 us
    paper fig15:write_peak_baseline_p99 48000 us
    paper fig15:write_peak_library_p99 3000 us
    rm -rf "$work"/remote*
}
fig14c() {
    remote_begin --buffered || return
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for d in $depths; do
            for s in baseline library offload; do pages fig14c fig15c "read_d$d" $s read "$d"; done
        done
    done
    end_all
    for d in $depths; do print_rows fig14c fig15c "read_d$d" baseline library offload; done
    peak fig14c:read_peak fig14c:read baseline library offload
    rm -rf "$work"/remote*
}
# The way without a network: fio on the baseline's own file.
local_os() {
    fio --name=f --filename="$work/remote/pages" --readonly --rw=randread --bs=1024 --direct=1 \
        --ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=256 --runtime="$seconds" \
        --time_based --norandommap --randrepeat=0 --output-format=terse --terse-version=3 \
        >"$work/fio" 2>/dev/null || return
    # 8: rate, 88 and 89: per cent of user and system time; percentiles are NAME=VALUE
    awk -F';' '/^3;/ { split("50.000000% 99.000000%", want, " ")
        for (i = 1; i <= NF; i++) { n = split($i, p, "="); for (k in want)
            if (n == 2 && p[1] == want[k] && !(k in got)) got[k] = p[2] }
        print $8, ($88 + $89) / 100, got[1], got[2] }' "$work/fio" >"$work/fio.values"
    read -r rate used p50 p99 <"$work/fio.values" || return
    keep fig16:peak_rate local_os_files "$rate"
    keep fig16:peak_total local_os_files "$used"
    keep fig16:peak_p50 local_os_files "$p50"
    keep fig16:peak_p99 local_os_files "$p99"
}
fig16() {
    remote_begin || return
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        local_os
        for s in baseline library offload; do
            case $s in
            baseline) w=tcp_os_files ;;
            library) w=tcp_our_files ;;
            offload) w=offload_tcp ;;
            esac
            pages x x peak $s read 256
            keep fig16:peak_rate $w "$(value rate)"
            keep fig16:peak_total $w "$(cores "$(value rate)" "$(sum "$(value host_cpu_us)" + \
                "$(value dpu_cpu_us)" + "$(value client_cpu_us)")")"
            keep fig16:peak_p50 $w "$(value p50_us)"
            keep fig16:peak_p99 $w "$(value p99_us)"
        done
    done
    end_all
    rm -rf "$work"/remote*
    module filelib 6 >"$work/out"
    awk '$1 == "row" && $4 == "mapped" && $3 ~ /^read_1K_d[0-9]+$/ { rate = $6 }
        $1 == "row" && $4 == "mapped" && $3 ~ /^read_1K_d[0-9]+_cpu$/ { cpu = $6 }
        END { if (rate > 0) { print "row dds fig16:peak_rate local_our_files 2", rate, "op/s"
            print "row dds fig16:peak_total local_our_files 2", rate * cpu / 1e6, "cores" } }' \
        "$work/out" >"$work/ours"
    [ -s "$work/ours" ] || missing fig16:local_our_files "no row of bench_filelib"
    set -- local_os_files tcp_os_files tcp_our_files offload_tcp
    rows op/s fig16:peak_rate "$@"
    grep peak_rate "$work/ours"
    rows cores fig16:peak_total "$@"
    grep peak_total "$work/ours"
    rows us fig16:peak_p50 "$@"
    rows us fig16:peak_p99 "$@"
}

# ---- Figures 17, 18, 21, 22, 23: from the modules' own benchmarks ----

# module NAME SECONDS [OPTION...]: its rows, or nothing
module() {
    m=$1 s=$2
    shift 2
    [ -x "$build/bench/bench_$m" ] &&
        (cd "$work" && timeout 120 "$build/bench/bench_$m" --seconds "$s" "$@" 2>/dev/null)
}
# renamed FIGURE PATTERN [AWK]: rows in the file `out` whose case is like PATTERN, as this figure's;
# AWK may change the case ($3) and who ($4) first
renamed() {
    awk -v f="$1" -v p="$2" '$1 == "row" && $3 ~ p {'"${3:-}"'
        print "row dds", f ":" $3, $4, $5, $6, $7; n++ } END { exit n == 0 }' "$work/out" ||
        missing "$1" "no row like $2"
}
# The paper's three designs: FaRM's flags (farm), a lock (mutex), the progress counter (faithful
# and ours_quiescent); and ours, with a commit word per record.
fig17() {
    : >"$work/out"
    for p in 1 4 16 64; do
        for w in ours mutex farm faithful; do
            for c in poll2us_8B latency; do
                module ring 1 --case $c --producers $p --who $w |
                    grep -E '^row ring (poll2us_8B|latency)' >>"$work/out"
            done
        done
    done
    awk '{ sub(/latency_low_load/, "latency") } !seen[$3, $4, $5]++' "$work/out" >"$work/once" &&
        mv "$work/once" "$work/out"
    renamed fig17 '^poll2us_8B$'
    renamed fig17 '^latency$'
    paper fig17:farm_peak 0.064 Mop/s
    paper fig17:mutex_p1 22 Mop/s
    paper fig17:mutex_p64 1.4 Mop/s
    paper fig17:progress_p64 6.5 Mop/s
}
fig18() {
    module filelib 20 >"$work/out"
    renamed fig18 '^(read|write)_[0-9]+K_d[0-9][0-9]+(_cpu)?$' 'sub("_d[0-9]+", "", $3);'
    renamed fig18 '^memcpy_'
    paper fig18:zero_copy_gain_max 93 %
}
fig21() {
    module director 6 --only flow >"$work/out"
    renamed fig21 '^(flow|pass)_[0-9]+K?(_per_core|_cpu)?$'
    paper fig21:flow_per_core 6.4 Gb/s
}
fig22() {
    module cuckoo 0.1 --peer ours >"$work/out"
    renamed fig22 '^(insert_0_50|insert_bulk_0_50|hit_85|hit_bulk32_85|item_.*)$'
    paper fig22:insert_1_writer 1.2 Mop/s
    paper fig22:hit_8_readers 15.7 Mop/s
}
# The same application's reads, through director and engine: as they are, with copies forced, and
# with the kernel's zero-copy send.
fig23() {
    module director 6 --only zero >"$work/out"
    renamed fig23 '^read_[0-9]+k_(as_is|copies|zc)_' \
        'match($3, "_(as_is|copies|zc)_"); $4 = substr($3, RSTART + 1, RLENGTH - 2);
        $3 = substr($3, 1, RSTART) substr($3, RSTART + RLENGTH);'
    paper fig23:read_1k_copies_peak 520000 op/s
    paper fig23:read_1k_as_is_peak 730000 op/s
    paper fig23:read_1k_copies_p50 250 us
    paper fig23:read_1k_as_is_p50 170 us
}

# ---- Figures 2 and 24: pages ----

fig24() {
    [ -x "$bin/page_server" ] || { missing fig24 "no page_server"; return; }
    set -- "$bin/page_server" --pages 8192
    node baseline "$@" --monolith --dir "$work/pages"
    node library "$@" --file "$work/pages.library" --offload off
    node offload "$@" --file "$work/pages.offload"
    fill_pages
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for d in $depths; do
            for s in baseline library offload; do pages fig24 fig24 "get_d$d" $s get "$d"; done
        done
        for s in baseline library offload; do pages fig24 fig24 mixed_d64 $s mixed 64; done
    done
    end_all
    for d in $depths; do
        print_rows fig24 fig24 "get_d$d" baseline library offload
        echo "row dds fig2:get_d$d baseline 1 $(middle "fig24:get_d${d}_host" baseline) cores"
    done
    print_rows fig24 fig24 mixed_d64 baseline library offload
    peak fig24:get_peak fig24:get baseline library offload
    paper fig24:get_peak_baseline 90000 op/s
    paper fig24:get_peak_baseline_p99 4400 us
    paper fig24:get_peak_offload 160000 op/s
    paper fig24:get_peak_offload_p99 1300 us
    paper fig2:get_156k 17 cores
    rm -rf "$work"/pages*
}

# ---- Figures 25 and 26: key-value, YCSB's uniform reads ----

# keys CASE SERVER DEPTH: kv_load prints what page_load prints, except CPU
keys() {
    at=$(port_of "$2")
    host=$(info "$at" host_pid) dpu=$(info "$at" dpu_pid)
    [ "${dpu:-0}" != 0 ] || dpu=
    host=${host:-$(pid_of "$2")}
    host_ticks=$(ticks "$host") dpu_ticks=$(ticks ${dpu:+"$dpu"})
    # shellcheck disable=SC2046
    (
        "$bin/kv_load" --server 127.0.0.1:"$at" --op get --keys $records --key-bytes 8 \
            --value-bytes 8 $(spread "$3") --report --seconds "$seconds" --seed "$round" \
            >"$work/load" 2>"$work/load.err"
        code=$?
        times >"$work/times" # of this shell, then of its children: kv_load
        exit $code
    ) || die "the load failed at $2: $(cat "$work/load" "$work/load.err" "$work/log.$2")"
    host_ticks=$(($(ticks "$host") - host_ticks)) dpu_ticks=$(($(ticks ${dpu:+"$dpu"}) - dpu_ticks))
    awk -v hz="$hz" -v n="$(value operations)" -v h=$host_ticks -v d=$dpu_ticks 'NR == 2 {
        for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); c += t[1] * 60 + t[2] }
        printf "host_cpu_us=%.3f\ndpu_cpu_us=%.3f\nclient_cpu_us=%.3f\n", h * 1e6 / hz / n,
            d * 1e6 / hz / n, c * 1e6 / n }' "$work/times" >>"$work/load"
    took fig25 fig26 "$1" "$2"
}
fig25() {
    command -v redis-cli >/dev/null || { missing fig25 "no redis-cli"; return; }
    records=4000000 # six times the memory below, so that all ways read the device
    set -- "$bin/kv_server" --memory 32M --sync none --cache-entries 8000000
    node baseline "$@" --monolith --dir "$work/kv"
    node library "$@" --file "$work/kv.library" --size 1G --offload off
    node offload "$@" --file "$work/kv.offload" --size 1G --offload all
    for s in baseline library offload; do
        answers $s
        "$bin/kv_load" --server 127.0.0.1:"$(port_of $s)" --op fill --keys $records --key-bytes 8 \
            --value-bytes 8 --clients 8 --pipeline 64 >"$work/load" 2>&1 ||
            die "cannot fill $s: $(cat "$work/load")"
    done
    sleep 1 # until the DPU role has reported its process id
    round=0
    while [ $((round += 1)) -le "$rounds" ]; do
        calibrate
        for d in $depths; do
            for s in baseline library offload; do keys "get_d$d" $s "$d"; done
        done
    done
    end_all
    for d in $depths; do print_rows fig25 fig26 "get_d$d" baseline library offload; done
    peak fig25:get_peak fig25:get baseline library offload
    paper fig25:get_peak_baseline 340000 op/s
    paper fig25:get_peak_baseline_host 20 cores
    paper fig26:get_peak_baseline_p50 13000 us
    paper fig26:get_peak_baseline_p99 18000 us
    paper fig25:get_peak_offload 970000 op/s
    paper fig26:get_peak_offload_latency 300 us
    rm -rf "$work"/kv*
}

for f in $figures; do
    rm -f "$work"/v.*
    $f
done
noise dds
