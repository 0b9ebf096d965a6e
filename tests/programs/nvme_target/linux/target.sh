# SPDX-License-Identifier: Apache-2.0 OR MIT
# To be sourced, behind tools/guest.sh: nvme_target at the host, and what a job needs to use it.
#
#   target_start OPTION...   start it with target_listens ports; sets target_port and target_port_2
#   target_stop              TERM; 1 if it does not end with 0
#   target_kill              KILL, and wait for its end
#   target_job               functions of a job, to precede those of the test

nqn=nqn.2026-11.example:disk
target_log=target.log target_listens=1

# target_free_port: one that stays free while the target is down
target_free_port() {
    python3 -c "import sys; sys.path.insert(0, '$here/../../../support')
import freeport
print(freeport.free_port())"
}

target_start() {
    : >target.out # the old one's lines are not to be seen
    setpriv --pdeathsig KILL "$target" "$@" >target.out 2>>$target_log &
    target_pid=$!
    vm_pids="$vm_pids $target_pid"
    until [ "$(grep -c ^ready target.out)" = $target_listens ]; do
        kill -0 $target_pid 2>/dev/null || { cat $target_log; return 1; }
        sleep 0.1
    done
    target_port=$(sed -n 's/^ready .*://p' target.out | head -1)
    target_port_2=$(sed -n 's/^ready .*://p' target.out | sed -n 2p)
}

target_stop() {
    kill -TERM $target_pid
    wait $target_pid || { echo "FAILED: the target ended with $?"; cat $target_log; return 1; }
}

target_kill() {
    kill -KILL $target_pid
    wait $target_pid 2>/dev/null
    return 0
}

# The functions of a job: discover, connect OPTION..., disconnect;
#   namespace NSID [CONTROLLER]  sets dev to its device. A name does not follow from the id: newer
#                                kernels add several namespaces at the same time
#   same DEVICE FILE [BS COUNT]  is FILE what the device has?
#   io_start DEVICE, io_stop     writes without end, each block with a version that is read back at
#                                once and at the end
target_job() {
    echo "port=$target_port port_2=$target_port_2 nqn=$nqn"
    cat <<'JOB'
net eth0 10.0.2.15
# shellcheck disable=SC2086
load nvme-core $core || fail "no module nvme-core"
load nvme-tcp || fail "no module nvme-tcp"
discover() {
    nvme discover -t tcp -a 10.0.2.2 -s $port >/tmp/log || fail discover
    grep -q "subnqn: *$nqn" /tmp/log || { cat /tmp/log; fail "the subsystem is not in the log"; }
}
connect() {
    nvme connect -t tcp -a 10.0.2.2 -s $port -n $nqn -c 1 -l 600 -k 30 "$@" || fail "connect $*"
}
connect_as() { # UUID OPTION...: as another host; nvme-cli 2.3 refuses a second one
    echo "transport=tcp,traddr=10.0.2.2,trsvcid=$port,nqn=$nqn,nr_io_queues=1,reconnect_delay=1,\
ctrl_loss_tmo=600,keep_alive_tmo=30,hostid=$1,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$1" |
        tr -d '\n' >/dev/nvme-fabrics || fail "connect as $1"
}
disconnect() { nvme disconnect -n $nqn >/dev/null || fail disconnect; }
namespace() {
    within 60 namespace_find $1 ${2:-nvme0} || fail "no device of namespace $1"
}
namespace_find() {
    for f in /sys/block/nvme*n*/nsid; do
        dev=${f%/nsid}
        dev=/dev/${dev##*/}
        case $dev in /dev/$2n*) [ "$(cat $f)" != $1 ] || [ ! -b $dev ] || return 0 ;; esac
    done 2>/dev/null
    return 1
}
state() { [ "$(cat /sys/class/nvme/$1/state)" = $2 ]; }
same() { dd if=$1 bs=${3:-4k} count=${4:-64} iflag=direct 2>/dev/null | cmp - $2; }
version() { printf '%-4095s\n' "block $1 version $2" >$3; }
io_check() { # DEVICE BLOCK: has it what was written last?
    dd if=$1 of=/tmp/io_read bs=4k skip=$2 count=1 iflag=direct 2>/dev/null &&
        cmp -s /tmp/io_read /tmp/io_$2 || echo "block $2: not $(head -n 1 /tmp/io_$2)" >>/tmp/io_bad
}
io_start() {
    rm -f /tmp/io_*
    (
        v=0
        while [ ! -e /tmp/io_end ]; do
            v=$((v + 1))
            for b in 0 1 2; do
                version $b $v /tmp/io_$b
                dd if=/tmp/io_$b of=$1 bs=4k seek=$b oflag=direct 2>/dev/null ||
                    echo "block $b: write of version $v failed" >>/tmp/io_bad
                io_check $1 $b
            done
            echo $v >/tmp/io_rounds
        done
        for b in 0 1 2; do io_check $1 $b; done
        touch /tmp/io_ended
    ) &
    io_goes_on
}
io_goes_on() { # two rounds more end
    before=$(cat /tmp/io_rounds 2>/dev/null || echo 0)
    within 600 io_rounds $((before + 2)) || fail "I/O does not end"
}
io_rounds() { [ "$(cat /tmp/io_rounds 2>/dev/null || echo 0)" -ge $1 ]; }
io_stop() {
    touch /tmp/io_end
    within 600 test -e /tmp/io_ended || fail "I/O does not end"
    [ ! -e /tmp/io_bad ] || { cat /tmp/io_bad; fail "data differ, or an I/O failed"; }
    step "$(cat /tmp/io_rounds) rounds of I/O verified"
}
JOB
}
