#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_programs.sh NVME_TARGET FOLDER KERNEL: real programs on a namespace of NVME_TARGET: XFS with
# xfs_repair, SQLite (a database that is compared with one in memory), fio's verified writes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme mkfs.xfs xfs_repair sqlite3 fio
vm_kernel "$3"
vm_root "nvme-core nvme-tcp xfs" "nvme mkfs.xfs xfs_repair sqlite3 fio"

rm -f disk.img $target_log
target_start --listen 127.0.0.1:0 --subsystem $nqn --host any --namespace disk.img --size 512M \
    --loops 2 || exit 1
{ target_job; cat <<'JOB'; } >job
connect -i 2 -g
namespace 1
load xfs || fail "no module xfs"
step "XFS"
mkfs.xfs -q -f $dev || fail mkfs.xfs
mount -t xfs -o discard $dev /mnt || fail mount
cp -r /bin /modules /mnt/ || fail cp
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums
rm -r /mnt/modules
sync
umount /mnt || fail umount
xfs_repair -n $dev >/tmp/log 2>&1 || { cat /tmp/log; fail xfs_repair; }
echo 3 >/proc/sys/vm/drop_caches
mount -t xfs $dev /mnt || fail mount
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums2
grep -v ' ./modules' /tmp/sums | cmp - /tmp/sums2 || fail "files differ"

step "SQLite"
cat >/tmp/sql <<'SQL'
CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
  INSERT INTO t SELECT i, hex(i * 7919) || printf('%.200c', 'x') FROM n;
CREATE INDEX w ON t(v);
SQL
for i in $(seq 20); do
    echo "UPDATE t SET v = v || $i WHERE k % 20 = $i; DELETE FROM t WHERE k = $((i * 11));"
done >>/tmp/sql
for db in /mnt/db /tmp/db; do
    sqlite3 $db "PRAGMA journal_mode=WAL" >/dev/null && sqlite3 $db </tmp/sql || fail "SQLite: $db"
done
umount /mnt || fail umount
echo 3 >/proc/sys/vm/drop_caches
mount -t xfs $dev /mnt || fail mount
[ "$(sqlite3 /mnt/db 'PRAGMA integrity_check')" = ok ] || fail integrity_check
for db in /mnt/db /tmp/db; do sqlite3 $db .dump | md5sum; done | uniq | wc -l | grep -qx 1 ||
    fail "the databases differ"
umount /mnt

step "fio with verification"
fio --name=v --filename=$dev --ioengine=libaio --direct=1 --rw=randwrite --bsrange=4k-256k \
    --blockalign=4k --size=16m --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 \
    --verify_backlog=64 --fsync=50 --thread >/tmp/log 2>&1 || { cat /tmp/log; fail fio; }
grep -q 'err= 0' /tmp/log || { cat /tmp/log; fail fio; }
disconnect
JOB
vm_boot programs <job || exit 1
target_stop && vm_dissect programs.pcap "$target_port"
