#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# nvme_linux_auth.sh NVME_TARGET FOLDER: the initiator of a Linux kernel with DH-HMAC-CHAP, in QEMU
# (software emulation), against NVME_TARGET --auth-keys: each DH group, one way and both ways, wrong
# secrets of either side, none at all.
#
# The kernel is unpacked into FOLDER, never installed: that of bookworm-backports, downloaded with
# apt-get, or of SNIC_KERNEL_AUTH_DEB. Exit code 77: what is needed cannot be had here.
set -u
target=$1
folder=$2
skip() { echo "SKIPPED: $*"; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "the machine is no x86-64"
for c in qemu-system-x86_64 busybox nvme cpio dpkg depmod modprobe xz; do
    command -v "$c" >/dev/null || skip "no $c"
done
mkdir -p "$folder" && cd "$folder" || exit 1

# ---- The kernel, and its modules in the order of loading ----
if ! ls kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    deb=${SNIC_KERNEL_AUTH_DEB:-}
    if [ -z "$deb" ]; then
        mkdir -p apt/lists/partial apt/cache/archives/partial
        key=/usr/share/keyrings/debian-archive-keyring.gpg
        echo "deb [signed-by=$key] http://deb.debian.org/debian bookworm-backports main" >apt/list
        get="-o Dir::Etc::sourcelist=$PWD/apt/list -o Dir::Etc::sourceparts=/dev/null
            -o Dir::State::lists=$PWD/apt/lists -o Dir::Cache=$PWD/apt/cache"
        # shellcheck disable=SC2086
        apt-get $get update -q >/dev/null 2>&1 || skip "bookworm-backports cannot be had"
        # shellcheck disable=SC2086
        p=$(apt-cache $get depends linux-image-amd64 | awk '/Depends:/ {print $2; exit}')
        # shellcheck disable=SC2086
        [ -n "$p" ] && apt-get $get download -q "$p" >/dev/null 2>&1 || skip "no kernel package"
        deb=$(ls "$p"_*.deb)
    fi
    mkdir -p kernel && dpkg -x "$deb" kernel || exit 1
fi
vmlinuz=$(ls kernel/boot/vmlinuz-* | head -1)
version=${vmlinuz#kernel/boot/vmlinuz-}
grep -q '^CONFIG_NVME_HOST_AUTH=y' "kernel/boot/config-$version" || skip "$version has no NVMe auth"
[ -e "kernel/lib/modules/$version/modules.dep" ] || depmod -b "$PWD/kernel" "$version"
rm -rf root
mkdir -p root/bin root/etc/nvme root/proc root/sys root/dev root/tmp root/modules
: >root/modules/order
for m in virtio_pci virtio_net virtio_rng crc32c_generic hmac sha256_generic sha512_generic \
    dh_generic nvme-tcp; do
    modprobe -d "$PWD/kernel" -S "$version" --show-depends "$m" 2>/dev/null |
        awk '/^insmod/ {print $2}'
done | awk '!seen[$0]++' | while read -r f; do
    n=$(basename "$f" .xz)
    case $f in *.xz) xz -dc "$f" >"root/modules/$n" ;; *) cp "$f" "root/modules/$n" ;; esac
    echo "$n" >>root/modules/order
done
cp "$(command -v busybox)" root/bin/busybox
x=$(readlink -f "$(command -v nvme)")
cp "$x" root/bin/nvme
ldd "$x" | grep -o '/[^ ]*' | while read -r l; do
    mkdir -p "root$(dirname "$l")" && cp -Ln "$l" "root$l" 2>/dev/null
done
hostnqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
echo $hostnqn >root/etc/nvme/hostnqn
echo 11111111-2222-3333-4444-555555555555 >root/etc/nvme/hostid

# ---- The targets, one for each DH group ----
nqn=nqn.2026-11.example:disk
host=$(nvme gen-dhchap-key -m 0 -l 32)
ctrl=$(nvme gen-dhchap-key -m 3 -l 64 -n $nqn)
(umask 077; echo "$hostnqn $host $ctrl" >keys)
pids= ports=
trap 'kill $pids 2>/dev/null' EXIT
for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do
    "$target" --listen 127.0.0.1:0 --subsystem $nqn --host any --memory 16M --connections 8 \
        --auth-keys keys --auth-groups $group >target.$group 2>&1 &
    pids="$pids $!"
    until grep -q ^ready target.$group; do
        kill -0 $! 2>/dev/null || { cat target.$group; exit 1; }
        sleep 0.1
    done
    ports="$ports $(sed -n 's/^ready .*://p' target.$group)"
done

# ---- What the kernel runs ----
cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for m in $(cat /modules/order); do insmod /modules/$m 2>/dev/null; done
. /job
sync
poweroff -f
INIT
chmod +x root/init
{ echo "ports='$ports' nqn=$nqn host=$host ctrl=$ctrl"
  echo "other=$(nvme gen-dhchap-key -m 0 -l 32)"
  cat <<'JOB'
fail() { echo "LINUX FAILED: $*"; dmesg | tail -30; poweroff -f; sleep 60; }
step() { echo "LINUX $(cut -d' ' -f1 /proc/uptime) s: $*"; }
for i in /sys/class/net/*; do
    n=${i##*/}
    [ $n = lo ] && continue
    ifconfig $n 10.0.2.15 netmask 255.255.255.0 up
    route add default gw 10.0.2.2
done
connect() {
    nvme connect -t tcp -a 10.0.2.2 -s $port -n $nqn -i 2 -c 1 -l 60 "$@" 2>/tmp/err
}
works() {
    connect "$@" || { cat /tmp/err; fail "connect to port $port $*"; }
    for i in $(seq 100); do [ -b /dev/nvme0n1 ] && break; sleep 0.2; done
    dd if=/dev/urandom of=/tmp/data bs=64k count=4 2>/dev/null
    dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct 2>/dev/null || fail "write to port $port"
    dd if=/dev/nvme0n1 bs=64k count=4 iflag=direct 2>/dev/null | cmp - /tmp/data || fail "data"
    dmesg | grep authenticated | tail -2
    nvme disconnect -n $nqn >/dev/null || fail disconnect
}
refused() {
    connect "$@" && fail "connected to port $port with $*"
    [ -e /dev/nvme0n1 ] && fail "there is a device"
    dmesg | grep -i 'auth' | tail -1
}
for port in $ports; do
    step "port $port: one way, both ways"
    works --dhchap-secret $host
    works --dhchap-secret $host --dhchap-ctrl-secret $ctrl
done
set -- $ports
for port in $1 $2; do # the large groups take an emulated kernel a minute each
    step "port $port: wrong and missing secrets"
    refused
    refused --dhchap-secret $other
    refused --dhchap-secret $host --dhchap-ctrl-secret $other
    works --dhchap-secret $host
done
dmesg | grep -E 'BUG|WARNING|Oops|hung task' && fail "the kernel complains"
echo "LINUX PASSED"
JOB
} >root/job
(cd root && find . | cpio -o -H newc --quiet) >initrd || exit 1
: >console
timeout 900 qemu-system-x86_64 -accel tcg,thread=multi,tb-size=256 -cpu max -smp 2 -m 768 \
    -nodefaults -no-user-config -display none -no-reboot -kernel "$vmlinuz" -initrd initrd \
    -netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile= \
    -object rng-random,id=r,filename=/dev/urandom -device virtio-rng-pci,rng=r \
    -serial file:console -monitor none \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable" </dev/null
tr -d '\r' <console | grep -v '^$' | tail -60
# shellcheck disable=SC2086
kill -TERM $pids
for p in $pids; do
    wait "$p" || { echo "FAILED: a target ended with $?"; cat target.*; exit 1; }
done
grep -q '^LINUX PASSED' console
