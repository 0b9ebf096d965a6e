#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_store.py PROGRAM: a block server's devices: a first format that is killed, a device
that is another than before, blocks that are damaged, and the messages for each; as processes."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import BLOCK, LONG, Nbd, Process, run_tests, until  # noqa: E402


class Store:
    """Servers without a catalog."""

    def __init__(self, program, work):
        self.program, self.work, self.all = program, work, []

    def path(self, name):
        return f"{self.work}/{name}"

    def words(self, *names, size="16M", more=()):
        words = ["server", "--listen", "127.0.0.1:0", "--store-size", size]
        for n in names:
            words += ["--store", self.path(n)]
        return words + list(more)

    def begin(self, name, *words):
        p = Process(self.work, name, self.program, *words)
        self.all.append(p)
        return p

    def serve(self, *names, **how):
        return self.begin("server", *self.words(*names, **how))

    def refused(self, *words, prints):
        """It ends and prints all of that in one line."""
        try:
            r = subprocess.run([self.program, *words], capture_output=True, text=True,
                               timeout=LONG, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"FAILED: {' '.join(words)}: no end in {LONG} s")
        text = r.stdout + r.stderr
        if r.returncode == 0 or not any(all(s in line for s in prints) for line in
                                        text.splitlines()):
            sys.exit(f"FAILED: {' '.join(words)} ({r.returncode}) should print {prints}: {text}")

    def end(self):
        for p in reversed(self.all):
            p.end()


def case_format_killed(world):
    """The first start on two devices is killed at any time; the next one finishes it."""
    for ms in range(0, 60, 3):
        a, b = f"a{ms}", f"b{ms}"
        p = subprocess.Popen([world.program, *world.words(a, b)], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(ms / 1000)
        p.kill()
        p.wait(LONG)
        for _ in range(2):
            world.serve(a, b).end()
        os.remove(world.path(a))
        os.remove(world.path(b))
    with open(world.path("c"), "wb"):  # its maker had not given it a size yet
        pass
    world.serve("c", "d").end()
    assert os.path.getsize(world.path("c")) == 16 << 20


def case_other_device(world):
    """A blank device in the place of one of a store's, or another one, is refused by its name."""
    more = ["--disk", "1:8M"]
    world.serve("a", "b", more=more).end()
    os.rename(world.path("b"), world.path("b.was"))
    for _ in range(2):
        world.refused(*world.words("a", "b", more=more),
                      prints=[world.path("b"), "blank", "--format"])
        with open(world.path("b"), "rb") as f:
            assert f.read(16384) == bytes(16384)
    os.rename(world.path("b.was"), world.path("b"))
    world.refused(*world.words("b", "a", more=more),
                  prints=[world.path("b"), "device 2 of 2", "device 1 of 2"])
    world.refused(*world.words("a", more=more),
                  prints=[world.path("a"), "device 1 of 2", "device 1 of 1"])
    world.serve("e", "f", more=more).end()
    world.refused(*world.words("a", "f", more=more), prints=[world.path("f"), "another"])
    world.serve("a", "b", more=more).end()


def case_named(world):
    """What is wrong is named: a file, an address, a disk, an option's value."""
    with open(world.path("text"), "w", encoding="utf-8") as f:
        f.write("something else\n" * 4000000)
    with open(world.path("small"), "wb") as f:
        f.truncate(1 << 20)
    world.refused(*world.words("text"), prints=[world.path("text"), "--format"])
    world.refused(*world.words("small"), prints=[world.path("small"), str(1 << 20)])
    world.refused(*world.words("none/x"), prints=[world.path("none/x")])
    s = world.serve("a")
    world.refused(*world.words("a"), prints=[world.path("a"), "in use"])
    world.refused(*world.words("b", more=["--listen", s.at]), prints=[s.at])
    world.refused(*world.words("b", more=["--disk", "7:1G"]),
                  prints=["--disk 7", "segment ", "of 512", "places"])
    world.serve("b", more=["--disk", "8:2M"]).end()  # nothing was made of the other
    world.refused(*world.words("b", more=["--disk", "8:5000"]),
                  prints=["8:5000", "multiple of 4096"])
    world.refused(*world.words("b", more=["--format", "--salvage"]),
                  prints=["--format", "--salvage"])
    ctl = ["ctl", "serve", "--listen", "127.0.0.1:0", "--catalog"]
    world.refused(*ctl, world.path("text"), prints=[world.path("text"), "--format"])
    with open(world.path("tiny"), "wb") as f:
        f.truncate(65536)
    world.refused(*ctl, world.path("tiny"), prints=[world.path("tiny"), "65536"])
    world.refused(*ctl, world.path("c"), "--listen", s.at, prints=[s.at])
    world.refused("ctl", "create", "a b", "1G", prints=["'a b' is not the name of a disk"])
    world.refused("ctl", "bogus", prints=["unknown verb 'bogus'"])
    world.refused("bogus", prints=["unknown command 'bogus'"])
    world.refused("client", "--control", s.at, "--disk", "d", "--epoch", "1", "--socket",
                  world.path("n"), prints=["--control", "epoch"])


def case_first_pages(world):
    """A store that has lost its first pages is no blank device."""
    world.serve("a", more=["--disk", "7:2M"]).end()
    with open(world.path("a"), "r+b") as f:
        first = f.read(16384)
        f.seek(0)
        f.write(bytes(16384))
    world.refused(*world.words("a"), prints=[world.path("a"), "first pages", "--format"])
    with open(world.path("a"), "r+b") as f:
        f.write(first)
    world.serve("a", more=["--disk", "7:2M"]).end()


def damage(path, pattern):
    """One byte of each block that begins so, where blocks are at home, behind the log."""
    found = 0
    with open(path, "r+b") as f:
        size = os.path.getsize(path)
        for at in range(9 << 20, size, BLOCK):
            f.seek(at)
            if f.read(len(pattern)) == pattern:
                f.seek(at + 2000)
                f.write(b"!")
                found += 1
    return found


def read(disk, block):
    """@return the error, and the contents"""
    disk.ask(0, block * BLOCK, BLOCK)
    return disk.answer(BLOCK)


def case_damage(world):
    """Damaged blocks are in the server's log, by device, disk and block, a line in five seconds."""
    disk_size, bad = 32 << 20, 300
    more = ["--disk", "5:32M", "--stats", "1"]
    server = world.serve("a", "b", size="64M", more=more)
    at = server.at
    world.begin("client", "client", "--server", at, "--disk", "5", "--size", "32M", "--epoch", "1",
                "--socket", world.path("nbd"))
    disk = Nbd(world.path("nbd"))
    for block in range(0, disk_size // BLOCK, 16):  # the first ones are at home when it ends
        kind = b"damaged " if block < bad else b"healthy "
        data = b"".join((kind + str(block + i).encode()).ljust(BLOCK) for i in range(16))
        assert disk.write(block * BLOCK, data) == 0
    server.end()
    found = damage(world.path("a"), b"damaged "), damage(world.path("b"), b"damaged ")
    assert sum(found) >= bad, found
    server = world.serve("a", "b", size="64M", more=[*more, "--listen", at])
    began = time.monotonic()
    failed = sum(read(disk, block)[0] != 0 for block in range(bad))
    assert failed >= bad, failed
    error, data = read(disk, disk_size // BLOCK - 1)
    assert error == 0 and data.startswith(b"healthy ")

    def logged():  # the last line comes five seconds after the one before
        found = re.findall(r"device (\S+): block (\d+) of disk (\d+) .*checksum mismatch"
                           r"(?:; (\d+) such)?", server.log())
        return found if sum(int(n or 1) for _, _, _, n in found) >= failed else None

    lines = until(logged, f"{failed} reads of damaged blocks are in the log")
    assert len(lines) <= (time.monotonic() - began) / 5 + 2, lines
    for path, block, number, _ in lines:
        assert path in (world.path("a"), world.path("b")) and number == "5", lines
        assert int(block) < bad + 16, lines
    for line in server.p.stdout:
        if int(re.search(r" misread=(\d+)", line).group(1)) >= failed:
            break


def case_salvage(world):
    """A log that is damaged among its writes: refused, and with --salvage opened without those."""
    more = ["--disk", "5:32M"]
    server = world.serve("a", size="64M", more=more)
    at = server.at
    world.begin("client", "client", "--server", at, "--disk", "5", "--size", "32M", "--epoch", "1",
                "--socket", world.path("nbd"))
    disk = Nbd(world.path("nbd"))
    for block in range(64):
        assert disk.write(block * BLOCK, (b"salvage %d" % block).ljust(BLOCK)) == 0
    server.end(hard=True)
    with open(world.path("a"), "r+b") as f:
        log = f.read(9 << 20)
        f.seek(log.index(b"salvage 20 ") + 2000)
        f.write(b"!")
    world.refused(*world.words("a", more=more),
                  prints=[world.path("a"), "log is corrupt", "--salvage"])
    server = world.serve("a", more=[*more, "--listen", at, "--salvage"])
    assert "opened without the lost records" in server.log(), server.log()
    error, lost = read(disk, 20)
    assert error == 0 and lost == bytes(BLOCK), (error, lost[:16])
    for block in [*range(20), *range(21, 64)]:
        error, data = read(disk, block)
        assert error == 0 and data == (b"salvage %d" % block).ljust(BLOCK), (block, error)
    assert disk.write(20 * BLOCK, b"anew".ljust(BLOCK)) == 0
    server.end()
    server = world.serve("a", more=[*more, "--listen", at, "--salvage"])
    assert read(disk, 20) == (0, b"anew".ljust(BLOCK))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def case_other_version(world):
    """A store of an earlier release is refused, with what to do, and left as it is."""
    world.serve("a").end()
    with open(world.path("a"), "r+b") as f:
        for at in (0, 4096):
            f.seek(at)
            page = bytearray(f.read(4096))
            page[12:16] = (1).to_bytes(4, "little")
            page[8:12] = crc32c(page[12:]).to_bytes(4, "little")
            f.seek(at)
            f.write(page)
    with open(world.path("a"), "rb") as f:
        before = f.read(16384)
    world.refused(*world.words("a"), prints=["version 1,", "supports version 2", "nbdcopy"])
    with open(world.path("a"), "rb") as f:
        assert f.read(16384) == before


def case_full(world):
    """A store that was copied with holes to a file system that is full then: the log reports it,
    and what was acknowledged is there when it is served again."""
    world.serve("a", size="64M", more=["--disk", "1:16M"]).end()
    small = world.path("small")
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", small], check=False,
                      capture_output=True).returncode != 0:
        print("  skipped: no tmpfs can be mounted")
        return
    try:
        subprocess.run(["cp", "--sparse=always", world.path("a"), small + "/a"], check=True)
        with open(small + "/fill", "wb") as f:
            f.write(bytes(50 << 20))
        words = ["server", "--listen", "127.0.0.1:0", "--store", small + "/a", "--disk", "1:16M"]
        done = 0
        for n in (1, 2):
            server = world.begin(f"full{n}", *words)
            client = world.begin(f"client{n}", "client", "--server", server.at, "--disk", "1",
                                 "--size", "16M", "--epoch", str(n), "--io-timeout",
                                 "3" if n == 1 else str(LONG), "--socket",
                                 world.path(f"nbd{n}"))
            nbd = Nbd(world.path(f"nbd{n}"))
            end = time.monotonic() + LONG
            while n == 1 and done < 4096:  # a server without CPU may fail a write, too
                assert time.monotonic() < end, server.log()
                if nbd.write(done * BLOCK, bytes([7]) * BLOCK) == 0:
                    done += 1
                elif "its file system is full" in server.log():
                    break
            for i in range(done if n == 2 else 0):
                assert nbd.read(i * BLOCK, BLOCK) == bytes([7]) * BLOCK, i
            nbd.s.close()
            client.end(hard=True)
            server.end()
            if n == 1:
                assert done < 4096 and "its file system is full" in server.log(), server.log()
                os.unlink(small + "/fill")
    finally:
        world.end()
        subprocess.run(["umount", small], check=False)


CASES = [case_other_version, case_format_killed, case_other_device, case_named, case_first_pages,
         case_damage, case_full, case_salvage]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], CASES, Store))
