# SPDX-License-Identifier: Apache-2.0 OR MIT
# overlayfs with the mount as its upper folder: what docker and podman keep their data on.
. "$(dirname "$0")/kvfs_common.sh"
exec </dev/null
kvfs_open
low=$work/low merged=$work/merged
mkdir -p "$low/d/e" "$merged" "$mnt/up" "$mnt/work"
echo low >"$low/f"
echo low >"$low/d/e/g"
echo low >"$low/gone"
overlay_away() {
    rc=$?
    umount "$merged" 2>/dev/null
    (exit $rc)
    kvfs_finish
}
trap overlay_away EXIT
overlay_on() {
    mount -t overlay overlay -o "lowerdir=$low,upperdir=$mnt/up,workdir=$mnt/work" "$merged" \
        2>"$work/overlay" && return
    grep -q "unknown filesystem" "$work/overlay" && skip "no overlayfs in this kernel"
    fail "overlay refuses the mount as its upper folder: $(cat "$work/overlay")"
}
overlay_on
step "changes above a lower folder"
echo up >"$merged/f"
rm "$merged/gone"
mv "$merged/d/e/g" "$merged/d/h" || fail "mv of a lower file"
mv "$merged/d/e" "$merged/d/moved" 2>"$work/mv" || cat "$work/mv"
rm -r "$merged/d"
mkdir "$merged/d"
echo new >"$merged/d/new"
look() {
    [ "$(cat "$merged/f")" = up ] || fail "a changed file"
    [ ! -e "$merged/gone" ] || fail "a removed file is there"
    [ "$(ls "$merged/d")" = new ] || fail "a folder made anew has: $(ls "$merged/d")"
}
look
umount "$merged"
[ "$(cat "$low/f")" = low ] && [ -e "$low/gone" ] && [ -e "$low/d/e/g" ] ||
    fail "the lower folder has changed"
[ "$(stat -c '%F %t:%T' "$mnt/up/gone")" = "character special file 0:0" ] ||
    fail "no whiteout: $(stat "$mnt/up/gone")"
step "the same after mounting anew"
kvfs_unmount
kvfs_again
overlay_on
look
umount "$merged"
kvfs_close
