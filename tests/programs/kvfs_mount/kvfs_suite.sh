#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_suite.sh COMMAND [ARGUMENT...]
#
# Makes a file system in a store, mounts it, runs the command, unmounts, and checks the file system
# (kvfs_common.sh lists the names of stores). MNT among the arguments is the mount point. Those
# between NIGHTLY and END count with SNIC_NIGHTLY only.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
kvfs_open
n=$#
keep=1
while [ $((n -= 1)) -ge 0 ]; do
    a=$1
    shift
    case $a in
    NIGHTLY) keep=$nightly ;;
    END) keep=1 ;;
    MNT) [ -z "$keep" ] || set -- "$@" "$mnt" ;;
    *) [ -z "$keep" ] || set -- "$@" "$a" ;;
    esac
done
"$@" || fail "$1 ended with $?"
kvfs_close
step "unmounted, and found in order"
