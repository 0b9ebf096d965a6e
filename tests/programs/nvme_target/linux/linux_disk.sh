#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_disk.sh NVME_TARGET FOLDER KERNEL [OPTION...]: the initiator of a Linux kernel uses
# NVME_TARGET OPTION...: discovery, digests, ext4 with fsck, Flush, Write Zeroes, Compare,
# Deallocate, a reset, a target that is killed and started again under verified writes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1 folder=$2 kernel=$3
shift 3
options=$*
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$folder" nvme mkfs.ext4 e2fsck python3
vm_kernel "$kernel"
vm_cpus=2
vm_root "nvme-core nvme-tcp ext4" "nvme mkfs.ext4 e2fsck"

start() { # PORT
    # shellcheck disable=SC2086
    target_start $options --listen "127.0.0.1:$1" --subsystem $nqn --host any \
        --namespace disk.img --size 256M --memory 16M --cached
}
vm_host() {
    case $1 in kill) target_kill && start "$target_port" && killed=1 ;; esac
}

rm -f disk.img $target_log
killed=
start "$(target_free_port)" || exit 1
{ target_job; cat <<'JOB'; } >job
step discover
discover
step "connect with digests, two queues"
connect -i 2 -Q 64 -g -G
namespace 2
d=$dev
namespace 1
nvme smart-log /dev/nvme0 >/dev/null || fail smart-log
nvme error-log /dev/nvme0 >/dev/null || fail error-log
nvme ana-log /dev/nvme0 >/dev/null || fail ana-log
nvme ns-descs /dev/nvme0 -n 1 | grep -q uuid || fail ns-descs

step "ext4 and fsck"
load ext4 || fail "no module ext4"
mkfs.ext4 -q -b 4096 $dev 65536 || fail mkfs
mount -t ext4 -o discard $dev /mnt || fail mount
for i in $(seq 40); do dd if=/dev/urandom of=/mnt/f$i bs=4k count=$i 2>/dev/null; done
cp -r /bin /mnt/
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums
rm /mnt/f1*
sync
umount /mnt || fail umount
e2fsck -fn $dev >/tmp/log 2>&1 || { cat /tmp/log; fail fsck; }
echo 3 >/proc/sys/vm/drop_caches
mount -t ext4 $dev /mnt || fail mount
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums2
grep -v ' ./f1' /tmp/sums | cmp - /tmp/sums2 || fail "files differ"
umount /mnt

step "Write Zeroes, Flush, Compare, Deallocate on the second namespace"
dd if=/dev/urandom of=/tmp/data bs=4k count=64 2>/dev/null
dd if=/tmp/data of=$d bs=256k oflag=direct 2>/dev/null || fail write
same $d /tmp/data || fail "data differ"
nvme write-zeroes $d -n 2 -s 8 -c 7 || fail write-zeroes
dd if=$d bs=4k skip=8 count=8 iflag=direct 2>/dev/null | tr -d '\0' | grep -q . && fail "not zero"
nvme flush $d -n 2 >/dev/null || fail flush
dd if=/tmp/data of=/tmp/one bs=4k count=1 2>/dev/null
nvme compare $d -s 0 -c 0 -z 4096 -d /tmp/one >/dev/null || fail compare
nvme compare $d -s 1 -c 0 -z 4096 -d /tmp/one >/dev/null 2>&1 && fail "compare of others"
nvme dsm $d -n 2 -d -s 16 -b 16 >/dev/null || fail dsm

step "reset, and disconnect and connect without digests"
nvme reset /dev/nvme0 || fail reset
same $d /tmp/one 4k 1 || fail "read after reset"
disconnect
connect -i 1 -Q 32
namespace 2
d=$dev

step "writes while the target is killed"
(for i in $(seq 32); do
    dd if=/tmp/data of=$d bs=64k seek=$((i * 4)) oflag=direct 2>/dev/null || echo bad >/tmp/bad
 done; echo done >/tmp/done) &
sleep 0.3
host kill || fail "the target does not start again"
within 120 test -e /tmp/done || fail "writes did not end"
[ ! -e /tmp/bad ] || fail "a write failed"
for i in 32; do
    dd if=$d bs=64k skip=$((i * 4)) count=4 iflag=direct 2>/dev/null | cmp - /tmp/data ||
        fail "data differ after the kill"
done
disconnect
JOB
vm_boot disk <job || exit 1
[ -n "$killed" ] || { echo "FAILED: it did not come to the kill"; exit 1; }
target_stop && vm_dissect disk.pcap "$target_port"
