#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_postgres.sh NVME_TARGET FOLDER KERNEL: PostgreSQL on a namespace of NVME_TARGET, with
# pgbench, while the target is killed and started again; its checksums and tables are checked.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme python3
vm_kernel "$3"
vm_disk postgresql xfsprogs iproute2 fio
vm_cpus=2 vm_seconds=3000
vm_root "nvme-core nvme-tcp ext4 virtio_blk" nvme

rm -f disk.img $target_log
start() { # PORT
    target_start --listen "127.0.0.1:$1" --subsystem $nqn --host any --namespace disk.img --size 1G
}
vm_host() { target_kill && start "$target_port"; }
start "$(target_free_port)" || exit 1
{ target_job; cat <<'JOB'; } >job
load virtio_blk && load ext4 || fail "no modules for the disk"
within 20 test -b /dev/vda || fail "no disk"
mkdir /debian && mount /dev/vda /debian || fail "mount of the disk"
for d in dev proc sys; do mount --bind /$d /debian/$d; done
mount -t tmpfs tmp /debian/tmp && chmod 1777 /debian/tmp
mkdir -p /debian/dev/shm && mount -t tmpfs shm /debian/dev/shm && chmod 1777 /debian/dev/shm
in_debian() { chroot /debian "$@"; }
pg() { in_debian su postgres -c "PATH=\$(echo /usr/lib/postgresql/*/bin):\$PATH; cd /tmp; $*"; }
connect -i 2
namespace 1
in_debian mkfs.ext4 -q $dev || fail mkfs
in_debian mount $dev /mnt && in_debian chown postgres /mnt || fail mount
step initdb
pg "initdb -k -D /mnt/pg >/tmp/log 2>&1" || { cat /debian/tmp/log; fail initdb; }
pg "pg_ctl -w -t 600 -D /mnt/pg -l /tmp/server start >/dev/null" || fail "start of the server"
step "pgbench -i"
pg "pgbench -q -i -s 2 postgres" || fail "pgbench -i"
step "pgbench, and the target is killed"
pg "pgbench -n -c 4 -t 200 postgres >/tmp/bench 2>&1; echo \$? >/tmp/bench.rc" &
within 600 test -s /debian/mnt/pg/postmaster.pid
sleep 2
host kill || fail "the target does not start again"
within 900 test -e /debian/tmp/bench.rc || fail "pgbench does not end"
[ "$(cat /debian/tmp/bench.rc)" = 0 ] || { cat /debian/tmp/bench; fail pgbench; }
grep 'actually processed' /debian/tmp/bench
step "the server is killed and recovers"
pg "pg_ctl -D /mnt/pg -m immediate stop >/dev/null" || fail stop
pg "pg_ctl -w -t 600 -D /mnt/pg -l /tmp/server start >/dev/null" || fail "start after the kill"
sums="SELECT count(*) FROM pgbench_history
    UNION ALL SELECT sum(abalance) - (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts"
[ "$(pg "psql -At -c '$sums' postgres" | tr '\n' ' ')" = "800 0 " ] || fail "the sums are wrong"
pg "pg_ctl -D /mnt/pg -m fast stop >/dev/null" || fail stop
pg "pg_checksums -c -D /mnt/pg" || fail checksums
umount /debian/mnt || fail umount
in_debian e2fsck -fn $dev >/tmp/log 2>&1 || { cat /tmp/log; fail fsck; }
disconnect
JOB
vm_capture=
vm_boot postgres -drive "file=$vm_image,if=virtio,format=raw,snapshot=on" <job || exit 1
target_stop
