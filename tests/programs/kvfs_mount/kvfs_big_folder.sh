#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# kvfs_big_folder.sh: a folder with many entries is emptied by two while two others list it and one
# makes more entries (kvfs_big_folder.py). Then it can be removed, and the file system is in order.
set -u
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
entries=20000
[ -z "$nightly" ] || entries=100000
# On RADOS each listing asks the cluster for all of them.
[ "$store" != rados ] || [ -z "$nightly" ] || entries=30000
kvfs_open
# shellcheck disable=SC2086
python3 "$(dirname "$0")/kvfs_big_folder.py" "$mnt/d" ${KVFS_ENTRIES:-$entries} ||
    fail "a big folder"
[ -z "$(ls -A "$mnt")" ] || fail "something is left: $(ls -A "$mnt")"
kvfs_close
step "unmounted, and found in order"
