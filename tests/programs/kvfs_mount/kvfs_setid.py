# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What takes set-uid, set-gid and file capabilities, beside a folder of the system's own.

kvfs_setid.py MOUNT FOLDER: every operation by every caller on files of every mode, with and
without capabilities, in both; what is left has to be the same, but for what STRICTER lists.
"""
import ctypes
import mmap
import os
import sys

OWNER, OTHER, GROUP = 2001, 2002, 3001
CAPS = bytes.fromhex("0100000200040000000000000000000000000000")
MODES = (0o6777, 0o2767, 0o4755, 0o6666)
CALLERS = {  # uid, gid, further groups
    "root": (0, 0, []),
    "owner": (OWNER, OWNER, []),
    "owner, member": (OWNER, OWNER, [GROUP, 7]),
    "other": (OTHER, OTHER, []),
    "other, member": (OTHER, OTHER, [7, GROUP]),
    "other, of the group": (OTHER, GROUP, []),
}
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
libc.copy_file_range.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                                 ctypes.c_size_t, ctypes.c_uint]


def opened(path, flags, use):
    fd = os.open(path, flags)
    try:
        use(fd)
    finally:
        os.close(fd)


def call(rc):
    if rc < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def allocate(mode, at, size):
    return lambda p: opened(p, os.O_RDWR, lambda fd: call(libc.fallocate(fd, mode, at, size)))


def from_source(use):
    def run(p):
        opened(p, os.O_RDWR, lambda fd: opened(
            os.path.join(os.path.dirname(p), "source"), os.O_RDONLY, lambda s: use(s, fd)))
    return run


def mapped(p):
    def store(fd):
        m = mmap.mmap(fd, 4096)
        m[0] = 1
        m.flush()
        m.close()
    opened(p, os.O_RDWR, store)


def direct(fd):
    os.pwritev(fd, [mmap.mmap(-1, 4096)], 0)


OPERATIONS = {
    "write": lambda p: opened(p, os.O_WRONLY, lambda fd: os.pwrite(fd, b"a", 0)),
    "write direct": lambda p: opened(p, os.O_WRONLY | os.O_DIRECT, direct),
    "append": lambda p: opened(p, os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"a")),
    "write sync": lambda p: opened(p, os.O_WRONLY | os.O_SYNC, lambda fd: os.write(fd, b"a")),
    "truncate": lambda p: os.truncate(p, 6000),
    "truncate to its size": lambda p: os.truncate(p, 4096),
    "ftruncate": lambda p: opened(p, os.O_RDWR, lambda fd: os.ftruncate(fd, 5000)),
    "open truncated": lambda p: opened(p, os.O_WRONLY | os.O_TRUNC, lambda fd: None),
    "allocate": allocate(0, 0, 9000),
    "allocate behind the end": allocate(1, 0, 90000),
    "punch": allocate(3, 0, 4096),
    "zero": allocate(16, 0, 4096),
    "copy": from_source(lambda s, fd: call(libc.copy_file_range(s, None, fd, None, 50, 0))),
    "sendfile": from_source(lambda s, fd: os.sendfile(fd, s, 0, 10)),
    "mapped store": mapped,
    "chown nothing": lambda p: os.chown(p, -1, -1),
    "chown nothing, open": lambda p: opened(p, os.O_WRONLY, lambda fd: os.chown(p, -1, -1)),
    "chown to the same": lambda p: os.chown(p, OWNER, GROUP),
    "chgrp": lambda p: os.chown(p, -1, 7),
    "chown": lambda p: os.chown(p, OTHER, -1),
    "chmod": lambda p: os.chmod(p, 0o6755),
    "setxattr": lambda p: os.setxattr(p, "user.a", b"1"),
    "set acl": lambda p: os.setxattr(p, "system.posix_acl_access", bytes.fromhex(
        "02000000" "01000700ffffffff" "02000700d2070000" "04000500ffffffff" "10000700ffffffff"
        "20000500ffffffff")),
    "utime": lambda p: os.utime(p),
    "link": lambda p: os.link(p, p + ".link"),
    "rename": lambda p: os.rename(p, p + ".moved"),
}


def stricter(operation, caller, mode, caps):
    """What FUSE does not let a file system know, or the kernel does by itself."""
    uid = CALLERS[caller][0]
    if operation == "mapped store":
        return caps  # written back, it is a write: capabilities go
    if operation == "chown nothing, open" and uid == OTHER:
        return True  # it may be a write: success without effect instead of EPERM
    # The kernel announces the end of capabilities by root's write as a chown to nothing.
    return caps and uid == 0 and operation in (
        "write", "write direct", "append", "write sync", "allocate", "allocate behind the end",
        "punch", "zero", "copy", "sendfile")


def left(p):
    for name in p, p + ".moved":
        if os.path.exists(name):
            mode = os.stat(name).st_mode & 0o7777
            return mode, "security.capability" in os.listxattr(name)
    return None


def carry_out(folder, caller, cases):
    """The caller does it all; what each ended with comes back by a pipe."""
    uid, gid, groups = CALLERS[caller]
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        for number, (operation, _, _) in enumerate(cases):
            try:
                OPERATIONS[operation](os.path.join(folder, str(number)))
                os.write(theirs, bytes([0]))
            except OSError as e:
                os.write(theirs, bytes([e.errno]))
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as f:
        results = f.read()
    assert os.waitpid(pid, 0)[1] == 0 and len(results) == len(cases), (caller, len(results))
    return results


def run(top, caller):
    folder = os.path.join(top, "setid")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    with open(os.path.join(folder, "source"), "wb") as f:
        f.write(b"s" * 100000)
    os.chmod(os.path.join(folder, "source"), 0o644)
    cases = [(o, m, c) for o in OPERATIONS for m in MODES for c in (False, True)]
    for number, (_, mode, caps) in enumerate(cases):
        p = os.path.join(folder, str(number))
        with open(p, "wb") as f:
            f.write(b"x" * 4096)
        os.chown(p, OWNER, GROUP)
        os.chmod(p, mode)
        if caps:
            os.setxattr(p, "security.capability", CAPS)
    results = carry_out(folder, caller, cases)
    out = {}
    for number, case in enumerate(cases):
        out[case] = (os.strerror(results[number]), left(os.path.join(folder, str(number))))
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    return out


def is_stricter(ours, theirs):
    """Nothing is kept that the other took."""
    return (ours[1] is not None and theirs[1] is not None and
            ours[1][0] & ~theirs[1][0] == 0 and ours[1][1] <= theirs[1][1])


bad = count = 0
os.umask(0)
for caller in CALLERS:
    expected, got = run(sys.argv[2], caller), run(sys.argv[1], caller)
    for (op, mode, caps), want in expected.items():
        have = got[(op, mode, caps)]
        count += 1
        if have == want:
            continue
        if stricter(op, caller, mode, caps) and is_stricter(have, want):
            continue
        bad += 1
        print("%s by %s, %o%s: %s, expected %s"
              % (op, caller, mode, ", capabilities" if caps else "", have, want))
assert bad == 0, "%d of %d differ" % (bad, count)
print("%d cases as in %s" % (count, sys.argv[2]))
