# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced by tests in sh: Linux kernels in QEMU, by software emulation.
#
#   vm_begin FOLDER COMMAND...  go to the test's own folder; exit 77 if a command is missing
#   vm_kernel 6.1|6.12          Debian's kernel, of bookworm or bookworm-backports: downloaded and
#                               unpacked, never installed; exit 77 if it cannot be had
#   vm_root "MODULE ..." "PROGRAM ..."   the root file system: busybox, these modules and programs
#   vm_disk PACKAGE...          a disk with Debian and these packages, by debootstrap: vm_image
#   vm_boot NAME [ARGUMENT...]  boot it and run the job that standard input has, until it ends;
#                               ARGUMENT: of QEMU. 0 if the job passed
#   vm_beside NAME [ARGUMENT...]  the same in the background, until vm_end; returns when the job
#                               has called `ready`
#   vm_dissect FILE PORT...     no malformed NVMe/TCP PDU and no bad digest in a capture (tshark);
#                               the file types has how many there are of each type
#   vm_end                      stop what runs beside
#
# A job is a script of busybox' sh, in which
#   step TEXT      prints it with the time          fail TEXT   ends it, failed
#   load MODULE [ARGUMENT...]                       inserts a module and those that it needs
#   net INTERFACE ADDRESS                           sets an interface up (eth0, QEMU's user network:
#                                                   10.0.2.15; the host's loopback is 10.0.2.2)
#   host WORD...   runs vm_host WORD... of the test at the host, and returns what that returns
#   give FILE      copies FILE into the test's folder
#   within SECONDS COMMAND...                       repeats COMMAND until it succeeds
#
# What the kernel prints is in NAME.kernel; an error there which the extended regular expression
# vm_provoked does not match fails the test: Oops, BUG, WARNING, hung task, I/O error. Packets of
# eth0 are in NAME.pcap, unless vm_capture is empty. vm_cpus and vm_memory are the machine's.
#
# SNIC_VM_FOLDER: where kernels and disks are kept, by default beside FOLDER. SNIC_KERNEL_DEB_6.1,
# with a _ for the dot: a package instead of the download. SNIC_VM_ACCEL=kvm: not emulated.

vm_capture=1 vm_provoked= vm_seconds=1100 vm_memory=1024 vm_cpus=1 vm_pids=
vm_skip() { echo "SKIPPED: $*"; exit 77; }

vm_begin() {
    vm_folder=$1
    shift
    [ "$(uname -m)" = x86_64 ] || vm_skip "the machine is no x86-64"
    for c in qemu-system-x86_64 busybox cpio dpkg depmod modprobe xz "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$c" >/dev/null || vm_skip "no $c"
    done
    PATH=$PATH:/usr/sbin:/sbin
    mkdir -p "$vm_folder" && cd "$vm_folder" || exit 1
    vm_keep=${SNIC_VM_FOLDER:-$PWD/../vm_kept}
    mkdir -p "$vm_keep" || exit 1
    vm_keep=$(cd "$vm_keep" && pwd)
    trap vm_end EXIT
    trap 'exit 1' INT TERM
}

vm_end() {
    # shellcheck disable=SC2086
    [ -z "$vm_pids" ] || kill $vm_pids 2>/dev/null
    vm_pids=
}

# vm_package VERSION [APT_OPTION...]: the package of that kernel, if apt's lists have it.
vm_package() {
    version=$1
    shift
    p=$(apt-cache "$@" depends linux-image-amd64 2>/dev/null | awk '/Depends:/ {print $2; exit}')
    case $p in
    "linux-image-$version."*) apt-get "$@" download -q "$p" >/dev/null 2>&1 && ls "$PWD/$p"_*.deb ;;
    *) return 1 ;;
    esac
}

# vm_download VERSION: by the machine's lists of packages, or by lists of our own.
vm_download() {
    vm_package "$1" && return
    case $1 in 6.1) suite=bookworm ;; *) suite=bookworm-backports ;; esac
    mkdir -p apt/lists/partial apt/cache/archives/partial
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$key] http://deb.debian.org/debian $suite main" >apt/list
    set -- "$1" -o "Dir::Etc::sourcelist=$PWD/apt/list" -o Dir::Etc::sourceparts=/dev/null \
        -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache"
    version=$1
    shift
    apt-get "$@" update -q >/dev/null 2>&1 && vm_package "$version" "$@"
}

vm_kernel() {
    vm_unpacked=$vm_keep/linux-$1
    if [ ! -d "$vm_unpacked" ]; then
        new=$vm_keep/new.$$
        rm -rf "$new" && mkdir -p "$new/root" || exit 1
        eval "deb=\${SNIC_KERNEL_DEB_$(echo "$1" | tr . _):-}"
        [ -n "$deb" ] || deb=$(cd "$new" && vm_download "$1") || {
            rm -rf "$new"
            vm_skip "no package of a Linux kernel $1 can be had"
        }
        dpkg -x "$deb" "$new/root" || exit 1
        v=$(ls "$new/root/lib/modules")
        depmod -b "$new/root" "$v" && mv "$new/root" "$vm_unpacked"
        rm -rf "$new"
    fi
    vm_version=$(ls "$vm_unpacked/lib/modules") || exit 1
    vm_vmlinuz=$vm_unpacked/boot/vmlinuz-$vm_version
}

vm_root() {
    rm -rf root
    mkdir -p root/bin root/sbin root/etc/nvme root/proc root/sys root/dev root/tmp root/mnt \
        root/modules root/run
    for m in virtio_pci virtio_net virtio_rng crc32c_generic crc32c-intel $1; do
        modprobe -d "$vm_unpacked" -S "$vm_version" --show-depends "$m" 2>/dev/null |
            awk '/^insmod/ {print $2}' >list
        : >"root/modules/$m.list"
        while read -r f; do
            n=$(basename "$f" .xz)
            echo "$n" >>"root/modules/$m.list"
            [ ! -e "root/modules/$n" ] || continue
            case $f in *.xz) xz -dc "$f" >"root/modules/$n" ;; *) cp "$f" root/modules/ ;; esac
        done <list
    done
    cp "$(command -v busybox)" root/bin/busybox
    for p in $2; do
        x=$(readlink -f "$(command -v "$p")")
        cp "$x" "root/bin/$p" || exit 1
        ldd "$x" | grep -o '/[^ ]*' | while read -r l; do
            mkdir -p "root$(dirname "$l")" && cp -Ln "$l" "root$l" 2>/dev/null
        done
    done
    vm_host_nqn=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
    echo $vm_host_nqn >root/etc/nvme/hostnqn
    echo ${vm_host_nqn##*:} >root/etc/nvme/hostid
    cat >root/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
stty -F /dev/ttyS1 -echo -onlcr
exec </dev/ttyS1 >/dev/ttyS1 2>&1
step() { echo "$(cut -d' ' -f1 /proc/uptime) s: $*"; }
stop() { sync; echo "@$*"; read -r reply; poweroff -f; sleep 60; }
fail() { dmesg | tail -20; stop "FAILED $*"; }
ready() { echo @READY; }
host() { echo "@HOST $*"; read -r reply; return "$reply"; }
give() { echo "@FILE ${1##*/}"; base64 "$1"; echo @END; }
load() {
    list=/modules/$1.list
    shift
    last=$(tail -n 1 $list)
    for m in $(cat $list); do
        if [ $m = $last ]; then insmod /modules/$m "$@"; else insmod /modules/$m; fi 2>/dev/null
    done
    [ -n "$last" ] || return 0
    last=${last%.ko}
    grep -q "^$(echo $last | tr - _) " /proc/modules
}
net() { ifconfig $1 $2 netmask 255.255.255.0 up; }
within() {
    tries=$(($1 * 5))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}
for m in virtio_pci virtio_net virtio_rng crc32c_generic crc32c-intel; do load $m; done
ifconfig lo 127.0.0.1 up
step "Linux $(uname -r)"
. /job
stop PASSED
INIT
    chmod +x root/init
}

# vm_disk PACKAGE...: an image of a tree that debootstrap has set up, with its packages configured.
# To be used with QEMU's snapshot=on.
vm_disk() {
    command -v debootstrap >/dev/null || vm_skip "no debootstrap"
    [ "$(id -u)" = 0 ] || vm_skip "debootstrap needs root"
    vm_image=$vm_keep/debian-$(echo "$*" | tr ' ' -).img
    [ ! -e "$vm_image" ] || return 0
    new=$vm_keep/new.$$
    rm -rf "$new" && mkdir -p "$new" || exit 1
    debootstrap --variant=minbase --include="$(echo "$*" | tr ' ' ,)" bookworm "$new/tree" \
        http://deb.debian.org/debian >"$new/log" 2>&1 || {
        tail -n 3 "$new/log"
        rm -rf "$new"
        vm_skip "debootstrap has failed"
    }
    rm -rf "$new/tree/var/cache/apt/archives" "$new/tree/var/lib/apt/lists"
    truncate -s 2G "$new/image" && mkfs.ext4 -q -d "$new/tree" "$new/image" &&
        mv "$new/image" "$vm_image"
    rm -rf "$new"
    [ -e "$vm_image" ] || exit 1
}

# vm_machine NAME ARGUMENT...: QEMU. The kernel's console is the first serial line, the job's the
# second.
vm_machine() {
    name=$1
    shift
    accel="tcg,thread=multi,tb-size=256 -cpu max"
    [ "${SNIC_VM_ACCEL:-tcg}" = tcg ] || accel="$SNIC_VM_ACCEL -cpu host"
    # shellcheck disable=SC2086
    exec setpriv --pdeathsig TERM timeout "$vm_seconds" \
        qemu-system-x86_64 -accel $accel -smp "$vm_cpus" -m "$vm_memory" \
        -nodefaults -no-user-config -display none -no-reboot -monitor none \
        -kernel "$vm_vmlinuz" -initrd "$name.initrd" \
        -object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng \
        -serial "file:$name.kernel" -serial stdio -pidfile "$name.pid" "$@" \
        -append "console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr nowatchdog \
no_timer_check tsc=unstable clocksource=hpet rcupdate.rcu_cpu_stall_suppress=1 log_buf_len=1M \
${vm_append:-}" 2>"$name.qemu"
}

# vm_pack NAME: the archive that is booted, with the job from standard input.
vm_pack() {
    cat >root/job
    (cd root && find . | cpio -o -H newc --quiet) >"$1.initrd" && : >"$1.kernel"
}

vm_errors() { # NAME: what its kernel reports and the test has not provoked
    tr -d '\r' <"$1.kernel" | grep -E "Oops|BUG:|kernel BUG|WARNING: |Call Trace|Kernel panic\
|general protection|blocked for more than|I/O [Ee]rror|EXT4-fs error|XFS .*([Cc]orrupt|Shutdown)\
|Unable to handle|inconsistent lock|refcount_t:|use-after-free" |
        grep -Ev "${vm_provoked:-^$}"
}

vm_boot() {
    boot=$1
    shift
    vm_pack "$boot" || return 1
    rm -f in out "$boot.pcap"
    mkfifo in out || return 1
    [ -z "$vm_capture" ] || set -- "$@" -object "filter-dump,id=dump,netdev=n0,file=$boot.pcap"
    vm_machine "$boot" -netdev user,id=n0 -device virtio-net-pci,netdev=n0,romfile= "$@" \
        <in >out &
    vm=$!
    vm_pids="$vm_pids $vm"
    exec 8>in 9<out
    vm_serve
    exec 8>&- 9<&-
    kill $vm 2>/dev/null
    wait $vm
    rm -f "$boot.initrd"
    if vm_errors "$boot"; then
        vm_result="FAILED: the kernel reports errors ($PWD/$boot.kernel)"
    fi
    [ "$vm_result" = PASSED ] && return
    tail -n 20 "$boot.kernel" "$boot.qemu"
    echo "$vm_result"
    return 1
}

# vm_serve: prints what the job prints, and serves what it wants, until it ends.
vm_serve() {
    vm_result="FAILED: the machine ended, or did not end in $vm_seconds s"
    while IFS= read -r line <&9; do
        case $line in
        @HOST*)
            # shellcheck disable=SC2086
            vm_host ${line#@HOST }
            echo $? >&8
            ;;
        @FILE*)
            while IFS= read -r data <&9 && [ "$data" != @END ]; do
                echo "$data"
            done | base64 -di >"${line#@FILE }"
            ;;
        @PASSED*) vm_result=PASSED; echo >&8 ;;
        @FAILED*) vm_result="FAILED:${line#@FAILED}"; echo >&8 ;;
        *) echo "$line" ;;
        esac
    done
}

vm_beside() {
    beside=$1
    shift
    vm_pack "$beside" || return 1
    vm_machine "$beside" "$@" </dev/null >"$beside.out" &
    vm=$!
    vm_pids="$vm_pids $vm"
    until grep -q '^@READY' "$beside.out" 2>/dev/null; do
        kill -0 $vm 2>/dev/null || { cat "$beside.out" "$beside.kernel"; return 1; }
        sleep 0.2
    done
    rm -f "$beside.initrd"
}

# vm_dissect FILE PORT...: what tshark finds wrong.
vm_dissect() {
    command -v tshark >/dev/null || { echo "no tshark: $1 is not dissected"; return; }
    file=$1
    shift
    for port in "$@"; do set -- "$@" -d "tcp.port==$port,nvme-tcp"; shift; done
    wrong="_ws.malformed or nvme-tcp.hdgst.status == 0 or nvme-tcp.ddgst.status == 0"
    wrong="$wrong or (nvme-tcp and _ws.expert.severity == error)"
    set -- "$@" -o nvme-tcp.check_hdgst:TRUE -o nvme-tcp.check_ddgst:TRUE
    tshark "$@" -r "$file" -Y "$wrong" >found 2>tshark.err || { cat tshark.err; return 1; }
    grep -v "Dissector bug" found >wrong # its own, of features it does not know
    [ ! -s wrong ] || { echo "$file has malformed packets:"; head wrong; return 1; }
    tshark "$@" -r "$file" -Y nvme-tcp -T fields -e nvme-tcp.type 2>/dev/null | tr ',' '\n' |
        sort -n | uniq -c | awk '{print "type", $2 ":", $1}' >types
    echo "$file: PDUs dissected: $(tr '\n' ' ' <types)"
    [ -s types ]
}
