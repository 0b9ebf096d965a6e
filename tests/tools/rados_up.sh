#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# rados_up.sh DIR [memstore|bluestore] [OSDS] [PORT]
#
# Starts a Ceph cluster on the loopback address: one monitor on PORT (6789) and OSDS (1) OSDs, with
# all their files in DIR, which is made anew; neither a manager nor authentication nor systemd. The
# pool `kvfs` keeps one copy of each object. The process ids are in DIR/mon.pid and DIR/osd.N.pid,
# clients find the cluster with CEPH_CONF=DIR/ceph.conf, and rados_down.sh stops it.
# RADOS_UP_SECONDS: it fails after that time (240).
# Needs the packages ceph-mon, ceph-osd and ceph-common. Exit code 0: the pool accepts writes.
set -eu
exec </dev/null
end=$(($(date +%s) + ${RADOS_UP_SECONDS:-240}))
dir=${1:?usage: rados_up.sh DIR [memstore|bluestore] [OSDS] [PORT]}
store=${2:-memstore} osds=${3:-1} port=${4:-6789}

fail() {
    echo "rados_up.sh: $1" >&2
    [ -z "${2:-}" ] || tail -n 20 "$2" >&2
    exit 1
}
left() { # seconds, 1 at least
    now=$(date +%s)
    echo $((end > now ? end - now : 1))
}
# started PIDFILE LOG COMMAND...: in the background and in a session of its own
started() {
    pidfile=$1 log=$2
    shift 2
    setsid "$@" >"$log" 2>&1 &
    echo $! >"$pidfile"
}

if [ -e "$dir/mon.pid" ] && kill -0 "$(cat "$dir/mon.pid")" 2>/dev/null; then
    fail "a cluster is running in $dir already"
fi
rm -rf "$dir"
mkdir -p "$dir/mon" "$dir/log" "$dir/run"
chmod 700 "$dir"
id=$(cat /proc/sys/kernel/random/uuid)
CEPH_CONF=$dir/ceph.conf
export CEPH_CONF
cat >"$CEPH_CONF" <<END
[global]
fsid = $id
mon_host = v2:127.0.0.1:$port
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $dir/run
admin_socket = $dir/run/\$name.\$pid.asok
log_file = $dir/log/\$name.log
pid_file = $dir/run/\$name.pid
crash_dir = $dir/log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 32
osd_pool_default_pgp_num = 32
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
ms_bind_ipv4 = true
ms_bind_ipv6 = false
ms_bind_msgr1 = false
[mon]
mon_data = $dir/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 2
[mon.a]
[osd]
osd_data = $dir/osd.\$id
osd_objectstore = $store
osd_max_object_name_len = 2048
osd_class_load_list = *
osd_class_default_list = *
osd_numa_auto_affinity = false
memstore_device_bytes = 4294967296
bluestore_block_size = 8589934592
bluestore_block_create = true
bluestore_bluefs = true
osd_memory_target = 1073741824
END

monmaptool --create --fsid "$id" --addv a "[v2:127.0.0.1:$port]" "$dir/monmap" \
    >"$dir/log/monmap" 2>&1 || fail "monmaptool failed:" "$dir/log/monmap"
ceph-mon -i a --mkfs --monmap "$dir/monmap" --keyring /dev/null >"$dir/log/mon.mkfs" 2>&1 ||
    fail "ceph-mon --mkfs failed:" "$dir/log/mon.mkfs"
started "$dir/mon.pid" "$dir/log/mon.out" ceph-mon -i a -f --keyring /dev/null
ceph --connect-timeout "$(left)" mon dump >/dev/null 2>&1 ||
    fail "the monitor does not respond:" "$dir/log/mon.out"

n=0
while [ "$n" -lt "$osds" ]; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    mkdir -p "$dir/osd.$n"
    ceph osd new "$uuid" "$n" >"$dir/log/osd.$n.new" 2>&1 ||
        fail "ceph osd new failed:" "$dir/log/osd.$n.new"
    ceph-osd -i "$n" --mkfs --osd-uuid "$uuid" --no-mon-config >"$dir/log/osd.$n.mkfs" 2>&1 ||
        fail "ceph-osd --mkfs failed:" "$dir/log/osd.$n.mkfs"
    ceph osd crush add "osd.$n" 1.0 root=default host=h0 >/dev/null 2>&1 || true
    started "$dir/osd.$n.pid" "$dir/log/osd.$n.out" ceph-osd -i "$n" -f
    n=$((n + 1))
done
up() {
    ceph --connect-timeout "$(left)" osd stat -f json 2>/dev/null |
        grep -q "\"num_up_osds\":${osds}[,}]"
}
until up; do
    [ "$(date +%s)" -lt "$end" ] || fail "the OSDs do not come up:" "$dir/log/osd.0.out"
    sleep 0.1
done
ceph osd pool create kvfs 32 32 replicated >"$dir/log/pool" 2>&1 ||
    fail "the pool cannot be created:" "$dir/log/pool"
ceph osd pool set kvfs size 1 --yes-i-really-mean-it >/dev/null 2>&1 || true
ceph osd pool application enable kvfs kvfs >/dev/null 2>&1 || true
# A write returns when the placement groups are active.
echo probe | timeout "$(left)" rados -p kvfs put .probe - >"$dir/log/pool" 2>&1 ||
    fail "the pool accepts no write:" "$dir/log/pool"
rados -p kvfs rm .probe
echo "CEPH_CONF=$CEPH_CONF"
