#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# programs.sh PREFIX BUILD SOURCE CMAKE: the programs that BUILD has installed to PREFIX run from
# there, each has a man page that groff renders without a warning, and completion for bash;
# SNIC_INSTALL_PROGRAMS=OFF leaves them out.
set -eu
prefix=$1 build=$2 source=$3 cmake=$4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
wrong() { echo "$1"; exit 1; }

for option in SNIC_INSTALL_PROGRAMS SNIC_BUILD_EXAMPLES SNIC_WITH_IO_URING; do
    grep -q "^$option:BOOL=ON" "$build/CMakeCache.txt" || { echo "$option is off"; exit 0; }
done
version=$(PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name snicstore.pc)") \
    pkg-config --modversion snicstore)
programs="ddp_cluster ddp_server director_proxy hcache_sim kv_load kv_server nvme_target page_load
    page_server snic_dump snic_fsck solar_volume tenants"
for p in kvfs_mount kvfs_tool; do # not without the library of a store, or libfuse
    [ ! -e "$build/bin/$p" ] || programs="$programs $p"
done
for p in $programs; do
    [ -x "$prefix/bin/$p" ] || wrong "$p is not installed"
    (cd / && "$prefix/bin/$p" --version) >"$tmp/out" 2>&1 || wrong "$p --version: exit code $?"
    [ "$(cat "$tmp/out")" = "$p (snicstore) $version" ] ||
        wrong "$p --version prints: $(cat "$tmp/out")"
    (cd / && "$prefix/bin/$p" --help) >"$tmp/out" 2>"$tmp/err" || wrong "$p --help: exit code $?"
    grep -q "^Usage: $p " "$tmp/out" || wrong "$p --help has no line 'Usage: $p'"
    ! grep -n '.\{101\}' "$tmp/out" || wrong "$p --help: a line of more than 100 columns"
    [ ! -s "$tmp/err" ] || wrong "$p --help writes to stderr"
    for option in --version --help; do
        grep -q -e "^ *$option " -e "^ *$option\$" "$tmp/out" || wrong "$p --help has no $option"
    done
done
for p in "$prefix"/bin/*; do
    case " $(echo $programs) " in *" ${p##*/} "*) ;; *) wrong "$p is installed, too" ;; esac
done
echo "programs: ok"

if ! grep -q '^SNIC_HELP2MAN:FILEPATH=/' "$build/CMakeCache.txt"; then
    echo "no help2man, no man pages"
elif ! command -v groff >/dev/null; then
    echo "no groff: the man pages are not rendered"
else
    man=$(dirname "$(find "$prefix" -name kv_server.1)")
    for p in $programs solar_volume-server solar_volume-client solar_volume-ctl \
        solar_volume-ctl-serve; do
        [ -s "$man/$p.1" ] || wrong "no man page of $p"
        LC_ALL=C.UTF-8 groff -t -Kutf8 -man -ww -rHY=0 -Tutf8 "$man/$p.1" \
            >"$tmp/out" 2>"$tmp/err" || wrong "groff $p.1: exit code $?"
        [ ! -s "$tmp/err" ] || wrong "$(cat "$tmp/err")"
        [ "$(wc -l <"$tmp/out")" -gt 15 ] || wrong "the man page of $p is empty"
        if command -v man >/dev/null; then
            MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -P cat -l "$man/$p.1" \
                >"$tmp/out" 2>"$tmp/err" || wrong "man -l $p.1: exit code $?"
            [ ! -s "$tmp/err" ] || wrong "$(cat "$tmp/err")"
        fi
    done
    # every option of the program that has most is on its page
    "$prefix/bin/kv_server" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | while read -r option; do
        grep -qF "fB$(printf %s "$option" | sed 's/-/\\-/g')" "$man/kv_server.1" ||
            wrong "$man/kv_server.1 has no $option"
    done
    echo "man pages: ok"
fi

# What bash offers for the last of some words.
if ! command -v bash >/dev/null; then
    echo "no bash: completion is not tried"
else
    for p in $programs; do
        [ -s "$prefix/share/bash-completion/completions/$p" ] || wrong "no completion for $p"
    done
    while IFS=: read -r words want; do
        got=$(PATH="$prefix/bin:$PATH" bash -c '. "$1"; shift
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _snicstore "$1"; echo "${COMPREPLY[*]}"' \
            _ "$prefix/share/bash-completion/completions/kv_server" $words 2>&1)
        [ "$got" = "$want" ] || wrong "completion of '$words': '$got', not '$want'"
    done <<END
kv_server --offl:--offload
kv_server --offload a:all
kv_server --offload = o:on off
kv_server --hash-:--hash-seed
solar_volume c:client ctl
solar_volume ctl serv:serve
solar_volume ctl serve --catalog-:--catalog-size
ddp_cluster --model sy:synch
snic_fsck --li:--list
snic_fsck $prefix/b:$prefix/bin
END
    echo "completion: ok"
fi

# Nothing of the programs is built or installed with the option.
"$cmake" -S "$source" -B "$tmp/off" -DSNIC_INSTALL_PROGRAMS=OFF -DSNIC_BUILD_TESTS=OFF \
    -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_FUZZ=OFF >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
"$cmake" --install "$tmp/off" --prefix "$tmp/none" --component programs >"$tmp/out" 2>&1 ||
    { cat "$tmp/out"; exit 1; }
[ -z "$(find "$tmp/none" ! -type d 2>/dev/null)" ] || wrong "SNIC_INSTALL_PROGRAMS=OFF installs"

# Of the programs those that were built.
"$cmake" -DSNIC_INSTALL_PROGRAMS=ON "$tmp/off" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
mkdir -p "$tmp/off/bin" && echo >"$tmp/off/bin/ddp_server"
"$cmake" --install "$tmp/off" --prefix "$tmp/some" --component programs >"$tmp/out" 2>&1 ||
    { cat "$tmp/out"; wrong "--component programs needs programs that were not built"; }
for folder in bin share/bash-completion/completions; do
    [ "$(ls "$tmp/some/$folder")" = ddp_server ] || wrong "$folder: $(ls "$tmp/some/$folder")"
done
