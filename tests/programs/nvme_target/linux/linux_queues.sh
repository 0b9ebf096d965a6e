#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_queues.sh NVME_TARGET FOLDER KERNEL: what a Linux kernel can choose when it connects, each
# with verified data: queues of each kind, depths, digests of each direction, connect-all; writes in
# their capsules and with R2T.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme python3
vm_kernel "$3"
vm_cpus=2
vm_root "nvme-core nvme-tcp" nvme

rm -f $target_log types
p=$(target_free_port)
target_start --listen "127.0.0.1:$p" --advertise "10.0.2.2:$p" --queues 16 --transfer 512K \
    --memory-per-connection 2M --subsystem $nqn --host any --memory 16M \
    --subsystem $nqn-2 --host any --memory 16M || exit 1
{ target_job; cat <<'JOB'; } >job
dd if=/dev/urandom of=/tmp/data bs=64k count=8 2>/dev/null
verify() { # writes of each size, one after the other and at the same time
    namespace 1
    for size in 8 16 256 512; do
        n=$((64 / size + 1))
        dd if=/tmp/data of=$dev bs=${size}k count=$n oflag=direct 2>/dev/null ||
            fail "write of $size KiB"
    done
    same $dev /tmp/data 512k 1 || fail data
    for i in 0 1 2 3; do
        dd if=/tmp/data of=$dev bs=128k seek=$i skip=$i count=1 oflag=direct,sync 2>/dev/null &
    done
    wait
    same $dev /tmp/data 4k 128 || fail "data side by side"
}
for o in "-i 1 -Q 16 -g" "-i 1 -W 1 -P 1 -G" "-i 2 -W 2 -P 2 -Q 128 -g -G"; do
    step "connect $o"
    connect $o
    verify
    cat /sys/class/nvme/nvme0/queue_count
    disconnect
done
step connect-all
nvme connect-all -t tcp -a 10.0.2.2 -s $port -l 60 || fail connect-all
both() { [ "$(cat /sys/class/nvme/nvme*/subsysnqn | grep -c $nqn)" = 2 ]; }
within 20 both || fail "not both subsystems are connected"
nvme disconnect-all || fail disconnect-all
JOB
vm_boot queues <job || exit 1
target_stop && vm_dissect queues.pcap "$target_port" || exit 1
# Each kind of PDU took part, but for the ones that report errors (2, 3).
for type in 0 1 4 5 6 7 9; do
    [ ! -e types ] || grep -q "^type $type:" types || {
        echo "FAILED: no PDU of type $type"
        exit 1
    }
done
