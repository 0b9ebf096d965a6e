#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# sqlite_vfs.sh EXTENSION: the stock sqlite3 shell with its database in an image, in each kind of
# journal: what it wrote is there in the next process, a second process is kept out, a full image
# and too many files are SQLITE_FULL and lose nothing, names are of a limited length.
set -u
command -v sqlite3 >/dev/null || { echo "skip: no sqlite3"; exit 77; }
ext=${1%.so}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
image=$dir/db.img

fail() {
    echo "FAILED: $*"
    cat "$dir/out"
    exit 1
}

# sql DATABASE STATEMENT...: what the shell printed is in $dir/out, and the log of SQLite.
sql() {
    name=$1
    shift
    timeout 120 sqlite3 -bail -batch -cmd '.log stderr' -cmd ".load $ext" \
        -cmd ".open file:$name?vfs=snicstore" :memory: "$@" >"$dir/out" 2>&1
}

# expect NAME TEXT: the last line of the output.
expect() {
    [ "$(tail -n 1 "$dir/out")" = "$2" ] || fail "$1: not '$2'"
}

# refused NAME DATABASE: the shell reports it and continues without a database.
refused() {
    sql "$2" "select 'continued'"
    grep -q 'unable to open database' "$dir/out" || fail "$1 was taken"
}

truncate -s 24M "$image"
sql "$image/first.db" 'select 1'
if grep -q 'cannot set up io_uring' "$dir/out"; then
    cat "$dir/out"
    exit 77
fi
expect "an empty file becomes an image" 1

for mode in delete truncate persist wal memory; do
    db=$image/$mode.db
    sql "$db" "pragma journal_mode=$mode; create table t(a integer primary key, b);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
        insert into t select i, hex(randomblob(100)) from n;
        begin; delete from t where a % 3 = 0; rollback;
        update t set b = 'changed' where a = 7;
        select count(*) from t" || fail "$mode: create and insert"
    expect "$mode: rows" 500
    sql "$db" "pragma journal_mode=$mode; vacuum; pragma integrity_check" ||
        fail "$mode: vacuum"
    expect "$mode: integrity" ok
    sql "$db" "select count(*) || b from t where a = 7" || fail "$mode: the next process"
    expect "$mode: what was committed" 1changed
    sql "$db" .dump || fail "$mode: .dump"
    [ "$(grep -c '^INSERT INTO t' "$dir/out")" = 500 ] || fail "$mode: rows of .dump"
done

# A folder of the image, and two databases in one transaction (a super-journal).
sql "$image/shop/a.db" "create table t(a); attach 'file:$image/shop/b.db?vfs=snicstore' as b;
    create table b.u(a); begin; insert into t values(1); insert into u values(2); commit;
    select t.a + u.a from t, u" || fail "attach"
expect "attach" 3

# The longest name, and one more.
long=$(printf %0243d 0)
sql "$image/$long" "create table t(a); insert into t values(5); select a from t" || fail "long name"
expect "the longest name" 5
refused "a name of 244 bytes" "$image/${long}0"
grep -q 'cannot open .*: name too long' "$dir/out" || fail "no message about the name"
refused "a path of more than 2047 bytes" "$image/$(printf %02100d 0)"
grep -q 'cannot open .*: name too long' "$dir/out" || fail "no message about the path"
refused "a folder in a folder" "$image/a/b/c.db"

# A full image: the statement fails with SQLITE_FULL, and what was committed stays.
sql "$image/full.db" "create table t(a); insert into t values('kept')" || fail "full: begin"
! sql "$image/full.db" "with recursive n(i) as (select 1 union all select i + 1 from n where
    i < 60000) insert into t select hex(randomblob(400)) from n" || fail "an image held too much"
grep -q 'database or disk is full' "$dir/out" || fail "not SQLITE_FULL"
grep -q 'no space or no free file in the image' "$dir/out" || fail "the log has no cause"
sql "$image/full.db" "pragma integrity_check; select count(*) || a from t" || fail "after full"
expect "what was committed before the image was full" 1kept
sql "$image/wal.db" "pragma integrity_check" || fail "another database of the full image"
expect "another database of the full image" ok

# A path without an image is the default VFS's; a file that is no image is left as it is.
sql "$dir/plain.db" "create table t(a); insert into t values(9); select a from t" || fail "plain"
expect "plain" 9
[ -s "$dir/plain.db" ] || fail "no plain file"
cp "$0" "$dir/script"
refused "a script" "$dir/script/a.db"
grep -q 'neither an image' "$dir/out" || fail "no message about a file that is no image"
cmp "$0" "$dir/script" || fail "the file that is no image was changed"

# An image is opened by one process at a time.
mkfifo "$dir/in"
sqlite3 -batch -cmd ".load $ext" -cmd ".open file:$image/wal.db?vfs=snicstore" \
    <"$dir/in" >"$dir/first" 2>&1 &
first=$!
exec 3>"$dir/in"
echo "select count(*) from sqlite_master;" >&3
for _ in $(seq 300); do [ -s "$dir/first" ] && break; sleep 0.1; done
[ -s "$dir/first" ] || fail "the first process did not open the image"
refused "an image that another process has" "$image/wal.db"
grep -q 'in use by another process' "$dir/out" || fail "no message about the other process"
exec 3>&-
wait "$first" || fail "the process that had the image"

# The lock folder may be a link to a folder with other files: a mount removes its own files only.
rm -rf "$image.locks"
mkdir "$dir/shared"
echo kept >"$dir/shared/notes"
: >"$dir/shared/7.lock"
: >"$dir/shared/dnsmasq.lock"
: >"$dir/shared/host-name"
ln -s "$dir/shared" "$image.locks"
sql "$image/wal.db" "pragma integrity_check" || fail "a linked lock folder"
[ -s "$dir/shared/notes" ] && [ -e "$dir/shared/dnsmasq.lock" ] &&
    [ -e "$dir/shared/host-name" ] || fail "a mount removed a file that is not its own"
[ ! -e "$dir/shared/7.lock" ] || fail "a mount left a lock file of the mount before"
echo "sqlite_vfs: all as it should be"
