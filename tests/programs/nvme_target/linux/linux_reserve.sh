#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_reserve.sh NVME_TARGET FOLDER KERNEL: two hosts and reservations with PTPL, with a Linux
# kernel's initiator: the target is killed and started again, and the reservation still holds.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme python3
vm_kernel "$3"
vm_root "nvme-core nvme-tcp" nvme
# Reservation conflicts are what the test wants.
vm_provoked='sc 0x83'

rm -f disk.img t.conf* $target_log
cat >t.conf <<CONF
listen 127.0.0.1:$(target_free_port)
subsystem $nqn
host $nqn any
namespace $nqn 1 file=disk.img size=64M
CONF
vm_host() { target_kill && target_start --config t.conf; }
target_start --config t.conf || exit 1
{ echo core=multipath=0; target_job; cat <<'JOB'; } >job
uuid=11111111-2222-3333-4444-55555555555
for i in 1 2; do
    connect_as $uuid$i
done
namespace 1 nvme0
a=$dev
namespace 1 nvme1
b=$dev
dd if=/dev/urandom of=/tmp/data bs=4k count=1 2>/dev/null
writes() { dd if=/tmp/data of=$1 bs=4k oflag=direct 2>/dev/null; }
reads() { dd if=$1 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; }
only() { # HOST OTHER: HOST may write and OTHER may not, both may read
    writes $1 || fail "$1 does not write"
    writes $2 && fail "$2 writes"
    reads $1 && reads $2 || fail "a host does not read"
}
step "the first host reserves"
nvme resv-register $a -n 1 -k 0xa -r 0 -p 3 >/dev/null || fail register
nvme resv-acquire $a -n 1 -c 0xa -t 1 -a 0 >/dev/null || fail acquire
only $a $b
nvme resv-acquire $b -n 1 -c 0xb -t 1 -a 0 >/dev/null 2>&1 && fail "the second host acquires"
step "the target is killed"
host kill || fail "the target does not start again"
both_live() { state nvme0 live && state nvme1 live; }
writes $a || fail "no write behind the kill"
within 120 both_live || fail "no connection again"
only $a $b
nvme resv-report $b -n 1 -e -o json >/tmp/report || fail report
grep -q '"ptpls"[^0-9]*1' /tmp/report || { cat /tmp/report; fail "PTPL is not set"; }
step "the second host preempts"
nvme resv-register $b -n 1 -k 0xb -r 0 -p 0 >/dev/null || fail "second register"
nvme resv-acquire $b -n 1 -c 0xb -p 0xa -t 1 -a 1 >/dev/null || fail preempt
only $b $a
step "release and clear"
nvme resv-release $b -n 1 -c 0xb -t 1 -a 0 >/dev/null || fail release
writes $a && writes $b || fail "a host does not write behind the release"
nvme resv-release $b -n 1 -c 0xb -t 1 -a 1 >/dev/null || fail clear
host kill || fail "the target does not start again"
writes $a && writes $b || fail "a host does not write behind the second kill"
disconnect
JOB
vm_boot reserve <job || exit 1
target_stop && vm_dissect reserve.pcap "$target_port"
