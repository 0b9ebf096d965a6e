#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# linux_auth.sh NVME_TARGET FOLDER KERNEL: the initiator of a Linux kernel with DH-HMAC-CHAP against
# NVME_TARGET --auth-keys: DH groups, one way and both ways, wrong secrets of either side, none at
# all. By day the first two groups only: an emulated kernel takes a minute for each large one.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=$1
. "$here/../../../tools/guest.sh"
. "$here/target.sh"
vm_begin "$2" nvme
vm_kernel "$3"
grep -q '^CONFIG_NVME_HOST_AUTH=y' "$vm_unpacked/boot/config-$vm_version" ||
    vm_skip "$vm_version has no NVMe authentication"
vm_root "hmac sha256_generic sha512_generic dh_generic nvme-core nvme-tcp" nvme
vm_seconds=900

host=$(nvme gen-dhchap-key -m 0 -l 32)
ctrl=$(nvme gen-dhchap-key -m 3 -l 64 -n $nqn)
other=$(nvme gen-dhchap-key -m 0 -l 32)
rm -f keys
(umask 077; echo "$vm_host_nqn $host $ctrl" >keys)
groups="null ffdhe2048"
[ -z "${SNIC_NIGHTLY:-}" ] || groups="$groups ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192"
rm -f $target_log
ports= targets=
for group in $groups; do
    target_start --listen 127.0.0.1:0 --subsystem $nqn --host any --memory 16M --connections 8 \
        --auth-keys keys --auth-groups $group || exit 1
    ports="$ports $target_port" targets="$targets $target_pid"
done

{ target_job; echo "ports='$ports' host=$host ctrl=$ctrl other=$other"; cat <<'JOB'; } >job
for m in hmac sha256_generic sha512_generic dh_generic; do load $m; done
try() {
    nvme connect -t tcp -a 10.0.2.2 -s $port -n $nqn -i 2 -c 1 -l 60 "$@" 2>/tmp/err
}
works() {
    try "$@" || { cat /tmp/err; fail "connect to port $port $*"; }
    namespace 1
    dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null
    dd if=/tmp/data of=$dev bs=64k oflag=direct 2>/dev/null || fail "write to port $port"
    same $dev /tmp/data || fail data
    dmesg | grep authenticated | tail -2
    disconnect
}
refused() {
    try "$@" && fail "connected to port $port with $*"
    [ ! -e $dev ] || fail "there is a device"
    dmesg | grep -i auth | tail -1
}
for port in $ports; do
    step "port $port: one way, both ways"
    works --dhchap-secret $host
    works --dhchap-secret $host --dhchap-ctrl-secret $ctrl
done
set -- $ports
for port in $1 $2; do
    step "port $port: wrong and missing secrets"
    refused
    refused --dhchap-secret $other
    refused --dhchap-secret $host --dhchap-ctrl-secret $other
    works --dhchap-secret $host
done
JOB
vm_boot auth <job || exit 1
for target_pid in $targets; do target_stop || exit 1; done
# shellcheck disable=SC2086
vm_dissect auth.pcap $ports
