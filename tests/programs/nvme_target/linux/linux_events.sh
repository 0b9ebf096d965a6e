#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_events.sh NVME_TARGET FOLDER KERNEL: the initiator of a Linux kernel notices what `ctl`
# changes (namespaces added, resized and removed, ANA states) while it verifies data, and survives
# a target and a host that are silent for longer than the keep alive timeout, and a storm of resets.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme
vm_kernel "$3"
vm_root "nvme-core nvme-tcp" nvme

rm -f disk.img more.img t.conf* $target_log
cat >t.conf <<CONF
listen 127.0.0.1:0
subsystem $nqn
host $nqn any
namespace $nqn 1 file=disk.img size=64M
CONF
vm_host() {
    case $1 in
    ctl) shift; "$target" ctl --socket t.conf.sock "$@" ;;
    silent_target) kill -STOP $target_pid; sleep 9; kill -CONT $target_pid ;;
    silent_host) kill -STOP "$(cat events.pid)"; sleep 9; kill -CONT "$(cat events.pid)" ;;
    esac
}
target_start --config t.conf || exit 1
until [ -S t.conf.sock ]; do sleep 0.1; done
{ target_job; cat <<'JOB'; } >job
ctl() { host ctl "$@" || fail "ctl $*"; }
size() { [ "$(cat /sys/block/${dev#/dev/}/size)" = $1 ]; }
gone() { ! namespace_find $1 nvme0; }
ana() { [ "$(cat /sys/block/nvme0c0n1/ana_state)" = $1 ]; }

connect -i 2 -k 5
namespace 1
disk=$dev
step "namespaces added, resized, removed"
ctl namespace add $nqn 7 file=more.img size=16M
namespace 7
size 32768 || fail "size of the new namespace"
ctl namespace resize $nqn 7 32M
within 60 size 65536 || fail "the resize is not noticed"
ctl namespace resize $nqn 1 96M
dev=$disk
within 60 size 196608 || fail "the second resize is not noticed"
ctl namespace remove $nqn 7
within 60 gone 7 || fail "the removal is not noticed"

step "ANA states under I/O"
io_start $disk
for i in 1 2 3; do
    ctl ana $nqn 1 0 inaccessible
    within 60 ana inaccessible || fail "the state inaccessible is not noticed"
    ctl ana $nqn 1 0 non-optimized
    within 60 ana non-optimized || fail "the state non-optimized is not noticed"
    io_goes_on
    ctl ana $nqn 1 0 optimized
    within 60 ana optimized || fail "the state optimized is not noticed"
done
ctl ana $nqn 1 0 changing
sleep 1
ctl ana $nqn 1 0 optimized
io_goes_on

step "a target that is silent for 9 s, the keep alive timeout is 5 s"
host silent_target
within 120 state nvme0 live || fail "no connection again"
io_goes_on
step "a host that is"
host silent_host
within 120 state nvme0 live || fail "no connection again"
io_goes_on

step "20 resets under I/O"
for i in $(seq 20); do
    nvme reset /dev/nvme0 2>/dev/null
    within 60 state nvme0 live || fail "no connection after reset $i"
done
io_goes_on
io_stop
disconnect
JOB
vm_boot events <job || exit 1
target_stop && vm_dissect events.pcap "$target_port"
