#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_programs.sh NAME
#
# A real program on a mount (chosen by kvfs_common.sh): git, build, sqlite, postgres, tar, rsync,
# fio, dbench, stressng or bonnie. Every day for seconds; with SNIC_NIGHTLY for longer. A program
# that is not installed is a visible skip.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
here=$(cd "$(dirname "$0")" && pwd)
source=${KVFS_SOURCE:-$(cd "$here/../../.." && pwd)}
scope() { [ -n "$nightly" ] && echo "$2" || echo "$1"; } # scope EVERYDAY NIGHTLY
need() { command -v "$1" >/dev/null || skip "no $1 (package $2)"; }
drop() { sync; echo 3 >/proc/sys/vm/drop_caches 2>/dev/null; } # so that bytes come from the store
remount() {
    kvfs_unmount
    kvfs_check
    kvfs_again
}

# A tree of sources to work with: this project's, without what was built and git's own.
sources() { tar -C "$source" --exclude=./build --exclude=./.git -cf - .; }
sums() { (cd "$1" && find . -type f ! -path './.git/*' -print0 | sort -z | xargs -0 sha256sum); }
# Everything but contents: types, modes, owners, times, targets, links.
listing() {
    (cd "$1" && find . \( -type d -printf '%P %y %m %U %G %T@\n' \) -o \
        \( -type l -printf '%P %y %U %G %T@ %s %n %l\n' \) -o -printf '%P %y %m %U %G %T@ %s %n\n' |
        LC_ALL=C sort)
}

# ---- git ----

program_git() {
    need git git
    kvfs_open
    [ -e "$source/.git" ] || skip "the sources are not a git repository"
    export GIT_CONFIG_GLOBAL="$work/gitconfig" GIT_CONFIG_NOSYSTEM=1
    git config --global safe.directory '*'
    git config --global user.name t && git config --global user.email t@localhost
    git clone -q --no-hardlinks "$source" "$mnt/clone" || fail "clone"
    git -C "$mnt/clone" fsck --full --strict >"$work/out" 2>&1 || fail "fsck: $(cat "$work/out")"
    cd "$mnt/clone" || exit 1
    for i in $(seq "$(scope 8 60)"); do
        git checkout -q -b "b$i" "HEAD~$i" 2>/dev/null || git checkout -q -b "b$i" ||
            fail "checkout"
        echo "$i" >"file$i" && git add "file$i" && git commit -q -m "$i" || fail "commit $i"
        git stash list >/dev/null && git rebase -q - >/dev/null 2>&1 || git rebase --abort
    done
    git repack -q -a -d && git gc -q --prune=now || fail "gc"
    [ -z "$(git status --porcelain)" ] || fail "status: $(git status --porcelain | head -n 5)"
    cd / || exit 1
    remount
    git -C "$mnt/clone" fsck --full >"$work/out" 2>&1 || fail "fsck: $(cat "$work/out")"
    git clone -q "$mnt/clone" "$work/back" || fail "clone back"
    [ "$(git -C "$work/back" rev-parse HEAD)" = "$(git -C "$mnt/clone" rev-parse HEAD)" ] ||
        fail "another commit came back"
    kvfs_close
}

# ---- This project, built and tested on the mount ----

program_build() {
    need cmake cmake
    kvfs_open
    mkdir "$mnt/src" && sources | tar -C "$mnt/src" -xf - || fail "unpack"
    set -- -DSNIC_BUILD_EXAMPLES=OFF -DSNIC_BUILD_BENCH=OFF -DSNIC_BUILD_FUZZ=OFF
    [ -n "$nightly" ] || set -- "$@" -DSNIC_MODULES=base
    {
        cmake -S "$mnt/src" -B "$mnt/build" "$@" && cmake --build "$mnt/build" -j "$(nproc)"
    } >"$work/out" 2>&1 || fail "build: $(tail -n 20 "$work/out")"
    # Simulations that keep the processor busy for hours test nothing of the file system.
    (cd "$mnt/build" && env -u SNIC_NIGHTLY ctest -j "$(nproc)" \
        -LE 'rooms|tidy|single|install|kvfs_mount|nightly|slow') >"$work/out" 2>&1 ||
        fail "tests: $(tail -n 20 "$work/out")"
    tail -n 3 "$work/out"
    { cmake --build "$mnt/build" -j "$(nproc)" >"$work/out" 2>&1; } || fail "second build"
    grep -q 'Building C' "$work/out" && fail "a second build compiles again: times are wrong"
    kvfs_close
}

# ---- SQLite ----

program_sqlite() {
    need sqlite3 sqlite3
    need python3 python3
    for journal in wal delete truncate; do
        step "journal $journal: writers together, a killed writer, a killed mount"
        kvfs_open
        python3 "$here/kvfs_sqlite.py" "$mnt" $journal writers "$(scope 4 8)" "$(scope 40 400)" ||
            fail "writers"
        python3 "$here/kvfs_sqlite.py" "$mnt" $journal killed "$(scope 3 20)" || fail "killed"
        remount
        python3 "$here/kvfs_sqlite.py" "$mnt" $journal check - || fail "after a remount"
        for i in $(seq "$(scope 2 10)"); do
            case $store in mem | dir) break ;; esac # nothing outlives the mount
            : >"$work/acks"
            python3 "$here/kvfs_sqlite.py" "$mnt" $journal write "$work/acks" >"$work/out" 2>&1 &
            pids=$!
            # Once it is at work there: a writer that comes after the kill finds a plain folder, and
            # never ends.
            until [ -s "$work/acks" ]; do
                kill -0 "$pids" 2>/dev/null || fail "no writer: $(cat "$work/out")"
                sleep 0.1
            done
            sleep 1
            kvfs_kill
            # For SQLite a lock that fails with ENOTCONN is busy: it would retry for an hour.
            kill -9 "$pids" 2>/dev/null
            wait "$pids" 2>/dev/null
            pids=
            kvfs_again
            python3 "$here/kvfs_sqlite.py" "$mnt" $journal check "$work/acks" ||
                fail "after the mount was killed, round $i"
        done
        kvfs_close
        kvfs_forget
    done
}

# ---- PostgreSQL ----

program_postgres() {
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$bin" ] && [ -x "$bin/initdb" ] || skip "no initdb (package postgresql)"
    id postgres >/dev/null 2>&1 || skip "no user postgres"
    kvfs_open
    mkdir "$mnt/pg" "$work/run" && chown postgres: "$mnt/pg" "$work/run"
    pg() { runuser -u postgres -- env LC_ALL=C PGHOST="$work/run" PGDATABASE=postgres "$@"; }
    pg_start() {
        pg "$bin/pg_ctl" -D "$mnt/pg/data" -l "$mnt/pg/log" -w -t 900 start >"$work/out" 2>&1 ||
            fail "server: $(cat "$work/out" "$mnt/pg/log" | tail -n 20)"
        pids=$(head -n 1 "$mnt/pg/data/postmaster.pid")
    }
    pg_stop() {
        pg "$bin/pg_ctl" -D "$mnt/pg/data" -m "$1" -w stop >"$work/out" 2>&1
        pids=
    }
    pg "$bin/initdb" -D "$mnt/pg/data" -A trust -k >"$work/out" 2>&1 ||
        fail "initdb: $(cat "$work/out")"
    printf "listen_addresses = ''\nunix_socket_directories = '%s'\nshared_buffers = 16MB\n" \
        "$work/run" >>"$mnt/pg/data/postgresql.conf"
    pg_start
    pg "$bin/pgbench" -q -i -s "$(scope 1 10)" >"$work/out" 2>&1 ||
        fail "pgbench -i: $(cat "$work/out")"
    pg "$bin/pgbench" -n -c 4 -j 2 -T "$(scope 4 60)" >"$work/out" 2>&1 ||
        fail "pgbench: $(cat "$work/out")"
    grep -E 'tps|failed' "$work/out"
    balance="select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from
        pgbench_branches) and (select sum(delta) from pgbench_history) = (select sum(tbalance) from
        pgbench_tellers)"
    step "the server is stopped at once and recovers"
    pg "$bin/pgbench" -n -c 4 -T 60 >"$work/out2" 2>&1 &
    bench=$!
    sleep "$(scope 2 10)"
    pg_stop immediate
    wait "$bench"
    remount
    pg_start
    [ "$(pg "$bin/psql" -Atc "$balance")" = t ] || fail "the sums differ after recovery"
    if pg "$bin/psql" -Atqc 'create extension amcheck' 2>/dev/null; then
        pg "$bin/pg_amcheck" postgres >"$work/out" 2>&1 || fail "amcheck: $(cat "$work/out")"
    fi
    pg_stop fast
    pg "$bin/pg_checksums" -D "$mnt/pg/data" >"$work/out" 2>&1 ||
        fail "checksums: $(cat "$work/out")"
    grep -E '^(Bad|Blocks)' "$work/out"
    kvfs_close
}

# ---- Round trips ----

# What a tree can hold besides files of sources.
odd_tree() {
    sources | tar -C "$1" -xf -
    ln -s ../nowhere "$1/dangling"
    ln "$1/CMakeLists.txt" "$1/hard link"
    mkfifo "$1/fifo"
    mknod "$1/null" c 1 3
    truncate -s 100M "$1/sparse"
    printf end >>"$1/sparse"
    touch -d '1969-12-31 23:59:58.123456789' "$1/old"
    touch -d '2200-02-03 04:05:06.7' "$1/late"
    mkdir "$1/sticky" && chmod 3777 "$1/sticky"
    printf x >"$1/$(printf 'name with \n and \001\377')"
    chown 12345:54321 "$1/old" && chmod 6751 "$1/old"
    setfattr -n user.kept -v yes "$1/late" 2>/dev/null
    head -c 20000000 /dev/urandom >"$1/random"
}

round_trip() { # round_trip NAME: pack() and unpack() are there
    kvfs_open
    mkdir "$work/a" "$mnt/b" "$work/c"
    odd_tree "$work/a"
    there || fail "$1 to the mount"
    drop
    [ "$store" = mem ] || remount
    sums "$work/a" >"$work/sums" && sums "$mnt/b" | diff -a "$work/sums" - >"$work/out" ||
        fail "bytes differ: $(head -n 5 "$work/out")"
    listing "$work/a" >"$work/list" && listing "$mnt/b" | diff -a "$work/list" - >"$work/out" ||
        fail "attributes differ: $(head -n 5 "$work/out")"
    back || fail "$1 back"
    sums "$work/c" | diff -a "$work/sums" - >"$work/out" ||
        fail "bytes differ: $(head -n 5 "$work/out")"
    listing "$work/c" | diff -a "$work/list" - >"$work/out" ||
        fail "attributes differ: $(head -n 5 "$work/out")"
    [ "$(getfattr --only-values -n user.kept "$work/c/late" 2>/dev/null)" = "$(getfattr \
        --only-values -n user.kept "$work/a/late" 2>/dev/null)" ] || fail "an attribute differs"
    [ "$(du -s "$mnt/b/sparse" | cut -f 1)" -lt 9000 ] || fail "the sparse file is not sparse"
    rm -rf "${mnt:?}/b" || fail "rm"
    kvfs_close
}

program_tar() {
    need tar tar
    copy() {
        tar -C "$1" --xattrs -Scf - . 2>>"$work/out" |
            tar -C "$2" --xattrs --xattrs-include='*' --warning=no-timestamp -pxf -
    }
    there() { copy "$work/a" "$mnt/b"; }
    back() { copy "$mnt/b" "$work/c"; }
    round_trip tar
}

program_rsync() {
    need rsync rsync
    there() {
        rsync -@-1 -aHAXS "$work/a/" "$mnt/b/" && printf changed >>"$work/a/random" &&
            rm "$work/a/README.md" &&
            rsync -@-1 -aHAXS --delete --inplace --no-S "$work/a/" "$mnt/b/" &&
            [ -z "$(rsync -@-1 -aHAXSnci --delete "$work/a/" "$mnt/b/")" ]
    }
    back() { rsync -@-1 -aHAXS "$mnt/b/" "$work/c/"; }
    round_trip rsync
}

# ---- Loads that verify what they wrote ----

program_fio() {
    need fio fio
    kvfs_open
    size=$(scope 24m 512m)
    [ "$store" != rados ] || size=$(scope 24m 96m) # one OSD, and an fsync every 200 writes
    run=0
    for job in "psync 0 randrw 4k" "psync 0 randwrite 8k" "libaio 1 randrw 8k" "libaio 1 write 1m" \
        "mmap 0 randwrite 4k" "psync 1 randwrite 16k" "psync 0 write 13k" "mmap 0 randrw 12k"; do
        # shellcheck disable=SC2086
        set -- $job
        run=$((run + 1))
        fio --name=v$run --directory="$mnt" --ioengine="$1" --direct="$2" --rw="$3" --bs="$4" \
            --size="$size" --numjobs=2 --iodepth=16 --verify=crc32c --verify_fatal=1 \
            --verify_state_save=0 \
            --do_verify=1 --verify_backlog=512 --fsync=200 --group_reporting --randseed="$run" \
            --minimal >"$work/out" 2>&1 || fail "fio $job: $(tail -n 5 "$work/out")"
        rm -f "$mnt"/v$run.*
    done
    fio --name=kept --directory="$mnt" --rw=randwrite --bs=8k --size="$size" --verify=crc32c \
        --do_verify=0 --verify_state_save=0 --fallocate=none \
        --minimal >"$work/out" 2>&1 || fail "fio: $(cat "$work/out")"
    [ "$store" = mem ] || remount
    drop
    fio --name=kept --directory="$mnt" --rw=randwrite --bs=8k --size="$size" --verify=crc32c \
        --verify_only --verify_state_save=0 \
        --minimal >"$work/out" 2>&1 || fail "after a remount: $(cat "$work/out")"
    kvfs_close
}

program_dbench() {
    need dbench dbench
    kvfs_open
    load=$(ls /usr/share/dbench/client.txt /usr/share/doc/dbench/client.txt 2>/dev/null |
        head -n 1)
    dbench -D "$mnt" -t "$(scope 5 120)" ${load:+-c "$load"} "$(scope 4 16)" >"$work/out" 2>&1 ||
        fail "dbench: $(tail -n 5 "$work/out")"
    grep -E '^Throughput' "$work/out" || fail "dbench: $(tail -n 5 "$work/out")"
    grep -iE 'failed|error' "$work/out" | grep -v semaphore && fail "dbench met errors"
    kvfs_close
}

# Left out of stress-ng's class: those about other file systems (binderfs, bind-mount, dev-shm,
# eventfd, procfs, ramfs, sysfs, tmpfs), what no FUSE file system has (chattr, fanotify, fiemap,
# handle, inode-flags, verity, quota, swap), chroot, which leaves the mount, and io-uring and aio,
# which are about the kernel's queues.
program_stressng() {
    need stress-ng stress-ng
    kvfs_open
    known=$(stress-ng --stressors 2>/dev/null)
    batch= n=0
    for s in access acl chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate \
        fcntl file-ioctl filename flock fpunch fsize fstat getdent hdd inotify io iomix lease link \
        locka lockf lockofd metamix mknod mmapfixed open rename seal seek sendfile splice symlink \
        sync-file touch unlink utime xattr end; do
        case " $known " in *" $s "*) batch="$batch --$s 1" n=$((n + 1)) ;; esac
        case $s in
        copy-file) batch="$batch --copy-file-bytes 128m" ;;
        fallocate | hdd | iomix | sync-file) batch="$batch --$s-bytes 8m" ;;
        seek) batch="$batch --seek-size 8m" ;;
        sendfile) batch="$batch --sendfile-size 4m" ;;
        esac
        [ $n -ge 6 ] || [ $s = end ] || continue
        # shellcheck disable=SC2086
        timeout 600 stress-ng --temp-path "$mnt" --verify --oomable $batch \
            --timeout "$(scope 1 20)" >"$work/out" 2>&1
        rc=$?
        grep -E 'not implemented|skipp' "$work/out" | sed 's/^/  /'
        case $rc in
        0 | 3 | 4) ;; # 3, 4: one of them has not been built, or lacks what it needs
        *)
            grep -E 'fail|error|unsuccessful|range' "$work/out" | head -n 8
            fail "stress-ng$batch ended with $rc"
            ;;
        esac
        grep -E 'fail:' "$work/out" && fail "stress-ng$batch found defects"
        [ "$store" = dir ] || kvfs_mounted || fail "stress-ng$batch: the mount is gone"
        rm -rf "$mnt"/tmp-stress*
        batch= n=0
    done
    kvfs_close
}

program_bonnie() {
    need bonnie++ bonnie++
    kvfs_open
    mkdir "$mnt/b" && chmod 777 "$mnt/b"
    # Without its writes of single bytes (-f): minutes on any FUSE file system.
    bonnie++ -f -u root -d "$mnt/b" -s "$(scope 32 1024)" -r "$(scope 16 512)" \
        -n "$(scope 2:8192:1:4 16:65536:1:32)" -q >"$work/out" 2>"$work/err" ||
        fail "bonnie++: $(tail -n 5 "$work/err")"
    [ -s "$work/out" ] || fail "bonnie++ printed nothing: $(tail -n 5 "$work/err")"
    [ -z "$(ls -A "$mnt/b")" ] || fail "files are left"
    kvfs_close
}

case ${1:-} in
git | build | sqlite | postgres | tar | rsync | fio | dbench | stressng | bonnie) program_"$1" ;;
*) sed -n '3,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
step "$1: unmounted, and found in order"
