#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# plot.sh ROWS [FOLDER [MODULE...]]
#
# Turns saved rows (the output of bench/run.sh; - is standard input) into one SVG picture per
# module and unit in FOLDER (default: here): a group of bars per case, a bar per who and threads.
# The figures of bench/dds.sh (module dds), of bench_gimbal and of bench_minos get a picture each
# (plot_dds.sh, plot_gimbal.sh, plot_minos.sh). MODULE: only these.
# The README's pictures: sh bench/plot.sh bench/pictures/dds.rows bench/pictures dds
set -eu
usage() { sed -n '3,10s/^# \{0,1\}//p' "$0"; exit "$1"; }
for a; do
    case $a in
    --help | -h) usage 0 ;;
    -?*) usage 2 ;;
    esac
done
[ $# -ge 1 ] || usage 2
rows=$1 folder=${2:-.}
shift
[ $# -eq 0 ] || shift
only=" $* "
[ "$rows" = - ] || [ -r "$rows" ] || { echo "plot: cannot read $rows" >&2; exit 1; }
. "$(dirname "$0")/../tests/packages.sh"
packages gnuplot:gnuplot-nox || exit 1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$folder"
[ "$rows" != - ] || { cat >"$tmp/rows"; rows=$tmp/rows; }
grep '^row ' "$rows" >"$tmp/all" || { echo "no rows in $1" >&2; exit 1; }
machine=$(sed -n 's/^machine //p' "$rows" | head -n 1 | tr -d "'\"\\\\")

case "$only" in "  " | *" dds "*) sh "$(dirname "$0")/plot_dds.sh" "$rows" "$folder" ;; esac
case "$only" in "  " | *" gimbal "*) sh "$(dirname "$0")/plot_gimbal.sh" "$rows" "$folder" ;; esac
case "$only" in "  " | *" minos "*) sh "$(dirname "$0")/plot_minos.sh" "$rows" "$folder" ;; esac

# row MODULE CASE WHO THREADS VALUE UNIT
awk '$2 !~ /^(dds|gimbal|minos)$/ && $3 != "noise" { print $2, $7 }' "$tmp/all" | sort -u |
    while read -r module unit; do
    case "$only" in "  " | *" $module "*) ;; *) continue ;; esac
    awk -v m="$module" -v u="$unit" '
        $2 == m && $7 == u && $3 != "noise" {
            s = $4 ($5 == "-" || $5 == 1 ? "" : " x" $5)
            if (!($3 in seen)) { seen[$3] = 1; cases[++nc] = $3 }
            if (!(s in known)) { known[s] = 1; series[++ns] = s }
            v[$3, s] = $6
        }
        END {
            printf "case"
            for (j = 1; j <= ns; j++) printf "\t%s", series[j]
            print ""
            for (i = 1; i <= nc; i++) {
                printf "%s", cases[i]
                for (j = 1; j <= ns; j++)
                    printf "\t%s", (cases[i], series[j]) in v ? v[cases[i], series[j]] : "nan"
                print ""
            }
        }' "$tmp/all" >"$tmp/table"
    name=$(printf '%s_%s' "$module" "$unit" | tr -c 'A-Za-z0-9_\n' '_')
    columns=$(head -n 1 "$tmp/table" | awk -F'\t' '{ print NF }')
    cases=$(wc -l <"$tmp/table")
    gnuplot <<PLOT
set terminal svg size $((300 + 90 * cases)),480 font "sans,11" background "white"
set output "$folder/$name.svg"
set datafile separator "\t"
set datafile missing "nan"
set title "$module, $unit\n$machine" noenhanced
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.85 border -1
set boxwidth 0.95
set yrange [0:*]
set ylabel "$unit" noenhanced
set xtics rotate by -30 noenhanced
set key outside right top noenhanced
set grid ytics
plot for [i=2:$columns] "$tmp/table" using i:xtic(1) title columnheader(i)
PLOT
    echo "$folder/$name.svg"
done
