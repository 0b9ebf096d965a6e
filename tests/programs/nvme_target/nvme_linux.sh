#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# nvme_linux.sh NVME_TARGET FOLDER [OPTION...]: the NVMe/TCP initiator of Debian's kernel, in QEMU
# (software emulation), against NVME_TARGET OPTION... on loopback: discovery, digests, ext4 with
# fsck, Flush, Write Zeroes, Deallocate, verified writes, a target that is killed and started again
# under I/O.
#
# The kernel is unpacked into FOLDER, never installed. It is that of the package that
# linux-image-amd64 depends on, downloaded with apt-get, or of SNIC_KERNEL_DEB. Exit code 77: what
# is needed cannot be had here.
set -u
target=$1
folder=$2
shift 2
options=$*
skip() { echo "SKIPPED: $*"; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "the machine is no x86-64"
for c in qemu-system-x86_64 busybox nvme mkfs.ext4 e2fsck cpio dpkg depmod modprobe; do
    command -v "$c" >/dev/null || skip "no $c"
done
mkdir -p "$folder" && cd "$folder" || exit 1

# ---- The kernel, and its modules in the order of loading ----
if ! ls kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    deb=${SNIC_KERNEL_DEB:-}
    if [ -z "$deb" ]; then
        p=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ {print $2; exit}')
        [ -n "$p" ] && apt-get download -q "$p" >/dev/null 2>&1 || skip "no kernel package"
        deb=$(ls "$p"_*.deb)
    fi
    mkdir -p kernel && dpkg -x "$deb" kernel || exit 1
fi
vmlinuz=$(ls kernel/boot/vmlinuz-* | head -1)
version=${vmlinuz#kernel/boot/vmlinuz-}
[ -e "kernel/lib/modules/$version/modules.dep" ] || depmod -b "$PWD/kernel" "$version"
rm -rf root
mkdir -p root/bin root/sbin root/etc/nvme root/proc root/sys root/dev root/tmp root/mnt root/modules
: >root/modules/order
for m in virtio_pci virtio_net virtio_rng crc32c_generic crc32c-intel nvme-tcp ext4; do
    modprobe -d "$PWD/kernel" -S "$version" --show-depends "$m" 2>/dev/null |
        awk '/^insmod/ {print $2}'
done | awk '!seen[$0]++' | while read -r f; do
    cp "$f" root/modules/ && basename "$f" >>root/modules/order
done
cp "$(command -v busybox)" root/bin/busybox
for p in nvme mkfs.ext4 e2fsck; do
    x=$(readlink -f "$(command -v $p)")
    cp "$x" root/bin/$p
    ldd "$x" | grep -o '/[^ ]*' | while read -r l; do
        mkdir -p "root$(dirname "$l")" && cp -Ln "$l" "root$l" 2>/dev/null
    done
done
echo nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 >root/etc/nvme/hostnqn
echo 11111111-2222-3333-4444-555555555555 >root/etc/nvme/hostid

# ---- The target ----
nqn=nqn.2026-11.example:disk
rm -f disk.img
start() {
    # shellcheck disable=SC2086
    "$target" $options --listen "127.0.0.1:$1" --subsystem $nqn --host any \
        --namespace disk.img --size 256M --memory 16M --cached >target.out 2>>target.err &
    pid=$!
    until grep -q ^ready target.out; do
        kill -0 $pid 2>/dev/null || { cat target.err; exit 1; }
        sleep 0.1
    done
}
: >target.err
start 0
trap 'kill $pid 2>/dev/null' EXIT
port=$(sed -n 's/^ready .*://p' target.out)

# ---- What the kernel runs ----
cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for m in $(cat /modules/order); do insmod /modules/$m 2>/dev/null; done
. /job
sync
poweroff -f
INIT
chmod +x root/init
{ echo "port=$port nqn=$nqn"; cat <<'JOB'
fail() { echo "LINUX FAILED: $*"; dmesg | tail -30; poweroff -f; sleep 60; }
step() { echo "LINUX $(cut -d' ' -f1 /proc/uptime) s: $*"; }
for i in /sys/class/net/*; do
    n=${i##*/}
    [ $n = lo ] && continue
    ifconfig $n 10.0.2.15 netmask 255.255.255.0 up
    route add default gw 10.0.2.2
done
connect() {
    nvme connect -t tcp -a 10.0.2.2 -s $port -n $nqn -c 1 -l 120 "$@" || fail "connect $*"
}
device() {
    for i in $(seq 100); do
        [ -b /dev/nvme0n1 ] && [ -b /dev/nvme0n2 ] && return
        sleep 0.2
    done
    fail "no device"
}
step discover
nvme discover -t tcp -a 10.0.2.2 -s $port >/tmp/log || fail discover
grep -q "subnqn: *$nqn" /tmp/log || { cat /tmp/log; fail "the subsystem is not in the log"; }

step "connect with digests, two queues"
connect -i 2 -Q 64 -g -G
device
nvme smart-log /dev/nvme0 >/dev/null || fail smart-log
nvme error-log /dev/nvme0 >/dev/null || fail error-log
nvme ana-log /dev/nvme0 >/dev/null || fail ana-log
nvme ns-descs /dev/nvme0 -n 1 | grep -q uuid || fail ns-descs

step "ext4 and fsck"
mkfs.ext4 -q /dev/nvme0n1 65536 || fail mkfs
mount -t ext4 -o discard /dev/nvme0n1 /mnt || fail mount
for i in $(seq 40); do dd if=/dev/urandom of=/mnt/f$i bs=16k count=$i 2>/dev/null; done
cp -r /bin/e2fsck /modules /mnt/
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums
rm /mnt/f1*; sync; umount /mnt || fail umount
e2fsck -fn /dev/nvme0n1 >/tmp/log 2>&1 || { cat /tmp/log; fail fsck; }
echo 3 >/proc/sys/vm/drop_caches
mount -t ext4 /dev/nvme0n1 /mnt || fail mount
(cd /mnt && find . -type f -exec md5sum {} +) | sort >/tmp/sums2
grep -v ' ./f1' /tmp/sums | cmp - /tmp/sums2 || fail "files differ"
umount /mnt

step "Write Zeroes, Flush, Compare, Deallocate on the second namespace"
d=/dev/nvme0n2
dd if=/dev/urandom of=/tmp/data bs=4k count=64 2>/dev/null
dd if=/tmp/data of=$d bs=256k oflag=direct 2>/dev/null || fail write
dd if=$d bs=4k count=64 iflag=direct 2>/dev/null | cmp - /tmp/data || fail "data differ"
nvme write-zeroes $d -n 2 -s 8 -c 7 || fail write-zeroes
dd if=$d bs=4k skip=8 count=8 iflag=direct 2>/dev/null | tr -d '\0' | grep -q . && fail "not zero"
nvme flush $d -n 2 >/dev/null || fail flush
dd if=/tmp/data of=/tmp/one bs=4k count=1 2>/dev/null
nvme compare $d -s 0 -c 0 -z 4096 -d /tmp/one >/dev/null || fail compare
nvme compare $d -s 1 -c 0 -z 4096 -d /tmp/one >/dev/null 2>&1 && fail "compare of others"
nvme dsm $d -n 2 -d -s 16 -b 16 >/dev/null || fail dsm

step "reset, and disconnect and connect without digests"
nvme reset /dev/nvme0 || fail reset
dd if=$d bs=4k count=1 iflag=direct 2>/dev/null | cmp - /tmp/one || fail "read after reset"
nvme disconnect -n $nqn >/dev/null || fail disconnect
connect -i 1 -Q 32
device

step "writes while the target is killed"
(for i in $(seq 32); do
    dd if=/tmp/data of=$d bs=64k seek=$((i * 4)) oflag=direct 2>/dev/null || echo bad >/tmp/bad
 done; echo done >/tmp/done) &
sleep 0.3
step KILL
for i in $(seq 600); do [ -e /tmp/done ] && break; sleep 0.2; done
[ -e /tmp/done ] || fail "writes did not end"
[ -e /tmp/bad ] && fail "a write failed"
nvme disconnect -n $nqn >/dev/null || fail disconnect
dmesg | grep -E 'BUG|WARNING|Oops|hung task' && fail "the kernel complains"
echo "LINUX PASSED"
JOB
} >root/job
(cd root && find . | cpio -o -H newc --quiet) >initrd || exit 1

# ---- Run it; kill the target when it asks for that ----
: >console
timeout 900 qemu-system-x86_64 -accel tcg,thread=multi,tb-size=256 -cpu max -smp 2 -m 1024 \
    -nodefaults -no-user-config -display none -no-reboot -kernel "$vmlinuz" -initrd initrd \
    -netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile= \
    -object rng-random,id=r,filename=/dev/urandom -device virtio-rng-pci,rng=r \
    -serial file:console -monitor none \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable" </dev/null &
vm=$!
trap 'kill $pid $vm 2>/dev/null' EXIT
killed=
while kill -0 $vm 2>/dev/null; do
    if [ -z "$killed" ] && grep -q 's: KILL' console; then
        killed=1
        kill -KILL $pid
        wait $pid 2>/dev/null
        start "$port"
    fi
    sleep 0.2
done
tr -d '\r' <console | grep -v '^$' | tail -60
[ -n "$killed" ] || { echo "FAILED: it did not come to the kill"; exit 1; }
kill -TERM $pid
wait $pid || { echo "FAILED: the target ended with $?"; cat target.err; exit 1; }
grep -q '^LINUX PASSED' console
