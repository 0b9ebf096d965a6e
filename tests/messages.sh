#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# messages.sh PROGRAM...: the message of each for a user's mistake, and its exit code: 2 where
# the command line is wrong, 1 where something else is; kvfs_mount and the two fsck have the codes
# of mount(8) and fsck(8).
# Each message begins with the program's name and names the option, path or address.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0 count=0
mkdir "$work/dir" "$work/closed"
echo text >"$work/text"
: >"$work/empty"
printf '[a]\nrw=read\n' >"$work/job"
echo help >"$work/script"
printf '[a]\nsize=1T\n' >"$work/far"
head -c 300000 /dev/urandom >"$work/noise"
chmod 755 "$work"
chmod 700 "$work/closed"

find_program() { # NAME ARGUMENT...
    name=$1
    shift
    for p in "$@"; do
        [ "${p##*/}" = "$name" ] && { realpath "$p"; return; }
    done
}

# CODE PROGRAM ARGUMENT..., and a line with what standard error has (a basic regular expression);
# % is the folder of this test, @nobody another user than root
while read -r code name line && read -r words; do
    program=$(find_program "$name" "$@")
    [ -n "$program" ] || continue
    user=
    case $line in '@nobody '*)
        line=${line#@nobody }
        user='setpriv --reuid 65534 --regid 65534 --clear-groups'
        $user "$program" --help >/dev/null 2>&1 || [ $? = 2 ] || continue ;;
    esac
    count=$((count + 1))
    line=$(echo "$line" | sed "s#%#$work/#g")
    # the words of the line are arguments: none has a blank
    # in the folder of this test: one that starts after all leaves its files there
    (cd "$work" && timeout 60 $user "$program" $line >"$work/out" 2>&1 </dev/null)
    rc=$?
    ! grep -q 'set up io_uring' "$work/out" || exit 77
    if [ $rc != "$code" ] || ! grep -q -e "$words" "$work/out"; then
        echo "$name $line: exit code $rc, expected $code and '$words':"
        cat "$work/out"
        failed=1
    fi
done <<'END'
2 kv_server --lisen x
    ^kv_server: unknown option '--lisen': did you mean --listen?
2 kv_server --qqqqqq
    ^kv_server: unknown option '--qqqqqq' (--help
2 kv_server --connections 0
    ^kv_server: --connections: 0 is not between 1 and 60000
2 kv_server --connections x
    ^kv_server: --connections: 'x' is not a number between 1 and 60000
2 kv_server --size 1
    ^kv_server: --size: 1 is not at least 64M
2 kv_server --size 5X
    ^kv_server: --size: '5X' is not a size (N, NK, NM, NG or NT) at least
2 kv_server --connections
    ^kv_server: --connections needs a value
2 kv_server --monolith=yes
    ^kv_server: --monolith takes no value
2 solar_volume server --log error
    ^solar_volume: --log was renamed: use --log-level
1 kvfs_mount --timeout 5 %dir
    ^kvfs_mount: --timeout was renamed: use --attr-timeout
2 kv_load --address 127.0.0.1:1
    ^kv_load: --address was renamed: use --server
2 kv_server --seed 00
    ^kv_server: --seed was renamed: use --hash-seed
2 kv_server --conns 4
    ^kv_server: --conns was renamed: use --connections
2 solar_volume ctl serve --sessions 9
    ^solar_volume: --sessions was renamed: use --connections
2 page_server --log 1M
    ^page_server: --log was renamed: use --log-size
2 kv_server --stats 5x
    ^kv_server: --stats: '5x' is not a time (N, Ns, Nm or Nh) between 0 and 86400
2 kv_server --stats 1500ms
    ^kv_server: --stats: '1500ms' is not a time (N, Ns, Nm or Nh) between
2 kv_server --stats 25h
    ^kv_server: --stats: 25h is not between 0 and 86400
2 kv_server --stats 99999999999999h
    ^kv_server: --stats: 99999999999999h is not between 0 and 86400
2 kv_server --spin 2s
    ^kv_server: --spin: 2s is not between 0 and 1000000
2 kv_server --spin us
    ^kv_server: --spin: 'us' is not a time (N, Nus, Nms or Ns) between
1 kv_load --server 127.0.0.1:1 --value-bytes 1K
    ^kv_load: cannot connect to 127.0.0.1:1: connection refused
2 kv_server --timeout 90m --stats 24h --spin 2ms --listen nowhere:1
    ^kv_server: --listen: 'nowhere:1' is not ADDRESS:PORT
2 kv_server --listen nowhere:1
    ^kv_server: --listen: 'nowhere:1' is not ADDRESS:PORT
2 kv_server --metrics x
    ^kv_server: --metrics: 'x' is not ADDRESS:PORT
2 kv_server extra
    ^kv_server: unexpected argument 'extra'
2 kv_server --segment 17000000
    ^kv_server: --segment: must be a power of two
2 kv_server --listen 0.0.0.0:1
    ^kv_server: --listen: '0.0.0.0:1' can be reached.*--requirepass
1 kv_server --single-process --file %none/img
    error: cannot open image '.*none/img': No such file or directory
1 kv_server --single-process --file %dir
    error: cannot open image '.*dir': Is a directory
1 kv_server --single-process --file %noise
    error: '.*noise' is not a snicstore image and not empty
1 kv_server @nobody --single-process --file %closed/img
    error: cannot open image '.*closed/img': Permission denied
1 kv_server --monolith --dir %text
    error: cannot open directory '.*text': Not a directory
1 kv_server --role dpu --file %img --size 96M --segment 16M --socket %none/s --listen 127.0.0.1:0
    cannot listen for the host role on socket '.*none/s' (--socket): its directory does not
1 kv_server --monolith --dir %kv --segment 16M --listen unix:%none/s
    error: cannot listen on unix:.*none/s (--listen): its directory does not exist
1 kv_server --monolith --dir %kv --segment 16M --listen 192.0.2.1:1 --protected-mode no
    error: cannot listen on 192.0.2.1:1 (--listen): no interface of this machine has the address
1 page_server --monolith --dir %pg --log-size 1M --pages 10 --listen 192.0.2.1:1
    error: cannot listen on 192.0.2.1:1 (--listen): no interface of this machine has
1 page_server --role dpu --file %pimg --log-size 1M --pages 10 --socket %none/s --listen 127.0.0.1:0
    cannot listen for the host role on socket '.*none/s' (--socket): its directory does not
1 director_proxy --listen 192.0.2.1:1
    error: cannot listen on 192.0.2.1:1 (--listen): no interface of this machine has
1 director_proxy --listen 127.0.0.1:0 --metrics 192.0.2.1:1
    error: cannot serve metrics at 192.0.2.1:1: no interface of this machine has
1 solar_volume ctl serve --catalog %cat --listen 192.0.2.1:1 --any-client
    error: cannot listen on 192.0.2.1:1 (--listen): no interface of this machine has
1 solar_volume server --store %sv --store-size 64M --listen 192.0.2.1:1 --any-client
    error: cannot listen on 192.0.2.1:1 (--listen): no interface of this machine has
2 page_server --page-bytes 5000
    ^page_server: --page-bytes: 5000 is not a power of two
2 page_server --monolith --role dpu
    ^page_server: --monolith and --role exclude each other
1 page_server --monolith --dir %text
    error: cannot open '.*text/shape': Not a directory
1 kv_load --server 127.0.0.1:1
    ^kv_load: cannot connect to 127.0.0.1:1: connection refused
2 kv_load --op nothing
    ^kv_load: --op: 'nothing' is not one of get
1 page_load --server 127.0.0.1:1
    ^page_load: cannot connect to 127.0.0.1:1: connection refused
2 director_proxy --server x
    ^director_proxy: --server: 'x' is not ADDRESS:PORT
2 director_proxy --directors 2 --listen unix:/tmp/x
    ^director_proxy: --directors: a UNIX socket (--listen unix:/tmp/x)
2 solar_volume bogus
    ^solar_volume: unknown command 'bogus'
2 solar_volume ctl bogus
    ^solar_volume: ctl: unknown verb 'bogus'
2 solar_volume ctl create
    ^solar_volume: create: arguments are missing: solar_volume ctl create NAME SIZE
2 solar_volume ctl forget x
    ^solar_volume: --server: 'x' is not a number between 1 and 256
1 solar_volume ctl list --control 127.0.0.1:1
    ^solar_volume: list: cannot connect to the catalog at 127.0.0.1:1 (--control): conn
2 solar_volume server
    ^solar_volume: --store FILE is needed
2 solar_volume client
    ^solar_volume: --socket PATH is needed
1 solar_volume server --store %dir --listen 127.0.0.1:0
    error: cannot open .*dir (--store): Is a directory
1 solar_volume server --store %none/st --listen 127.0.0.1:0
    error: cannot open .*none/st (--store): No such file or directory
1 solar_volume @nobody server --store %closed/st --listen 127.0.0.1:0
    error: cannot open .*closed/st (--store): Permission denied
1 solar_volume ctl serve --catalog %dir --listen 127.0.0.1:0
    error: cannot open .*dir (--catalog): Is a directory
16 snic_fsck
    ^Usage: snic_fsck
8 snic_fsck %none
    ^snic_fsck: .*none: No such file or directory
8 snic_fsck %dir
    ^snic_fsck: .*dir: is a directory
8 snic_fsck %noise
    ^snic_fsck: .*noise: not an image of the file service
1 snic_dump @nobody %closed/x
    ^snic_dump: .*closed/x: Permission denied
1 files_local %none/x
    ^files_local: cannot open .*none/x: No such file or directory
1 files_local %noise
    ^files_local: .*noise: not an image, and not empty
0 files_local --help
    ^usage: files_local IMAGE
1 fs_local %none/x
    ^fs_local: .*none/x: cannot make the folder: No such file or directory$
1 fs_local %text
    ^fs_local: .*text: cannot use the folder: Not a directory$
0 fs_local --help
    ^Usage: fs_local
2 hcache_sim extra
    ^hcache_sim: extra: unexpected argument
2 kvfs_tool foo
    ^kvfs_tool: unknown command 'foo'
2 kvfs_tool ls
    ^kvfs_tool: ls: --store is missing
1 kvfs_tool ls --store lmdb:%none
    ^kvfs_tool: lmdb:.*none: there is no store in the folder: make one with 'kvfs_tool mkfs'
1 kvfs_tool ls --store lmdb:%text
    ^kvfs_tool: lmdb:.*text: cannot use the folder: Not a directory$
1 kvfs_tool @nobody ls --store lmdb:%closed
    ^kvfs_tool: lmdb:.*closed: cannot use the folder: Permission denied
1 kvfs_tool mkfs --store lmdb:%none/x
    ^kvfs_tool: lmdb:.*x: cannot make the folder: No such file
0 kvfs_tool mkfs --store lmdb:%fs
    made a file system
1 kvfs_tool mkfs --store lmdb:%fs
    fs holds a file system already (--force
1 kvfs_tool load --store lmdb:%fs %text
    ^kvfs_tool: cannot load .*text: not a directory
1 kvfs_tool cat --store lmdb:%fs /none
    ^kvfs_tool: /none: no such file
1 kvfs_mount
    ^kvfs_mount: the mount point is missing
1 kvfs_mount --lik x %dir
    ^kvfs_mount: unknown option '--lik': did you mean --link?
2 tenants
    ^tenants: --job FILE is missing
1 tenants --job %none --ssd dct983
    ^tenants: cannot open job file .*none: No such file or directory
2 tenants --job %text --ssd dct983
    text:1: 'text' is neither \[name\] nor key=value
1 tenants --job %job --device %dir
    ^tenants: .*dir is neither a file nor a block device
2 hcache_sim --refs 1
    ^hcache_sim: --refs: '1' is not a number from 1000
1 hcache_sim --iolog %none
    ^hcache_sim: .*none: No such file or directory
2 hcache_sim --x 1
    ^hcache_sim: --x: unknown option
2 ddp_cluster --nodes 9
    ^ddp_cluster: --nodes: '9' is not a number between 1 and 7
1 ddp_cluster %none
    ^ddp_cluster: cannot open script '.*none': No such file or directory
2 kv_server --sync interval=99999999999999999999
    ^kv_server: --sync: interval: 99999999999999999999 ms is not between 1 and 3600000
2 kv_server --connections 99999999999999999999
    ^kv_server: --connections: 99999999999999999999 is not between 1 and 60000
2 kv_server --memory 99999999T
    ^kv_server: --memory: 99999999T is not between 32M and 1T
1 kv_server --single-process --file %huge --size 2000000T
    error: cannot make '.*huge' of .* MiB (--size): File too large
1 page_server --role dpu --file %huge --size 2000000T
    error: cannot make '.*huge' of .* MiB (--size): File too large
1 page_server --role dpu --file %huge --pages 4294967296 --page-bytes 64K
    error: cannot make '.*huge' of .* MiB (two copies of the pages, and the log): [FN]
1 page_server --monolith --dir %dir --pages 4294967296 --page-bytes 64K
    error: cannot make '.*dir/pages' of .* MiB (two copies of --pages of --page-bytes): [FN]
2 tenants --job %job --ssd dct983 --size 1024T
    ^tenants: --size: 1125899906842624 bytes is not between 4K and 128T
2 tenants --job %job --ssd dct983 --size 99999999999999999999
    ^tenants: --size: 99999999999999999999 is not between 4K and 1024T
1 tenants --job %job --device %huge --size 1024T
    ^tenants: cannot make '.*huge' of 1073741824 MiB (--size): No space left
2 tenants --job %far --ssd dct983 --size 1M
    far:1: \[a\]: ends beyond the end of the device: offset and size make 1099511627776 bytes, it
2 solar_volume server --store %st --disk 1:9999T
    ^solar_volume: --disk 1:9999T: 9999T is not between 4K and 1024T
2 solar_volume server --store %st --disk 4294967296:1G
    ^solar_volume: --disk 4294967296:1G: 4294967296 is not between 1 and 4294967295
2 solar_volume ctl create x 99999999T
    ^solar_volume: --size: 99999999T is not between 4K and 1024T
END
# What was printed is the result: CODE PROGRAM ARGUMENT...; stdout is a disk that is full.
while read -r code name line; do
    program=$(find_program "$name" "$@")
    [ -n "$program" ] && [ -c /dev/full ] || continue
    count=$((count + 1))
    line=$(echo "$line" | sed "s#%#$work/#g")
    timeout 60 "$program" $line >/dev/full 2>"$work/out" </dev/null
    rc=$?
    if [ $rc != "$code" ] ||
        ! grep -q "^$name: cannot write to stdout: No space left on device" "$work/out"; then
        echo "$name $line >/dev/full: exit code $rc, expected $code and why:"
        cat "$work/out"
        failed=1
    fi
done <<'END'
1 kv_load --help
1 page_load --help
1 solar_volume ctl list --help
1 kvfs_tool stats --store lmdb:%fs
1 tenants --job %job --ssd dct983 --seconds 1
1 hcache_sim --refs 1000
1 ddp_cluster %script
1 snic_dump --help
8 snic_fsck --help
END
echo "$count command lines"
exit $failed
