#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""nvme_target --config and `nvme_target ctl`: test_nvme_ctl.py NVME_TARGET [NAME...]"""
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile

from nvmectl import HOST_A, HOST_B, NQN, WAIT, Target, answer, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from stopped import stop_and_continue, stopped_in_connect  # noqa: E402

SUB = ["subsystem " + NQN, "host %s %s" % (NQN, HOST_A)]


@contextlib.contextmanager
def serving(binary, lines=tuple(SUB), options=(), env=None):
    t = Target(binary, lines, options, env)
    try:
        error = t.start()
        assert error is None, error
        yield t
    finally:
        t.close()


def test_bad_lines_named(binary):
    """Each bad line is refused with the file, the line and the word, and nothing is served."""
    cases = [
        ("nonsense", "none of listen"),
        ("subsystem", "NQN is missing"),
        ("subsystem " + "n" * 224, "1 to 223"),
        ("subsystem nqn.2014-08.org.nvmexpress.discovery", "discovery subsystem"),
        ("subsystem " + NQN, "named twice"),
        ("subsystem s serial=123456789012345678901", "1 to 20"),
        ("subsystem s serial", "not one of its settings"),
        ("host", "is missing"),
        ("host nowhere " + HOST_B, "'nowhere' is not"),
        ("host %s %s" % (NQN, HOST_A), "named twice"),
        ("host %s any from=1.2.3.4" % NQN, "needs the NQN"),
        ("host %s b from=1.2.3" % NQN, "not an IPv4 or IPv6"),
        ("host %s b from=1.2.3.4/33" % NQN, "between 0 and 32"),
        ("host %s b from=1.2.3.4/8" % NQN, "behind its prefix"),
        ("host %s b from=::1/129" % NQN, "between 0 and 128"),
        ("host %s b from=" % NQN, "no address"),
        ("host %s b from=" % NQN + ",".join("10.0.0.%d" % i for i in range(9)), "at most 8"),
        ("namespace", "NQN is missing"),
        ("namespace %s 1" % NQN, "one of file=PATH, memory=BYTES"),
        ("namespace %s 1 memory=1M file=x" % NQN, "one of file=PATH, memory=BYTES"),
        ("namespace %s 0 memory=1M" % NQN, "between 1 and"),
        ("namespace %s 65 memory=1M" % NQN, "--namespaces"),
        ("namespace %s memory=1000" % NQN, "multiple of 4K"),
        ("namespace %s memory=1M read-only" % NQN, "no contents"),
        ("namespace %s file=" % NQN, "path is missing"),
        ("namespace %s file=x size=1" % NQN, "between 4096"),
        ("namespace %s file=x size=5000" % NQN, "multiple of 512"),
        ("namespace %s solar=x disk=1 size=1M" % NQN, "not ADDRESS:PORT"),
        ("namespace %s solar=127.0.0.1:7000 size=1M" % NQN, "belong together"),
        ("namespace %s memory=1M disk=1" % NQN, "belong together"),
        ("namespace %s memory=1M epoch=1" % NQN, "belong together"),
        ("namespace %s solar=127.0.0.1:7000 disk=1" % NQN, "needs its size="),
        ("namespace %s solar=127.0.0.1:7000 disk=1 size=1M epoch=65536" % NQN, "between 1"),
        ("namespace %s memory=1M ssd=x" % NQN, "not dct983 or p3600"),
        ("namespace %s file=x ssd=p3600" % NQN, "needs memory=BYTES"),
        ("namespace %s file=x uuid=1" % NQN, "hexadecimal"),
        ("namespace %s file=x uuid=00000000-0000-0000-0000-000000000000" % NQN, "zero"),
        ("namespace %s file=x group=17" % NQN, "between 1 and 16"),
        ("namespace %s file=/nowhere/at/all" % NQN, "/nowhere/at/all"),
        ("namespace %s file=/nowhere read-only" % NQN, "No such file"),
        ("namespace %s file=/dev" % NQN, "/dev"),
        ("weight %s 2" % HOST_A, "--fair"),
        ("cap %s bytes=1" % HOST_A, "--fair"),
        ("floor %s bytes=1" % HOST_A, "--fair"),
        ("group gold weight=2", "--fair"),
        ("group g/ld", "letters, digits"),
        ("group none", "is not none"),
        ("group", "NAME is missing"),
        ("member %s gold" % HOST_A, "--fair"),
        ("member %s" % HOST_A, "is needed"),
        ("listen 127.0.0.1:4420", "contradicts --listen"),
        ("listen unix:/x", "not ADDRESS:PORT"),
        ('host %s "b' % NQN, "not closed"),
        ("host %s b\x07" % NQN, "control character"),
        ("x " * 40, "more than 32 words"),
        ("x" * 9000, "at most 8192 bytes"),
    ]
    t = Target(binary)
    for line, text in cases:
        t.write(["# two lines", *SUB, line])
        with open(t.path("log"), "w", encoding="utf-8"):
            pass
        error = t.start()
        assert error is not None and "%s:4: " % t.config in error and text in error, \
            "%s: not '%s': %s" % (line, text, error)
        assert t.process.returncode == 1 and not os.path.exists(t.socket)
    t.close()


def test_options_contradict(binary):
    t = Target(binary)
    assert "contradicts" in t.start(["--subsystem", NQN])
    os.unlink(t.config)
    assert "cannot read" in t.start()
    t.close()


def test_namespace_add_remove(binary):
    """In effect and saved when answered; a restart has the same."""
    with serving(binary) as t:
        first = t.good("namespace", "add", NQN, "file=" + t.path("a b"), "size=1M")
        assert first == "namespace 1\n"
        assert t.good("namespace", "add", NQN, "memory=64K") == "namespace 2\n"
        assert t.good("namespace", "add", NQN, "7", "memory=64K", "group=3",
                      "uuid=12345678-9abc-def0-1234-56789abcdef0") == "namespace 7\n"
        assert os.path.getsize(t.path("a b")) == 1 << 20
        config = t.good("show", "config")
        assert config == t.read()
        assert "uuid=12345678-9abc-def0-1234-56789abcdef0 group=3\n" in config
        show = t.good("show")
        assert "namespace 1: %s, 1048576 bytes" % t.path("a b") in show, show
        t.good("namespace", "remove", NQN, "2")
        assert "namespace 2" not in t.good("show")
        assert t.good("namespace", "add", NQN, "memory=128K") == "namespace 2\n"
        config = t.read()
        t.stop()
        assert t.start() is None
        assert t.good("show", "config") == config
        t.kill()
        assert t.start() is None
        assert t.good("show", "config") == config and t.read() == config
        t.bad("is not a subsystem", "namespace", "add", "nowhere", "memory=64K")
        t.bad("there is one already", "namespace", "add", NQN, "1", "memory=64K")
        t.bad("one of file", "namespace", "add", NQN)
        t.bad("NQN is missing", "namespace", "add")
        t.bad("in use", "namespace", "add", NQN, "file=" + t.path("a b"))
        t.bad("No such file", "namespace", "add", NQN, "file=" + t.path("x/y"))
        t.bad("has no namespace 9", "namespace", "remove", NQN, "9")
        t.bad("NQN ID is needed", "namespace", "remove", NQN)
        t.bad("not a number", "namespace", "remove", NQN, "x")
        t.bad("is not a command", "namespace", "grow", NQN)
        t.bad("is not a command", "nonsense")
        t.bad("neither config nor stats", "show", "x")
        t.bad("without --auth-keys", "reload")
        t.stop()


def test_weight_and_cap(binary):
    with serving(binary, [*SUB, "namespace %s 1 memory=64K" % NQN], ["--fair"]) as t:
        t.good("weight", HOST_A, "4")
        t.good("cap", HOST_A, "bytes=10M", "iops=100")
        t.good("cap", HOST_B, "iops=1K")
        t.good("floor", HOST_A, "bytes=10M", "iops=100")
        t.good("floor", HOST_B, "bytes=2M")
        t.good("namespace", "add", NQN, "memory=64K")
        config = t.read()
        assert "weight %s 4\n" % HOST_A in config
        assert "cap %s bytes=10485760 iops=100\n" % HOST_A in config
        assert "floor %s bytes=10485760 iops=100\n" % HOST_A in config
        assert "floor %s bytes=2097152 iops=0\n" % HOST_B in config
        assert "tenant %s: weight 1, cap 0 bytes, 1024 I/Os a second, floor 2097152 bytes, " \
            "0 I/Os a second\n" % HOST_B in t.good("show")
        t.bad("is missing", "floor", HOST_A)
        t.bad("not one of its settings", "floor", HOST_A, "speed=1")
        t.bad("between 0 and", "floor", HOST_A, "bytes=2T")
        t.bad("floor of 10485761 bytes is above the cap", "floor", HOST_A, "bytes=10485761")
        t.bad("floor of 101 I/Os is above the cap", "floor", HOST_A, "iops=101")
        t.bad("floor of 10485760 bytes is above the cap", "cap", HOST_A, "bytes=1M")
        t.bad("between 1 and", "weight", HOST_A, "0")
        t.bad("is missing", "weight", HOST_A)
        t.bad("is missing", "cap", HOST_A)
        t.bad("not one of its settings", "cap", HOST_A, "speed=1")
        t.bad("between 0 and", "cap", HOST_A, "bytes=2T")
        t.kill()
        assert t.start() is None and t.good("show", "config") == config
        for i in range(20):  # changed again and again
            t.good("floor", HOST_A, "bytes=%dK" % (i + 1))
            t.good("cap", HOST_A, "bytes=%dM" % (i + 1))
        t.good("cap", HOST_A, "bytes=0")
        t.good("floor", HOST_A, "bytes=0")
        t.good("weight", HOST_A, "1")
        assert HOST_A not in "".join(x for x in t.read().splitlines() if not x.startswith("host"))
        t.stop()


def test_groups_of_hosts(binary):
    """Added, changed, left and removed; a restart has the same, a refusal changes nothing."""
    with serving(binary, [*SUB, "namespace %s 1 memory=64K" % NQN], ["--fair"]) as t:
        t.good("group", "set", "gold", "weight=4", "bytes=10M", "floor-iops=100")
        t.good("group", "set", "rest")
        t.good("member", HOST_A, "gold")
        t.good("member", HOST_B, "gold")
        t.good("floor", HOST_B, "iops=50")
        t.good("namespace", "add", NQN, "memory=64K")
        config = t.read()
        assert "group gold weight=4 bytes=10485760 iops=0 floor-bytes=0 floor-iops=100\n" in config
        assert "group rest weight=1 bytes=0 iops=0 floor-bytes=0 floor-iops=0\n" in config
        assert "member %s gold\n" % HOST_A in config
        assert "group gold: weight 4, cap 10485760 bytes" in t.good("show")
        t.bad("not a group of hosts", "member", HOST_A, "silver")
        t.bad("is needed", "member", HOST_A)
        t.bad("not one of its settings", "group", "set", "gold", "speed=1")
        t.bad("between 1 and", "group", "set", "gold", "weight=0")
        t.bad("floor of 10485761 bytes is above", "group", "set", "gold", "floor-bytes=10485761")
        t.bad("has hosts", "group", "remove", "gold")
        t.bad("not a group of hosts", "group", "remove", "silver")
        t.bad("is needed", "group", "remove")
        t.bad("NAME is missing", "group", "set")
        t.kill()
        assert t.start() is None and t.good("show", "config") == config
        for i in range(20):
            t.good("group", "set", "gold", "iops=%d" % (i * 1000 + 200))
            t.good("member", HOST_A, "rest" if i % 2 else "gold")
        t.good("member", HOST_A, "none")
        t.good("member", HOST_B, "none")
        t.good("group", "remove", "gold")
        t.good("group", "remove", "rest")
        assert "group" not in t.read().replace(" group=", "") and "member" not in t.read()
        for i in range(32):
            t.good("group", "set", "g%d" % i)
        t.bad("at most 32 groups", "group", "set", "one-more")
        t.stop()


def test_save_elsewhere(binary):
    with serving(binary) as t:
        t.good("save", t.path("copy"))
        t.good("save")
        with open(t.path("copy"), encoding="utf-8") as f:
            assert f.read() == t.read()
        t.bad("cannot write", "save", t.path("no/where"))
        t.bad("one FILE", "save", "a", "b")
        os.unlink(t.config)
        os.mkdir(t.config)  # in effect, but not saved: that is the answer
        code, _, err = t.ctl("namespace", "add", NQN, "memory=64K")
        assert code == 1 and "not saved" in err and "namespace 1" in t.good("show")
        os.rmdir(t.config)
        t.good("save")
        assert t.read() == t.good("show", "config")
        t.stop()


def test_clients_that_hang_or_send_too_much(binary):
    """Half a command, no command, an answer that is not read: others are served."""
    with serving(binary) as t:
        hang = [t.raw() for _ in range(40)]
        for i, s in enumerate(hang):
            with contextlib.suppress(OSError):
                s.sendall(b"namespace add" if i % 2 else b"show config\n")
        for i in range(20):
            while t.ctl("namespace", "add", NQN, "memory=64K")[0] != 0:
                pass  # each try closes the oldest
            t.good("namespace", "remove", NQN, "1")
        for s in hang:
            s.close()
        s = t.raw()
        s.sendall(b"x" * 9000)
        assert "at most 8192 bytes" in answer(s)
        s = t.raw()
        s.sendall(b"show\0\n")
        assert "byte that is 0" in answer(s)
        s = t.raw()
        s.sendall(b'show "\n')
        assert "not closed" in answer(s)
        s = t.raw()
        s.sendall(b"\nshow\nshow\n")
        assert "is not a command" in answer(s)
        s = t.raw()
        s.sendall(b"sh")
        s.sendall(b"ow config\nnamespace remove %s 1\n" % NQN.encode())
        assert answer(s) == t.read() + "ok\n" if os.path.getsize(t.config) else True
        s = t.raw()  # its command is carried out though it leaves
        s.sendall(b"namespace add %s 5 memory=64K\n" % NQN.encode())
        s.close()
        for _ in range(200):
            if "namespace 5" in t.good("show"):
                break
        else:
            raise AssertionError("the command was lost")
        t.stop()


def random_words(rng):
    """A command, often a good one."""
    nqn = rng.choice(["nqn.s%d" % rng.randrange(3), NQN, "nqn s", ""])
    host = rng.choice(["nqn.h%d" % rng.randrange(3), HOST_A, "any", "h" * 224])
    number = rng.choice(["0", "1", "2", "3", "16", "17", "x", "-1", "4096", "99999999999999999999"])
    words = rng.choice([
        ["subsystem", "add", nqn], ["subsystem", "remove", nqn], ["host", "allow", nqn, host],
        ["host", "allow", nqn, host, "from=10.%s.0.0/16" % number, "from=::1"],
        ["host", "deny", nqn, host], ["namespace", "add", nqn, number, "memory=64K"],
        ["namespace", "add", nqn, "memory=%sK" % number, "group=" + number],
        ["namespace", "remove", nqn, number],
        ["namespace", "resize", nqn, number, rng.choice(["4K", "64K", "1M", number])],
        ["ana", nqn, number, "0", rng.choice(["lost", "optimized", "x"])],
        ["weight", host, number], ["cap", host, "bytes=" + number, "iops=" + number],
        ["floor", host, "bytes=" + number, "iops=1"],
        ["group", "set", "g" + number, "weight=" + number, "bytes=%sM" % number],
        ["group", "set", "g1", "floor-iops=" + number], ["group", "remove", "g" + number],
        ["member", host, rng.choice(["g1", "g2", "none"])], ["show", "stats"],
        ["show"], ["save"], ["save", "/nowhere/at/all"]])
    if rng.randrange(6) == 0:
        words.insert(rng.randrange(len(words) + 1), rng.choice(["", "size=4K", "\"", "#", "\\"]))
    return words[:rng.randrange(1, 9)]


def test_random_commands(binary):
    """Refused commands change nothing, what is done is saved; a restart has the same."""
    seed = int(os.environ.get("SNIC_TURN") or os.getpid())
    print("seed", seed)
    rng = random.Random(seed)
    with serving(binary, SUB, ["--fair"]) as t:
        done = 0
        config = t.good("show", "config") + "ok\n"
        for i in range(120 if os.environ.get("SNIC_NIGHTLY") != "1" else 2000):
            s = t.raw()
            s.sendall(" ".join('"%s"' % w if " " in w or w == "" else w
                               for w in random_words(rng)).encode() + b"\n")
            lines = answer(s).splitlines()
            assert lines[-1] == "ok" or lines[-1].startswith("error: "), lines
            done += lines[-1] == "ok"
            s = t.raw()
            s.sendall(b"show config\n")
            now = answer(s)
            assert now == config or lines[-1] == "ok", lines
            if now != config:
                assert now == t.read() + "ok\n"
            config = now
            if i % 60 == 59:
                t.kill()
                assert t.start() is None, t.log()[-500:]
                s = t.raw()
                s.sendall(b"show config\n")
                assert answer(s) == config
        assert done > 10
        t.stop()


def test_ctl_is_stopped(binary):
    """And continued, as by the terminal, while it connects and while it waits for the answer."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as s:
        s.bind(folder + "/s")
        command = [binary, "ctl", "--socket", folder + "/s", "show"]
        with stopped_in_connect(command, s) as (p, target):
            assert target.recv(100).split() == [b"show"]
            stop_and_continue(p)
            target.sendall(b"a line\nok\n")
            target.close()
            text = p.communicate(timeout=WAIT)[0]
        assert p.returncode == 0 and text == b"a line\n", text


def test_ctl_connects_too_long(binary):
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as s, \
            socket.socket(socket.AF_UNIX) as first:
        s.bind(folder + "/s")
        s.listen(0)
        first.connect(folder + "/s")  # takes the only place
        p = subprocess.run([binary, "ctl", "--socket", folder + "/s", "--timeout", "1", "show"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                           check=False)
        assert p.returncode == 1 and b"Connection timed out" in p.stdout, p.stdout


def test_no_config(binary):
    """--socket without --config: changes are in effect, and not saved."""
    t = Target(binary)
    p = subprocess.Popen([binary, "--socket", t.socket, "--listen", "127.0.0.1:0", "--subsystem",
                          NQN, "--host", "any", "--memory", "64K"], stdout=subprocess.PIPE)
    p.stdout.readline()
    assert "not saved" in t.good("namespace", "add", NQN, "memory=64K")
    t.bad("FILE is needed", "save")
    t.good("save", t.config)
    p.terminate()
    assert p.wait() == 0
    p.stdout.close()
    assert t.start() is None and "namespace 2" in t.good("show")
    t.stop()
    t.close()


if __name__ == "__main__":
    sys.exit(run([f for n, f in list(globals().items()) if n.startswith("test_")], sys.argv))
