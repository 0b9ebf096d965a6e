#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_compare.sh NVME_TARGET FOLDER KERNEL: what `nvme` shows of NVME_TARGET beside what it shows
# of the kernel's own target, nvmet, in the same machine: Identify, logs, features, and the status
# of many commands, good and bad. compare.py has the differences that are meant, each with its
# reason; any other is a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme python3
vm_kernel "$3"
vm_root "nvme-core nvme-tcp nvmet nvmet-tcp null_blk configfs" nvme

rm -f disk.img $target_log ours.* nvmet.*
target_start --listen 127.0.0.1:0 --subsystem $nqn --host any --namespace disk.img \
    --size 1G || exit 1
{ target_job; cat <<'JOB'; } >job
load null_blk nr_devices=1 memory_backed=1 gb=1 bs=4096 queue_mode=2 || fail "no null_blk"
load nvmet && load nvmet-tcp || fail "no module nvmet-tcp"
mkdir -p /config && mount -t configfs config /config || fail configfs
s=/config/nvmet/subsystems/$nqn-nvmet
mkdir $s && echo 1 >$s/attr_allow_any_host && mkdir $s/namespaces/1 &&
    echo -n /dev/nullb0 >$s/namespaces/1/device_path && echo 1 >$s/namespaces/1/enable ||
    fail "nvmet's subsystem"
p=/config/nvmet/ports/1
mkdir $p && echo ipv4 >$p/addr_adrfam && echo tcp >$p/addr_trtype && echo 4420 >$p/addr_trsvcid &&
    echo 127.0.0.1 >$p/addr_traddr && ln -s $s $p/subsystems/ || fail "nvmet's port"
connect -i 1
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $nqn-nvmet -i 1 || fail "connect to nvmet"

dd if=/dev/zero of=/tmp/zero bs=64k count=16 2>/dev/null
status() { # NAME COMMAND...: its status, by name
    name=$1
    shift
    "$@" </tmp/zero >/tmp/log 2>&1
    rc=$?
    code=$(grep -o '(0x[0-9a-f]*)' /tmp/log | tail -n 1)
    [ $rc = 0 ] && code=success
    echo "$name ${code:-$(tail -n 1 /tmp/log)}" >>/tmp/$side.status
}
admin() { o=$1; shift; status "$*,$o" nvme admin-passthru $c -o $o "$@"; }
io() { o=$1; shift; status "$*,$o" nvme io-passthru $d -o $o "$@"; }
for side in ours nvmet; do
    case $side in ours) c=/dev/nvme0 ;; *) c=/dev/nvme1 ;; esac
    namespace 1 ${c#/dev/}
    d=$dev
    step "$side: $c $d"
    nvme id-ctrl $c -o json >/tmp/$side.id_ctrl
    nvme id-ns $d -o json >/tmp/$side.id_ns
    nvme ns-descs $d -n 1 -o json >/tmp/$side.ns_descs
    nvme list-ns $c -o json >/tmp/$side.list_ns
    nvme smart-log $c -o json >/tmp/$side.smart_log
    nvme effects-log $c -o json >/tmp/$side.effects_log
    nvme ana-log $c -o json >/tmp/$side.ana_log
    nvme fw-log $c -o json >/tmp/$side.fw_log
    for f in 1 2 4 5 6 7 8 11 15 22 130 131; do
        status get-feature-$f nvme get-feature $c -n 1 -f $f
    done
    status set-temperature nvme set-feature $c -f 4 -v 0x14f
    status set-cache nvme set-feature $c -f 6 -v 1
    status set-unknown nvme set-feature $c -f 0x55 -v 1
    for l in 1 2 3 5 6 12 112 128 238; do
        status get-log-$l nvme get-log $c -i $l -l 512
    done
    for cns in 0 1 2 3 6 16 19 22 28 85; do
        admin 6 --cdw10=$cns -n 1 -r -l 4096
    done
    admin 6 --cdw10=0 -n 99 -r -l 4096
    admin 6 --cdw10=0 -n 0xffffffff -r -l 4096
    admin 6 --cdw10=3 -n 0 -r -l 4096
    for o in 0 5 0x0d 0x10 0x11 0x14 0x15 0x19 0x80 0x82 0x84 0xff; do admin $o; done
    admin 8 --cdw10=0xffff0001
    io 2 -n 1 -r -l 4096
    io 2 -n 1 -r -l 4096 --cdw10=0xfffffff0
    io 2 -n 1 -r -l 4096 --cdw10=262144
    io 2 -n 1 -r -l 4096 --cdw12=1
    io 2 -n 1 -r -l 8192 --cdw12=0
    io 1 -n 1 -w -l 4096
    io 1 -n 1 -w -l 4096 --cdw10=262144
    io 0 -n 1
    io 0 -n 0xffffffff
    io 8 -n 1 --cdw12=7
    io 8 -n 1 --cdw10=262140 --cdw12=7
    io 9 -n 1 -w -l 4096 --cdw10=0 --cdw11=4
    io 4 -n 1
    io 0x7f -n 1
    for f in id_ctrl id_ns ns_descs list_ns smart_log effects_log ana_log fw_log status; do
        give /tmp/$side.$f
    done
done
nvme disconnect-all || fail disconnect-all
JOB
vm_boot compare <job || exit 1
target_stop && vm_dissect compare.pcap "$target_port" && python3 "$here/compare.py" ours nvmet
