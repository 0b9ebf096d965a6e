#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_paths.sh NVME_TARGET FOLDER KERNEL: a Linux kernel uses a namespace by two ports, on two
# networks, while it verifies data; each network is cut once, and ANA prefers one port, then the
# other.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme
vm_kernel "$3"
vm_root "nvme-core nvme-tcp" nvme

rm -f disk.img t.conf* $target_log
cat >t.conf <<CONF
listen 127.0.0.1:0
listen 127.0.0.1:0
subsystem $nqn
host $nqn any
namespace $nqn 1 file=disk.img size=64M
CONF
vm_host() { "$target" ctl --socket t.conf.sock "$@"; }
target_listens=2
target_start --config t.conf || exit 1
until [ -S t.conf.sock ]; do sleep 0.1; done
{ target_job; cat <<'JOB'; } >job
ctl() { host "$@" || fail "ctl $*"; }
used() { # PATH: does it do I/O?
    stat=$(cat /sys/block/$1/stat)
    io_goes_on
    [ "$stat" != "$(cat /sys/block/$1/stat)" ]
}
unused() { ! used $1; }
net eth1 10.0.3.15
connect -i 1 -k 5
namespace 1
nvme connect -t tcp -a 10.0.3.2 -s $port_2 -n $nqn -c 1 -l 600 -i 1 -k 5 || fail "connect by port 2"
within 60 test -d /sys/block/nvme0c1n1 || fail "the second controller is no path"
[ "$(ls /dev/nvme*n1)" = $dev ] || fail "two devices"
echo round-robin >/sys/class/nvme-subsystem/nvme-subsys0/iopolicy
io_start $dev
step "both paths"
for p in nvme0c0n1 nvme0c1n1; do
    used $p || used $p || fail "no I/O by $p"
done
i=0
for interface in eth0 eth1; do
    step "$interface is cut"
    ifconfig $interface down
    io_goes_on
    state nvme$i live && fail "the cut is not noticed"
    ifconfig $interface up
    within 120 state nvme$i live || fail "no connection again"
    i=1
done
for port in 0 1; do
    step "port $port is non-optimized, then inaccessible"
    for s in non-optimized inaccessible; do
        ctl ana $nqn 1 $port $s
        within 60 grep -q $s /sys/block/nvme0c${port}n1/ana_state || fail "$s is not noticed"
        io_goes_on
        unused nvme0c${port}n1 || unused nvme0c${port}n1 || unused nvme0c${port}n1 ||
            fail "I/O by a port that is $s"
    done
    ctl ana $nqn 1 $port optimized
    within 60 grep -q '^optimized' /sys/block/nvme0c${port}n1/ana_state || fail "not optimized"
done
used nvme0c1n1 || used nvme0c1n1 || fail "no I/O by the second path again"
io_stop
disconnect
JOB
vm_boot paths -netdev user,id=n1,net=10.0.3.0/24 -device virtio-net-pci,netdev=n1,romfile= \
    <job || exit 1
target_stop && vm_dissect paths.pcap "$target_port"
