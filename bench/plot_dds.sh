#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# plot_dds.sh ROWS [FOLDER]
#
# The figures of the DDS paper out of saved rows (bench/dds.sh), one SVG picture each: called by
# bench/plot.sh. A figure without rows has no picture.
set -eu
case ${1:---help} in
-?*) sed -n '3,6s/^# \{0,1\}//p' "$0"; [ "${1:-}" = --help ] && exit 0; exit 2 ;;
esac
rows=$1 folder=${2:-.}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
machine=$(sed -n 's/^machine //p' "$rows" | head -n 1 | tr -d "'\"\\\\")
machine=${machine:-a machine without a name}
grep '^row dds fig' "$rows" | grep -v ' paper ' >"$tmp/all" || exit 0
tab=$(printf '\t')

# ours: series and their colours, the same everywhere
cat >"$tmp/style" <<'STYLE'
set datafile separator "\t"
set datafile missing "nan"
set border 3 lc rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set grid lc rgb "#dddddd" lw 1
set key outside bottom center horizontal Left reverse samplen 2 spacing 1.1 maxcols 3 noenhanced
set style line 1 lc rgb "#888888" lw 2.2 pt 5 ps 0.55
set style line 2 lc rgb "#1f6fb4" lw 2.2 pt 7 ps 0.6
set style line 3 lc rgb "#d95f02" lw 2.2 pt 9 ps 0.7
set style line 4 lc rgb "#2a9d5b" lw 2.2 pt 11 ps 0.7
set style line 5 lc rgb "#7b4fa3" lw 2.2 pt 13 ps 0.7
set style line 11 lc rgb "#888888" lw 1.6 dt 2 pt 4 ps 0.55
set style line 12 lc rgb "#1f6fb4" lw 1.6 dt 2 pt 6 ps 0.6
set style line 13 lc rgb "#d95f02" lw 1.6 dt 2 pt 8 ps 0.7
set style line 14 lc rgb "#2a9d5b" lw 1.6 dt 2 pt 10 ps 0.7
set style fill solid 0.9 noborder
set boxwidth 0.9
STYLE

# picture NAME COLUMNS ROWS TITLE: gnuplot's commands for the panels come on standard input
picture() {
    {
        echo "set terminal svg size $(($2 * 400)),$(($3 * 340 + 50)) font 'sans,12' \\"
        echo "background 'white'"
        echo "set output '$folder/$1.svg'"
        cat "$tmp/style"
        printf '%s\n' "set multiplot layout $3,$2 title \"$4\\n{/*0.75 $machine}\" font ',14'"
        cat
        echo "unset multiplot"
    } >"$tmp/plot"
    gnuplot "$tmp/plot" 2>"$tmp/error" || { cat "$tmp/error" >&2; exit 1; }
    echo "$folder/$1.svg"
}
has() { grep -q "^row dds $1" "$tmp/all"; }

# curve FIG_RATE FIG_LATENCY CASE WHO: a line per depth: K op/s, host, all, p50, p99 in a file
curve() {
    awk -v a="$1" -v b="$2" -v c="$3" -v w="$4" '
        $4 == w && index($3, a ":" c "_d") == 1 || $4 == w && index($3, b ":" c "_d") == 1 {
            s = substr($3, index($3, "_d") + 2); n = split(s, p, "_")
            v[p[1], p[2]] = $6; if (n == 1) { v[p[1], "rate"] = $6; depth[p[1]] = 1 } }
        END { for (d = 1; d <= 1024; d *= 2) if (d in depth)
            printf "%g\t%g\t%g\t%g\t%g\n", v[d, "rate"] / 1e3, v[d, "host"],
                v[d, "host"] + v[d, "dpu"] + v[d, "client"], v[d, "p50"], v[d, "p99"] }' \
        "$tmp/all" >"$tmp/$1.$3.$4"
}
# lines FIG CASE COLUMN: the plot command of one panel, each way that has points
lines() {
    printf 'plot '
    n=0
    for w in baseline library offload; do
        n=$((n + 1))
        [ ! -s "$tmp/$1.$2.$w" ] ||
            printf '"%s" using 1:%s with linespoints ls %d title "%s", ' "$tmp/$1.$2.$w" "$3" $n $w
    done
    echo
}
cpu_panel() { # FIG CASE COLUMN TITLE
    printf 'set title "%s"\nset xlabel "K op/s"\nset ylabel "processors"\n' "$4"
    printf 'unset logscale\nset yrange [0:*]\nset xrange [0:*]\n'
    lines "$1" "$2" "$3"
}
latency_panel() { # FIG CASE TITLE
    printf 'set title "%s: median, dashed 99 %%"\nset xlabel "K op/s"\nset ylabel "us"\n' "$3"
    printf 'set logscale y\nset yrange [*:*]\nset xrange [0:*]\nplot '
    n=0
    for w in baseline library offload; do
        n=$((n + 1))
        [ ! -s "$tmp/$1.$2.$w" ] || printf '"%s" using 1:4 with linespoints ls %d title "%s", \
            "" using 1:5 with linespoints ls 1%d notitle, ' "$tmp/$1.$2.$w" $n $w $n
    done
    printf '\nunset logscale\n'
}
curves() { # FIG_RATE FIG_LATENCY CASE
    for w in baseline library offload; do curve "$1" "$2" "$3" $w; done
}

if has fig14:read_d; then
    curves fig14 fig15 read
    curves fig14 fig15 write
    {
        cpu_panel fig14 read 2 "reads: the host"
        cpu_panel fig14 read 3 "reads: host, DPU role and client"
        cpu_panel fig14 write 2 "writes: the host"
        cpu_panel fig14 write 3 "writes: host, DPU role and client"
    } | picture dds_fig14 2 2 "Remote 1 KB requests: rate against processors (Fig. 14)"
    {
        latency_panel fig14 read "reads"
        latency_panel fig14 write "writes"
    } | picture dds_fig15 2 1 "Remote 1 KB requests: rate against latency (Fig. 15)"
fi
if has fig14c:read_d; then
    curves fig14c fig15c read
    {
        cpu_panel fig14c read 2 "the host"
        cpu_panel fig14c read 3 "host, DPU role and client"
        latency_panel fig14c read "latency"
    } | picture dds_fig14c 3 1 \
        "Remote 1 KB reads out of the page cache (Figs. 14, 15 without a device)"
fi
if has fig24:get_d; then
    curves fig24 fig24 get
    {
        cpu_panel fig24 get 2 "the host"
        cpu_panel fig24 get 3 "host, DPU role and client"
        latency_panel fig24 get "latency"
    } | picture dds_fig24 3 1 'Page server, GetPage\\@LSN of 8 KB pages (Figs. 2, 24)'
fi
if has fig25:get_d; then
    curves fig25 fig26 get
    {
        cpu_panel fig25 get 2 "the host"
        cpu_panel fig25 get 3 "host, DPU role and client"
        latency_panel fig25 get "latency"
    } | picture dds_fig25 3 1 "Key-value store, YCSB C uniform, 8 B keys and values (Figs. 25, 26)"
fi

# ---- Bars: a table of cases over series ----

# table FILE NAMES SERIES [SCALE]: a line per case of NAMES "case=label ...", a column per who of
# SERIES "who=label ..." (who may be who/threads)
table() {
    awk -v names="$2" -v series="$3" -v scale="${4:-1}" '
        { v[$3, $4] = v[$3, $4 "/" $5] = $6 }
        END { n = split(names, a, " "); m = split(series, b, " "); printf "case"
            for (j = 1; j <= m; j++) { split(b[j], q, "="); gsub("~", " ", q[2])
                printf "\t%s", q[2] }
            print ""
            for (i = 1; i <= n; i++) { split(a[i], p, "="); gsub("~", " ", p[2])
                printf "%s", p[2]
                for (j = 1; j <= m; j++) { split(b[j], q, "=")
                    printf "\t%s", (p[1], q[1]) in v ? v[p[1], q[1]] * scale : "nan" }
                print "" } }' "$tmp/all" >"$1"
}
bars() { # FILE SERIES_COUNT TITLE YLABEL
    printf 'set title "%s"\nset ylabel "%s"\nunset xlabel\n' "$3" "$4"
    printf 'set yrange [0:*]\nset xrange [*:*]\n'
    printf 'set style data histograms\nset style histogram clustered gap 1\n'
    printf 'plot for [i=2:%d] "%s" using i:xtic(1) ls (i-1) title columnheader(i)\n' \
        $(($2 + 1)) "$1"
}

if has fig16:; then
    ways="local_os_files=local,~OS~files local_our_files=local,~ours tcp_os_files=TCP,~OS~files \
tcp_our_files=TCP,~ours offload_tcp=TCP,~offload"
    # one series, so the table is turned: a line per way
    for c in rate total p50 p99; do
        awk -v c="fig16:peak_$c" -v ways="$ways" '$3 == c { v[$4] = $6 } END {
            n = split(ways, a, " "); for (i = 1; i <= n; i++) { split(a[i], p, "=")
                gsub("~", " ", p[2]); print p[2] "\t" (p[1] in v ? v[p[1]] : "nan") } }' \
            "$tmp/all" >"$tmp/16.$c"
    done
    paste "$tmp/16.p50" "$tmp/16.p99" >"$tmp/16.latency"
    {
        echo 'set style data histograms'
        echo 'set xtics rotate by -30 noenhanced'
        echo 'set yrange [0:*]'
        echo 'set title "rate"; set ylabel "K op/s"'
        echo "plot '$tmp/16.rate' using (\$2/1e3):xtic(1) ls 2 notitle"
        echo 'set title "all processes"; set ylabel "processors"'
        echo "plot '$tmp/16.total' using 2:xtic(1) ls 3 notitle"
        echo 'set title "latency"; set ylabel "ms"'
        echo "plot '$tmp/16.latency' using (\$2/1e3):xtic(1) ls 1 title 'p50', \
'' using (\$4/1e3) ls 2 title 'p99'"
    } | picture dds_fig16 3 1 "Ways to 1 KB random reads, 256 at once (Fig. 16)"
fi

if has fig17:; then
    n=0
    for w in mutex=lock farm=FaRM faithful=as~published ours_quiescent=ours,~P==T ours=ours; do
        n=$((n + 1)) label=$(echo "${w#*=}" | tr '~' ' ')
        for c in poll2us_8B latency; do
            awk -v w="${w%%=*}" -v c="fig17:$c" '$3 == c && $4 == w { print $5 "\t" $6 }' \
                "$tmp/all" | sort -n >"$tmp/17.$c.$n"
            [ ! -s "$tmp/17.$c.$n" ] ||
                printf '"%s" using 1:2 with linespoints ls %d title "%s", ' \
                    "$tmp/17.$c.$n" $n "$label" >>"$tmp/17.$c"
        done
    done
    {
        echo 'set logscale x 2; set xlabel "producers"; set ylabel "M messages/s"; set yrange [0:*]'
        echo 'set title "rate, the consumer polls every 2 us"'
        echo "plot $(cat "$tmp/17.poll2us_8B")"
        echo 'set logscale y 10; set yrange [100:*]; set ylabel "ns"'
        echo 'set title "median latency, one message at a time of each"'
        echo "plot $(cat "$tmp/17.latency")"
    } | picture dds_fig17 2 1 "Request rings, 8-byte messages (Fig. 17)"
fi

if has fig18:; then
    for op in read write; do
        for w in mapped copying_dma; do
            awk -v o="$op" -v w=$w '$4 == w && $3 ~ "^fig18:" o "_[0-9]+K(_cpu)?$" {
                s = $3; gsub(/[^0-9]/, " ", s); split(s, p, " "); k = p[2]
                if ($3 ~ /_cpu$/) c[k] = $6; else r[k] = $6 }
                END { for (k = 1; k <= 1024; k *= 2) if (k in r)
                    printf "%d\t%g\t%g\n", k, r[k] * k / 1024, c[k] }' "$tmp/all" >"$tmp/18.$op.$w"
        done
    done
    {
        echo 'set logscale xy 2; set xlabel "KB of a request"; set key maxcols 2'
        for p in "2 MB/s throughput" "3 us CPU~per~request"; do
            set -- $p
            printf 'set title "%s"\nset ylabel "%s"\n' "$(echo "$3" | tr '~' ' ')" "$2"
            printf 'plot "%s" using 1:%d with linespoints ls 2 title "read, zero copy", \
"%s" using 1:%d with linespoints ls 12 title "read, copying", \
"%s" using 1:%d with linespoints ls 3 title "write, zero copy", \
"%s" using 1:%d with linespoints ls 13 title "write, copying"\n' \
                "$tmp/18.read.mapped" "$1" "$tmp/18.read.copying_dma" "$1" \
                "$tmp/18.write.mapped" "$1" "$tmp/18.write.copying_dma" "$1"
        done
    } | picture dds_fig18 2 1 "File I/O through the library, zero copy against copying (Fig. 18)"
fi

if has fig21:flow; then
    names= rates=
    for s in 64 1K 16K 128K; do
        names="$names fig21:flow_${s}_per_core=$s"
        rates="$rates fig21:flow_$s=$s"
    done
    table "$tmp/21.core" "$names" "ours/1=one~director ours/2=two~directors"
    table "$tmp/21.all" "$rates" "ours/1=one~director ours/2=two~directors"
    {
        bars "$tmp/21.core" 2 "per core of the director" "Gb/s"
        echo 'set xlabel "bytes of a message"'
        bars "$tmp/21.all" 2 "all, with client and server on the same machine" "Gb/s"
    } | picture dds_fig21 2 1 "Traffic director: bandwidth by size of messages (Fig. 21)"
fi

if has fig22:; then
    table "$tmp/22" "fig22:insert_0_50=insert fig22:insert_bulk_0_50=batched fig22:hit_85=look-up \
fig22:hit_bulk32_85=batched" "ours/1=one~thread ours/2=two~threads"
    # over item sizes
    items=
    n=0
    for c in item_insert=insert item_hit=look-up; do
        n=$((n + 1)) name=${c%%=*}
        awk -v a="fig22:${name%_*}_" -v b="_${name##*_}" 'index($3, a) == 1 &&
            substr($3, length(a) + 1) ~ "^[0-9]+" b "$" { k = substr($3, length(a) + 1)
            print k + 0 "\t" $6 }' "$tmp/all" | sort -n >"$tmp/22.$n"
        [ ! -s "$tmp/22.$n" ] || items="$items \"$tmp/22.$n\" using 1:2 with linespoints ls \
$((n + 1)) title \"$(echo "${c#*=}" | tr '~' ' ')\","
    done
    {
        bars "$tmp/22" 2 "8-byte keys, 16-byte items, load .85 for look-ups" "M op/s"
        [ -z "$items" ] || {
            echo 'set logscale x 2; set xlabel "bytes of an item"; set title "by size of items"'
            echo 'set key maxcols 2'
            printf 'plot %s\n' "$(echo "$items" | tr -d '\\\n')"
        }
    } | picture dds_fig22 2 1 "Cache table (Fig. 22)"
fi

if has fig23:; then
    for c in qd16 qd16_cpu p50; do
        names=
        for s in 1k 4k 16k 64k 128k; do names="$names fig23:read_${s}_$c=$s"; done
        table "$tmp/23.$c" "$names" "as_is=no~copy copies=a~copy~forced zc=kernel~zero-copy~send" \
            "$([ $c = qd16 ] && echo 0.001 || echo 1)"
    done
    {
        bars "$tmp/23.qd16" 3 "rate, 16 at once" "K op/s"
        bars "$tmp/23.qd16_cpu" 3 "processor time" "us/op"
        bars "$tmp/23.p50" 3 "median latency, one at a time" "us"
    } | picture dds_fig23 3 1 "Offloaded reads by size, with and without copies (Fig. 23)"
fi
