# SPDX-License-Identifier: Apache-2.0 OR MIT
# Set-uid, set-gid and file capabilities after every operation, beside a plain folder.
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
kvfs_open
mkdir "$work/plain"
python3 - "$work/plain" <<'END' || skip "no file capabilities in $work"
import os, sys
p = sys.argv[1] + "/x"
open(p, "w").close()
os.setxattr(p, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
os.setxattr(p, "system.posix_acl_access", bytes.fromhex(
    "02000000" "01000600ffffffff" "02000700d2070000" "04000400ffffffff" "10000700ffffffff"
    "20000400ffffffff"))
END
rm "$work/plain/x"
timeout 1200 python3 "$(dirname "$0")/kvfs_setid.py" "$mnt" "$work/plain" || fail "they differ"
kvfs_close
