#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# plot_gimbal.sh ROWS [FOLDER]
#
# The figures of the Gimbal paper out of saved rows (bench_gimbal, its --series included: append
# that file to the rows, or call it ROWS with _series before its .rows), one SVG picture each:
# called by bench/plot.sh. A figure without rows has no picture.
set -eu
case ${1:---help} in
-?*) sed -n '3,7s/^# \{0,1\}//p' "$0"; [ "${1:-}" = --help ] && exit 0; exit 2 ;;
esac
rows=$1 folder=${2:-.}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
more=${rows%.rows}_series.rows
[ -r "$more" ] || more=
cat "$rows" ${more:+"$more"} | grep '^row gimbal ' >"$tmp/all" || exit 0

cat >"$tmp/style" <<'STYLE'
set datafile separator "\t"
set datafile missing "nan"
set border 3 lc rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set grid ytics lc rgb "#dddddd" lw 1
set key outside bottom center horizontal Left reverse samplen 2 spacing 1.1 noenhanced
set style line 1 lc rgb "#1f6fb4" lw 2.2
set style line 2 lc rgb "#888888" lw 2.2
set style line 3 lc rgb "#d95f02" lw 2.2
set style line 4 lc rgb "#2a9d5b" lw 2.2
set style line 5 lc rgb "#8fd0a9" lw 2.2
set style line 6 lc rgb "#7b4fa3" lw 2.2
set style fill solid 0.9 noborder
set boxwidth 0.9
STYLE

# picture NAME COLUMNS ROWS TITLE: gnuplot's commands for the panels come on standard input
picture() {
    {
        echo "set terminal svg size $(($2 * 420)),$(($3 * 320 + 60)) font 'sans,12' \\"
        echo "background 'white'"
        echo "set output '$folder/$1.svg'"
        cat "$tmp/style"
        printf '%s\n' "set multiplot layout $3,$2 title \"$4\\n{/*0.75 simulated time, \
model of a Samsung DCT983}\" font ',14'"
        cat
        echo "unset multiplot"
    } >"$tmp/plot"
    gnuplot "$tmp/plot" 2>"$tmp/error" || { cat "$tmp/error" >&2; exit 1; }
    echo "$folder/$1.svg"
}
has() { grep -q "^row gimbal $1" "$tmp/all"; }

all="ours=Gimbal~(ours) fifo=FIFO reflex=ReFlex parda=PARDA parda-n=PARDA,~by~size \
flashfq=FlashFQ"
# table FILE NAMES SERIES [SCALE]: a line per case of NAMES "case=label ...", a column per who of
# SERIES "who=label ..."
table() {
    awk -v names="$2" -v series="$3" -v scale="${4:-1}" '
        { v[$3, $4] = $6 }
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
# bars FILE SERIES_COUNT TITLE YLABEL [EXTRA]: a panel; EXTRA plots something over it
bars() {
    printf 'set title "%s"\nset ylabel "%s"\nset xrange [*:*]\n' "$3" "$4"
    printf 'set style data histograms\nset style histogram clustered gap 1\n'
    printf 'plot for [i=2:%d] "%s" using i:xtic(1) ls (i-1) title columnheader(i)%s\n' \
        $(($2 + 1)) "$1" "${5:-}"
}

if has fig6:; then
    cells=
    latencies=
    for c in C-R=clean,~128K~read C-W=clean,~128K~write F-R=frag.,~4K~read F-W=frag.,~4K~write; do
        cells="$cells fig6:${c%%=*}_bandwidth=${c#*=}"
        latencies="$latencies fig6:${c%%=*}_latency=${c#*=}"
    done
    table "$tmp/6a" "$cells" "$all" 0.001
    table "$tmp/6b" "$latencies" "$all" 0.001
    {
        echo 'set yrange [0:*]; set xtics rotate by -20'
        bars "$tmp/6a" 6 "bandwidth of 16 workers" "GB/s"
        echo 'set logscale y; set yrange [0.05:*]'
        bars "$tmp/6b" 6 "mean latency" "ms"
    } | picture gimbal_fig6 2 1 "Utilisation (Fig. 6)"
fi

if has fig7a:; then
    table "$tmp/7a" "fig7a:4K_worker_bandwidth=4~KiB fig7a:128K_worker_bandwidth=128~KiB" "$all"
    table "$tmp/7d" "fig7d:4K_futil=4~KiB fig7d:128K_futil=128~KiB" "$all"
    for c in b=e=clean c=f=frag; do
        f=${c%%=*} k=${c##*=} u=${c#*=} u=${u%%=*}
        table "$tmp/7$f" "fig7$f:${k}_read_bandwidth=read fig7$f:${k}_write_bandwidth=write" \
            "$all" 0.001
        table "$tmp/7$u" "fig7$u:${k}_read_futil=read fig7$u:${k}_write_futil=write" "$all"
    done
    {
        one=', 1 with lines lc rgb "#444444" dt 2 notitle'
        echo 'set yrange [0:*]; set key maxrows 2'
        bars "$tmp/7a" 6 "clean, 16 readers of 4 KiB, 4 of 128 KiB: each" "MB/s"
        bars "$tmp/7b" 6 "clean, 16 and 16 of 128 KiB: all" "GB/s"
        bars "$tmp/7c" 6 "fragmented, 16 and 16 of 4 KiB: all" "GB/s"
        bars "$tmp/7d" 6 "f-Util" "of the fair share" "$one"
        bars "$tmp/7e" 6 "f-Util" "of the fair share" "$one"
        bars "$tmp/7f" 6 "f-Util" "of the fair share" "$one"
    } | picture gimbal_fig7 3 2 "Fairness (Fig. 7)"
fi

if has fig8:; then
    {
        echo 'set logscale y; set yrange [0.2:*]'
        for c in clean_read clean_write frag_read frag_write; do
            table "$tmp/8$c" "fig8:${c}_average=mean fig8:${c}_p99=99~% fig8:${c}_p99.9=99.9~%" \
                "$all" 0.001
            bars "$tmp/8$c" 6 "$(echo "$c" | sed 's/frag_/fragmented, 4 KiB, /
s/clean_/clean, 128 KiB, /')" "ms"
        done
    } | picture gimbal_fig8 2 2 "Latency of 16 readers and 16 writers (Fig. 8)"
fi

# series CASE WHO FILE: "at value" of a time series; a value of 0 is none
series() {
    awk -v c="$1@" -v w="$2" '$4 == w && index($3, c) == 1 {
        print substr($3, length(c) + 1) "\t" ($6 > 0 ? $6 : "nan") }' "$tmp/all" >"$3"
}
if has fig9:read_worker@; then
    for w in ours reflex; do
        for c in read_worker write_worker read_latency write_latency write_cost; do
            series "fig9:$c" $w "$tmp/9.$w.$c"
        done
    done
    {
        echo 'set xlabel "phase: a writer joins at 1 to 8, a reader leaves at 10 to 17" font ",10"'
        echo 'set xrange [0:17]; set xtics 2; set grid xtics'
        for w in ours reflex; do
            echo 'unset logscale; set yrange [0:220]; set ylabel "MB/s"'
            echo "set title 'bandwidth of a worker, $([ $w = ours ] && echo Gimbal || echo ReFlex)'"
            echo "plot '$tmp/9.$w.read_worker' using 1:2 with lines ls 1 title 'read', \
'$tmp/9.$w.write_worker' using 1:2 with lines ls 3 title 'write', \
200 with lines lc rgb '#1f6fb4' dt 3 notitle, 60 with lines lc rgb '#d95f02' dt 3 notitle"
        done
        for w in ours reflex; do
            echo 'set logscale y; set yrange [30:100000]; set ylabel "us"; set grid y'
            cost=
            [ $w = ours ] && {
                echo 'set y2tics 0,3,9; set y2range [0:20]; set y2label "write cost"'
                cost=", '$tmp/9.ours.write_cost' using 1:2 axes x1y2 with steps ls 2 \
title 'write cost (right)'"
            } || echo 'unset y2tics; unset y2label'
            echo "set title 'latency of the device, \
$([ $w = ours ] && echo Gimbal || echo ReFlex)'"
            echo "plot '$tmp/9.$w.read_latency' using 1:2 with lines ls 1 title 'read', \
'$tmp/9.$w.write_latency' using 1:2 with lines ls 3 title 'write'$cost"
        done
    } | picture gimbal_fig9 2 2 "Workers come and go, fragmented, 4 KiB (Fig. 9)"
fi

if has fig18:qd8_ewma@; then
    {
        echo 'set xlabel "ms"; set ylabel "us"; set yrange [0:1600]'
        for n in 4 8 16 32; do
            series "fig18:qd${n}_ewma" ours "$tmp/18.$n.e"
            series "fig18:qd${n}_threshold" ours "$tmp/18.$n.t"
            echo "set title '$n outstanding'"
            echo "plot '$tmp/18.$n.e' using 1:2 with lines ls 1 lw 1.5 title 'latency, EWMA', \
'$tmp/18.$n.t' using 1:2 with lines ls 3 lw 1.5 title 'threshold'"
        done
    } | picture gimbal_fig18 2 2 "The latency threshold, clean, 128 KiB reads (Fig. 18)"
fi

if has tenants:; then
    awk '$3 ~ /^tenants:[0-9]+_bandwidth$/ { n = substr($3, 9) + 0; v[n, $4] = $6; seen[n] = 1 }
        END { printf "case\tours\tslots of the paper (barrier)\n"
            for (n = 1; n <= 1024; n *= 2) if (n in seen) printf "%d\t%g\t%g\n", n,
                100 * v[n, "ours"] / v[n, "fifo"], 100 * v[n, "slot_barrier"] / v[n, "fifo"] }' \
        "$tmp/all" >"$tmp/tenants"
    {
        echo 'set yrange [70:102]; set xlabel "tenants"'
        bars "$tmp/tenants" 2 "4 KiB reads, 512 outstanding in all" "% of FIFO" \
            ', 97 with lines lc rgb "#444444" dt 2 title "97 %"'
    } | picture gimbal_tenants 1 1 "Slots that wait for their last I/O, and ours"
fi
