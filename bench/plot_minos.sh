#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# plot_minos.sh ROWS [FOLDER]
#
# Figures 9, 10, 12 and 14 of the MINOS paper out of saved rows (bench_minos), one SVG picture each:
# called by bench/plot.sh. Bars are latencies, lines throughputs, normalised as in the paper.
# A figure without rows has no picture.
set -eu
case ${1:---help} in
-?*) sed -n '3,7s/^# \{0,1\}//p' "$0"; [ "${1:-}" = --help ] && exit 0; exit 2 ;;
esac
rows=$1 folder=${2:-.}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# The parameters' hash goes into the title.
grep '^row minos ' "$rows" | grep -v ' goal:' >"$tmp/hashed" || exit 0
hash=$(sed -n 's/^row minos [^ ]*#\([0-9a-f]*\) .*/\1/p' "$tmp/hashed" | sort -u | tr '\n' ' ')
sed 's/#[0-9a-f]* / /' "$tmp/hashed" >"$tmp/all"

cat >"$tmp/style" <<'STYLE'
set datafile separator "\t"
set datafile missing "nan"
set border 3 lc rgb "#444444"
set tics nomirror textcolor rgb "#222222"
set grid ytics lc rgb "#dddddd" lw 1
set key outside bottom center horizontal Left reverse samplen 2 spacing 1.1 noenhanced
set style line 1 lc rgb "#888888" lw 2.2
set style line 2 lc rgb "#1f6fb4" lw 2.2
set style line 3 lc rgb "#d95f02" lw 2.2 pt 9 ps 0.9
set style line 4 lc rgb "#2a9d5b" lw 2.2 pt 9 ps 0.9
set style fill solid 0.9 noborder
set boxwidth 0.9
set yrange [0:*]
STYLE

# picture NAME WIDTH ROWS TITLE [COLUMNS]: gnuplot's commands for the panels come on standard input
picture() {
    {
        echo "set terminal svg size $(($2 * 420)),$(($3 * 320 + 60)) font 'sans,12' \\"
        echo "background 'white'"
        echo "set output '$folder/$1.svg'"
        cat "$tmp/style"
        printf '%s\n' "set multiplot layout $3,${5:-$2} title \"$4\\n{/*0.75 simulated time, \
parameters $hash}\" font ',14'"
        cat
        echo "unset multiplot"
    } >"$tmp/plot"
    gnuplot "$tmp/plot" 2>"$tmp/error" || { cat "$tmp/error" >&2; exit 1; }
    echo "$folder/$1.svg"
}
has() { grep -q "^row minos $1" "$tmp/all"; }

# groups FILE FIGURE KIND CELLS: a line for each model and cell; B and O
groups() {
    awk -v f="$2" -v kind="$3" -v cells="$4" '
        $4 == "ours" && $7 == "x" { v[$3] = $6 }
        END { n = split(cells, c, " "); m = split("synch strict renf event scope", model, " ")
            for (i = 1; i <= m; i++) {
                for (j = 1; j <= n; j++) {
                    k = "_" kind "_" model[i] "_" c[j]
                    b = f ":B" k; o = f ":O" k
                    printf "%s\t%s\t%s\n", (j == 1 ? model[i] " " : "") c[j], \
                        b in v ? v[b] : "nan", o in v ? v[o] : "nan" }
                if (i < m) print "\tnan\tnan" } }' "$tmp/all" >"$1"
}
# bars_of FIGURE KIND CELLS TITLE AXIS: a panel of latencies, one of throughputs over it
bars_of() {
    groups "$tmp/$1.$2.l" "$1" "$2_latency" "$3"
    groups "$tmp/$1.$2.t" "$1" "$2_throughput" "$3"
    printf 'set title "%s"\nset xlabel "%s"\nset ylabel "latency (bars)"\n' "$4" "$5"
    printf 'set y2label "throughput (marks)"\nset y2tics\nset y2range [0:*]\n'
    [ -z "${6:-}" ] || printf 'set logscale y2\nset y2range [0.1:*]\n'
    printf 'set style data histograms\nset style histogram clustered gap 0.5\n'
    printf 'set xtics rotate by -60 font ",9" noenhanced\n'
    printf 'plot "%s" using 2:xtic(1) ls 1 title "B", "" using 3 ls 2 title "O", ' "$tmp/$1.$2.l"
    printf '"%s" using 0:2 axes x1y2 with points ls 3 title "B, throughput", ' "$tmp/$1.$2.t"
    printf '"" using 0:3 axes x1y2 with points ls 4 title "O, throughput"\n'
    printf 'unset logscale\n'
}

if has fig9:; then
    {
        bars_of fig9 write "20 50 80 100" "writes" "% writes"
        bars_of fig9 read "20 50 80 100" "reads" "% reads" log
    } | picture minos_fig9 2 1 "Latency and throughput, 5 nodes (Fig. 9), B Synch 50 % = 1"
fi
if has fig10:; then
    {
        bars_of fig10 write "2 4 6 8 10" "writes" "nodes"
        bars_of fig10 read "2 4 6 8 10" "reads" "nodes"
    } | picture minos_fig10 2 1 "Latency and throughput by nodes (Fig. 10), B Synch 2 nodes = 1"
fi

# chosen FILE "row=label ..." [PAPER]: a line each; with a third column of what the text states
chosen() {
    awk -v names="$2" '
        $4 == "ours" && $7 == "x" { v[$3] = $6 }
        END { n = split(names, a, " ")
            for (i = 1; i <= n; i++) { k = split(a[i], p, "="); gsub("~", " ", p[2])
                printf "%s\t%s\t%s\n", p[2], (p[1] in v ? v[p[1]] : "nan"), \
                    (k > 2 ? p[3] : "nan") } }' "$tmp/all" >"$1"
}
if has fig12:; then
    chosen "$tmp/12" "fig12:B=B=1 fig12:B+broadcast=+broadcast=1 fig12:B+batching=+batching=1 \
fig12:combined=Combined=0.567 fig12:combined+broadcast=C.~+broadcast=0.567 \
fig12:combined+batching=C.~+batching fig12:O=MINOS-O=0.493"
    {
        printf 'set title "mean latency of a write, Synch, 100 %% writes"\nset ylabel "B = 1"\n'
        printf 'set style data histograms\nset style histogram clustered gap 1\n'
        printf 'set xtics rotate by -30\n'
        printf 'plot "%s" using 2:xtic(1) ls 2 title "ours", "" using 3 ls 1 title "%s"\n' \
            "$tmp/12" "the paper's text"
    } | picture minos_fig12 2 1 "What each optimisation gives (Fig. 12): the fitted one" 1
fi
if has fig14:; then
    chosen "$tmp/14a" "fig14:persist_100_ns=100~ns fig14:persist_1295_ns=1.3~us \
fig14:persist_10000_ns=10~us fig14:persist_100000_ns=100~us"
    chosen "$tmp/14b" "fig14:zipfian=zipfian=2 fig14:uniform=uniform=2"
    chosen "$tmp/14c" "fig14:records_10=10=2 fig14:records_100=100=2 fig14:records_1000=1~K=2 \
fig14:records_10000=10~K=2 fig14:records_100000=100~K=2"
    {
        printf 'set ylabel "speed-up of a write over B"\nset yrange [0:4.2]\n'
        printf 'set style data histograms\nset style histogram clustered gap 1\n'
        for p in "a=persist latency" "b=keys" "c=records"; do
            printf 'set title "%s"\n' "${p#*=}"
            printf 'plot "%s" using 2:xtic(1) ls 2 title "ours", "" using 3 ls 1 title "%s"\n' \
                "$tmp/14${p%%=*}" "the paper's text"
        done
    } | picture minos_fig14 3 1 "MINOS-O's speed-up (Fig. 14)"
fi
