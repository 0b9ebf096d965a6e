# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Inodes without a name that are still in use: by O_PATH, as current folder, as a bind mount.

kvfs_held.py compare MOUNT FOLDER   the same in both, answer by answer
kvfs_held.py hold MOUNT             hold some, report it, and wait until standard input ends
kvfs_held.py storm MOUNT            many, by several processes, with and without holders
"""
import os
import socket
import stat
import subprocess
import sys


def answer(use):
    try:
        return use()
    except OSError as e:
        return e.strerror


def put(path, text):
    with open(path, "w") as f:
        f.write(text)


def get(path):
    with open(path) as f:
        return f.read()


def again(fd, flags=os.O_RDONLY):
    return os.open("/proc/self/fd/%d" % fd, flags)


def read_again(fd):
    new = again(fd)
    try:
        return os.pread(new, 1 << 20, 0)
    finally:
        os.close(new)


def write_again(fd, data):
    new = again(fd, os.O_WRONLY)
    try:
        return os.pwrite(new, data, 0)
    finally:
        os.close(new)


def held_file(top, out, gone):
    p = top + "/file"
    put(p, "abc" * 5000)
    os.setxattr(p, "user.a", b"1")
    fd = os.open(p, os.O_PATH)
    gone(p)
    name = "/proc/self/fd/%d" % fd
    out.append(("fstat", answer(lambda: (os.fstat(fd).st_size, os.fstat(fd).st_nlink))))
    out.append(("read", answer(lambda: read_again(fd))))
    out.append(("write", answer(lambda: write_again(fd, b"x" * 20000))))
    out.append(("read it", answer(lambda: read_again(fd))))
    out.append(("chmod", answer(lambda: os.chmod(name, 0o640))))
    out.append(("truncate", answer(lambda: os.truncate(name, 7))))
    out.append(("xattr", answer(lambda: os.getxattr(name, "user.a"))))
    out.append(("set xattr", answer(lambda: os.setxattr(name, "user.b", b"22"))))
    out.append(("its xattr", answer(lambda: os.getxattr(name, "user.b"))))
    out.append(("utime", answer(lambda: os.utime(name, (1, 2)))))
    out.append(("as it is", answer(lambda: [getattr(os.fstat(fd), "st_" + w) for w in (
        "mode", "size", "nlink", "mtime")])))
    out.append(("link", answer(lambda: os.link(name, top + "/link", follow_symlinks=True))))
    first, second = again(fd), again(fd)
    os.close(first)
    out.append(("the second", answer(lambda: os.pread(second, 9, 0))))
    os.close(fd)
    out.append(("the last", answer(lambda: os.pread(second, 9, 0))))
    os.close(second)


def held_folder(top, out):
    p = top + "/folder"
    os.mkdir(p)
    put(p + "/x", "in")
    back = os.open(".", os.O_RDONLY)
    os.chdir(p)
    os.unlink("x")
    os.rmdir(p)
    out.append(("list", answer(lambda: os.listdir("."))))
    out.append(("stat", answer(lambda: (os.stat(".").st_nlink, oct(os.stat(".").st_mode)))))
    out.append(("create", answer(lambda: put("y", "no"))))
    out.append(("mkdir", answer(lambda: os.mkdir("z"))))
    out.append(("look", answer(lambda: os.stat("x"))))
    out.append(("chmod", answer(lambda: os.chmod(".", 0o700))))
    out.append(("up", answer(lambda: os.path.samefile("..", top))))
    os.fchdir(back)
    os.close(back)


def held_mounts(top, out):
    put(top + "/conf", "old")
    os.mkdir(top + "/dir")
    put(top + "/dir/x", "in")
    at = os.path.dirname(os.path.dirname(top)) + "/bound"
    os.makedirs(at + "/dir", exist_ok=True)
    put(at + "/conf", "")
    for name in "conf", "dir":
        subprocess.run(["mount", "--bind", top + "/" + name, at + "/" + name], check=True)
    try:
        put(top + "/conf.new", "new")
        os.rename(top + "/conf.new", top + "/conf")
        os.unlink(top + "/dir/x")
        os.rmdir(top + "/dir")
        out.append(("bound", answer(lambda: get(at + "/conf"))))
        out.append(("bound stat", answer(lambda: os.stat(at + "/conf").st_nlink)))
        out.append(("bound write", answer(lambda: put(at + "/conf", "more"))))
        out.append(("bound again", answer(lambda: get(at + "/conf"))))
        out.append(("replaced", answer(lambda: get(top + "/conf"))))
        out.append(("bound folder", answer(lambda: os.listdir(at + "/dir"))))
    finally:
        for name in "conf", "dir":
            subprocess.run(["umount", at + "/" + name], check=True)
    os.unlink(top + "/conf")


def held_others(top, out):
    s = socket.socket(socket.AF_UNIX)
    s.bind(top + "/socket")
    os.unlink(top + "/socket")
    out.append(("socket", os.path.basename(s.getsockname())))
    os.symlink("target", top + "/link")
    fd = os.open(top + "/link", os.O_PATH | os.O_NOFOLLOW)
    os.unlink(top + "/link")
    out.append(("symlink", answer(lambda: os.readlink("", dir_fd=fd))))
    os.close(fd)
    os.mkfifo(top + "/fifo")
    fd = os.open(top + "/fifo", os.O_PATH)
    os.rename(top + "/fifo", top + "/other")
    os.unlink(top + "/other")
    out.append(("fifo", answer(lambda: stat.S_ISFIFO(os.fstat(fd).st_mode))))
    os.close(fd)


def replace(p):
    put(p + ".new", "another")
    os.rename(p + ".new", p)
    os.unlink(p)


def run(top):
    top = os.path.abspath(top) + "/held"
    os.mkdir(top)
    out = []
    held_file(top, out, os.unlink)
    held_file(top, out, replace)
    held_folder(top, out)
    held_mounts(top, out)
    held_others(top, out)
    os.rmdir(top)
    return out


def compare(mount, folder):
    bad = 0
    expected, got = run(folder), run(mount)
    for (what, want), (_, have) in zip(expected, got):
        if have != want:
            bad += 1
            print("%s: %s, expected %s" % (what, have, want))
    assert bad == 0 and len(got) == len(expected)


def hold(mount):
    held = []
    for i in range(20):
        p = "%s/held%d" % (mount, i)
        put(p, "x" * (1000 if i % 2 else 100000))
        os.setxattr(p, "user.a", b"1")
        held.append(os.open(p, os.O_PATH))
        os.unlink(p)
    top = os.open(mount, os.O_RDONLY)
    os.fsync(top)  # no sync(): the kernel does not pass that on, and what is killed next forgets
    os.close(top)
    print("held", flush=True)
    sys.stdin.read()
    alive = sum(answer(lambda fd=fd: len(read_again(fd))) in (1000, 100000) for fd in held)
    print("alive", alive, flush=True)


def storm_one(top, number):
    os.makedirs(top, exist_ok=True)
    held = []
    for i in range(150):
        p = "%s/%d.%d" % (top, number, i)
        put(p, str(i))
        if i % 3 == 0:
            held.append((i, os.open(p, os.O_PATH)))
        if i % 7 == 0:
            os.listdir(top)
            sum(e.stat().st_size for e in os.scandir(top) if e.name.startswith("%d." % number))
        os.unlink(p)
        if len(held) > 10:
            want, fd = held.pop(0)
            have = read_again(fd)
            assert have == str(want).encode(), (have, want)
            os.close(fd)
    for want, fd in held:
        assert read_again(fd) == str(want).encode()
        os.close(fd)


def storm(mount):
    pids = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            storm_one(mount + "/storm", number)
            os._exit(0)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    os.rmdir(mount + "/storm")


if __name__ == "__main__":
    {"compare": compare, "hold": hold, "storm": storm}[sys.argv[1]](*sys.argv[2:])
