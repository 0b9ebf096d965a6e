#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""director_proxy in front of a stock redis-server: same answers, same order, same ends.

    test_director_proxy.py PROXY

Exit code: 0, 1, or 77 when there is no redis-server.
"""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

WAIT = 240  # seconds; against hangs only: machines are shared


def encode(*args):
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Conn:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self.file = self.sock.makefile("rb")

    def reply(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            n = int(rest)
            return None if n < 0 else self.file.read(n + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self.reply() for _ in range(int(rest))]
        return kind + rest

    def cmd(self, *args):
        self.sock.sendall(encode(*args))
        return self.reply()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("nobody listens at %d" % port)


def start_redis(port, folder):
    p = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--dir", folder],
                         stdout=subprocess.DEVNULL)
    wait_port(port)
    return p


def commands(rng):
    """A batch of commands whose replies do not depend on the connection."""
    out = []
    for _ in range(rng.randrange(1, 60)):
        k = "k%d" % rng.randrange(8)
        out.append(rng.choice([
            ("SET", k, os.urandom(rng.choice([0, 3, 50, 5000, 70000]))), ("GET", k), ("GET", k),
            ("DEL", k), ("PING",), ("PING", "x" * rng.randrange(50)), ("MGET", "k1", "k2", "k3"),
            ("RPUSH", "l", "a", "b"), ("LRANGE", "l", "0", "-1"), ("INCR", "n"), ("INCR", "k1"),
            ("NOSUCH",), ("ECHO", "\r\n"), ("MULTI",), ("EXEC",), ("TYPE", k)]))
    return out


def unreachable():
    """Why the server is away is logged once, and that it is reachable again."""
    port, away = free_port(), free_port()
    proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--server",
                              "127.0.0.1:%d" % away, "--log-level", "info"],
                             stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        client = Conn(port)
        for _ in range(20):
            assert client.cmd("GET", "k").startswith(b"-ERR the server")
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", away))
            server.listen(8)
            server.settimeout(WAIT)
            server.accept()[0].close()
            log = ""
            while "reachable again" not in log:
                line = proxy.stderr.readline()
                assert line, log
                log += line
        assert log.count("warning: server 127.0.0.1:%d is not reachable: " % away) == 1, log
        proxy.send_signal(signal.SIGTERM)
        assert proxy.wait(WAIT) == 0
        proxy.stderr.close()
    finally:
        if proxy.poll() is None:
            proxy.kill()
        proxy.wait()


def few_files():
    """With fewer open files than --connections needs it serves, and its log has what to raise."""
    proxy = subprocess.Popen(["sh", "-c", 'ulimit -n 100; exec "$0" "$@"', sys.argv[1], "--listen",
                              "127.0.0.1:%d" % free_port(), "--server", "127.0.0.1:1"],
                             stderr=subprocess.PIPE, text=True)
    try:
        log_until(proxy, "limit of open files is 100, and 1024 clients need 2080: raise it")
        log_until(proxy, "listening on")
    finally:
        proxy.kill()
        proxy.wait()
        proxy.stderr.close()


def log_until(proxy, text, log=""):
    """Its log up to the line with this text."""
    while text not in log:
        line = proxy.stderr.readline()
        assert line, log
        log += line
    return log


def stop(proxy):
    proxy.send_signal(signal.SIGTERM)
    assert proxy.wait(WAIT) == 0
    proxy.stderr.close()


def dying():
    """A server whose connections end before it no longer takes new ones: that it is away is logged
    though the first look found it there, and no client asks for anything since."""
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        server.settimeout(WAIT)
        behind = server.getsockname()[1]
        proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--server",
                                  "127.0.0.1:%d" % behind], stderr=subprocess.PIPE, text=True)
        try:
            server.accept()[0].close()  # the proxy's own, when it begins
            wait_port(port)
            client = Conn(port)
            client.sock.sendall(encode("GET", "k"))
            asked = server.accept()[0]
            asked.recv(1)
            asked.close()
            server.accept()[0].close()  # the first look
            server.close()
            log_until(proxy, "server 127.0.0.1:%d is not reachable: connection refused" % behind)
            stop(proxy)
        finally:
            if proxy.poll() is None:
                proxy.kill()
            proxy.wait()


def unanswered():
    """A server that answers no attempt to connect, as one that is cut off: named, too."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        behind = server.getsockname()[1]
        full = [socket.socket() for _ in range(8)]
        for s in full:  # those that find no place in its queue are not answered
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", behind))
        proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % free_port(), "--server",
                                  "127.0.0.1:%d" % behind], stderr=subprocess.PIPE, text=True)
        late = threading.Timer(WAIT, proxy.kill)
        late.start()
        try:
            log_until(proxy, "server 127.0.0.1:%d is not reachable: " % behind)
            stop(proxy)
        finally:
            late.cancel()
            if proxy.poll() is None:
                proxy.kill()
            proxy.wait()
            for s in full:
                s.close()


def passing(folder):
    """--pass: what the server sends unasked gets through, and its death is reported at once,
    although no client asks for anything."""
    port, behind = free_port(), free_port()
    redis = start_redis(behind, folder)
    proxy = subprocess.Popen([sys.argv[1], "--pass", "--listen", "127.0.0.1:%d" % port, "--server",
                              "127.0.0.1:%d" % behind], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        listener, speaker = Conn(port), Conn(port)
        assert listener.cmd("SUBSCRIBE", "x") == [b"subscribe", b"x", b":1"]
        assert speaker.cmd("PUBLISH", "x", "hello") == b":1"
        assert listener.reply() == [b"message", b"x", b"hello"]
        speaker.sock.sendall(b"*1\r\n$x\r\n")
        assert speaker.reply().startswith(b"-ERR Protocol error") and speaker.file.read() == b""
        redis.kill()
        redis.wait()
        assert listener.file.read() == b""
        log = log_until(proxy, "server 127.0.0.1:%d is not reachable: connection refused" % behind)
        redis = start_redis(behind, folder)
        log = log_until(proxy, "reachable again", log)
        assert Conn(port).cmd("PING") == b"+PONG"
        assert log.count("connection refused") == 1, log
        stop(proxy)
    finally:
        for p in redis, proxy:
            if p.poll() is None:
                p.kill()
            p.wait()


def shown(port, want):
    """The figures, once they are as wanted; connections that end are counted a little later."""
    end = time.monotonic() + WAIT
    while not want(m := metrics(port)):
        assert time.monotonic() < end, m
        time.sleep(0.02)
    return m


def metrics(port):
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = s.makefile("rb").read().decode()
    return {m[0]: int(m[1]) for m in re.findall(r"^(\w+) (\d+)$", page, re.M)}


def several(folder):
    """Directors that share the port: each gets clients, whose state is theirs alone; one of them
    alone would not notice the server's death for the others."""
    port, behind, page = free_port(), free_port(), free_port()
    redis = start_redis(behind, folder)
    proxy = subprocess.Popen([sys.argv[1], "--directors", "3", "--listen", "127.0.0.1:%d" % port,
                              "--server", "127.0.0.1:%d" % behind, "--metrics",
                              "127.0.0.1:%d" % page], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        for n in "1", "2":  # it would share the clients with the one that is there
            r = subprocess.run([sys.argv[1], "--directors", n, "--listen", "127.0.0.1:%d" % port,
                                "--server", "127.0.0.1:%d" % behind], stderr=subprocess.PIPE,
                               text=True, timeout=WAIT, check=False)
            assert r.returncode != 0 and "cannot listen" in r.stderr, r
        clients = [Conn(port) for _ in range(64)]
        for i, c in enumerate(clients):
            assert c.cmd("SELECT", i % 16) == b"+OK"
            assert c.cmd("SET", "own%d" % i, i) == b"+OK"
            if i % 2:
                assert c.cmd("MULTI") == b"+OK"
        for i, c in enumerate(clients):
            assert c.cmd("PING") == (b"+QUEUED" if i % 2 else b"+PONG")
            assert c.cmd("GET", "own%d" % i) == (b"+QUEUED" if i % 2 else b"%d" % i)
        for i, c in enumerate(clients[1::2]):
            assert c.cmd("EXEC") == [b"+PONG", b"%d" % (2 * i + 1)]
        m = shown(page, lambda m: m["director_proxy_connections"] == 64)
        each = [m["director_proxy_director%d_accepted" % i] for i in range(3)]
        assert min(each) > 0 and sum(each) == 65 == m["director_proxy_accepted"], m
        redis.kill()
        redis.wait()
        for c in clients:
            assert c.file.read() == b""
        log = log_until(proxy, "server 127.0.0.1:%d is not reachable: connection refused" % behind)
        assert Conn(port).cmd("GET", "k").startswith(b"-ERR the server")
        redis = start_redis(behind, folder)
        log_until(proxy, "reachable again", log)
        stop(proxy)
    finally:
        for p in redis, proxy:
            if p.poll() is None:
                p.kill()
            p.wait()


def full():
    """As many clients as --connections, one more, ten times as many: those beyond hear why or
    are reset, are counted, and logged, one line a second at most; a free place is used again."""
    port, page = free_port(), free_port()
    proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--connections", "4",
                              "--server", "127.0.0.1:%d" % free_port(), "--metrics",
                              "127.0.0.1:%d" % page], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(page)
        ours = []
        for _ in range(4):
            ours.append(Conn(port))
            assert ours[-1].cmd("PING") == b"+PONG"
        more = Conn(port)
        assert more.reply() == b"-ERR max number of clients reached" and more.file.read() == b""
        for _ in range(36):
            try:
                c = Conn(port)
                assert c.file.read() in (b"", b"-ERR max number of clients reached\r\n")
            except ConnectionError:
                pass
        assert [c.cmd("PING") for c in ours] == [b"+PONG"] * 4
        shown(page, lambda m: m["director_proxy_connections_refused"] == 37)
        shown(page, lambda m: m["director_proxy_connections"] == 4)
        ours.pop().sock.shutdown(socket.SHUT_RDWR)
        shown(page, lambda m: m["director_proxy_connections"] == 3)
        assert Conn(port).cmd("PING") == b"+PONG"
        proxy.send_signal(signal.SIGTERM)
        log = proxy.stderr.read()
        assert "refused: all 4 connections were in use; raise --connections" in log, log
        assert log.count("clients were refused") < 37, log
        assert proxy.wait(WAIT) == 0
        proxy.stderr.close()
        for option, good, bad in (("--directors", "1 32", "0 33 320"),
                                  ("--connections", "1 30000", "0 30001 300000"),
                                  ("--message-max", "4096 512M", "4095 513M 5G"),
                                  ("--stats", "0 86400", "86401 864000")):
            for n in good.split() + bad.split():
                r = subprocess.run([sys.argv[1], option, n, "--listen", "nowhere"],
                                   stderr=subprocess.PIPE, text=True, timeout=WAIT, check=False)
                assert r.returncode > 0 and (option + ":" in r.stderr) == (n in bad.split()), r
    finally:
        if proxy.poll() is None:
            proxy.kill()
        proxy.wait()


def hung():
    """A server that reads nothing: clients that have sent it much, one of which is gone, do not
    keep the proxy from ending."""
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--server",
                                  "127.0.0.1:%d" % server.getsockname()[1]],
                                 stderr=subprocess.PIPE, text=True)
        try:
            wait_port(port)
            clients = [Conn(port), Conn(port)]
            for c in clients:
                c.sock.settimeout(1)
                try:
                    while True:
                        c.sock.sendall(encode("SET", "k", b"x" * 60000))
                except socket.timeout:
                    pass
            clients[1].sock.shutdown(socket.SHUT_RDWR)
            stop(proxy)
        finally:
            if proxy.poll() is None:
                proxy.kill()
            proxy.wait()


def transactions(folder):
    """What the proxy refuses inside of a transaction ends it: EXEC carries out nothing. Requests
    without a reply, and replies without a request, are refused, too, and a long error is passed
    on."""
    port, behind = free_port(), free_port()
    redis = start_redis(behind, folder)
    proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--server",
                              "127.0.0.1:%d" % behind], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        for command in (("SUBSCRIBE", "x"), ("RESET",), ("MONITOR",), ("CLIENT", "REPLY", "OFF"),
                        ("client", "tracking", "on")):
            c = Conn(port)
            c.sock.sendall(encode("MULTI") + encode("SET", "k", "no") + encode(*command) +
                           encode("EXEC"))
            assert (c.reply(), c.reply()) == (b"+OK", b"+QUEUED")
            assert b"not supported by the proxy" in c.reply()
            assert c.file.read() == b"", command
            c = Conn(port)
            assert b"not supported by the proxy" in c.cmd(*command)
            assert c.cmd("GET", "k") is None and c.cmd("PING") == b"+PONG", command
        for size in 3000, 3500, 4096, 100000:
            text = b"x" * size
            c.sock.sendall(encode("EXPIRE", "k", 1, text) + encode("PING"))
            assert c.reply() == b"-ERR Unsupported option " + text
            assert c.reply() == b"+PONG"
        stop(proxy)
    finally:
        for p in redis, proxy:
            if p.poll() is None:
                p.kill()
            p.wait()


def long_requests(folder):
    """--message-max: a request as long is passed on, a longer one gets an error, and the connection
    is used on."""
    port, behind = free_port(), free_port()
    redis = start_redis(behind, folder)
    proxy = subprocess.Popen([sys.argv[1], "--message-max", "4096", "--listen",
                              "127.0.0.1:%d" % port, "--server", "127.0.0.1:%d" % behind],
                             stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        c, other, kept = Conn(port), Conn(port), None
        for size in (4095, 4096, 4097, 40960):
            value = b"x" * size
            while len(encode("SET", "k", value)) > size:
                value = value[:-1]
            got = c.cmd("SET", "k", value)
            assert got == b"+OK" if size <= 4096 else got.startswith(b"-ERR"), (size, got)
            kept = value if size <= 4096 else kept
            assert c.cmd("GET", "k") == kept, size
            assert other.cmd("PING") == b"+PONG"
        stop(proxy)
    finally:
        for p in redis, proxy:
            if p.poll() is None:
                p.kill()
            p.wait()


class Active:
    """A client that is never idle for a second; where this process had no processor for so long,
    the proxy may have been right to close it, and another one takes its place."""

    def __init__(self, port):
        self.port = port
        self.conn, self.used = Conn(port), time.monotonic()

    def cmd(self, *args):
        before = self.used
        while True:
            try:
                got = self.conn.cmd(*args)
                self.used = time.monotonic()
                return got
            except (EOFError, ConnectionError):
                assert time.monotonic() - before > 1
            self.conn, before = Conn(self.port), time.monotonic()


def idle(folder, *options):
    """--timeout, in any unit: idle clients are closed, also those passed through, others not."""
    port, behind, page = free_port(), free_port(), free_port()
    redis = start_redis(behind, folder)
    proxy = subprocess.Popen([sys.argv[1], *options, "--timeout", "1000ms",
                              "--listen", "127.0.0.1:%d" % port,
                              "--server", "127.0.0.1:%d" % behind, "--metrics",
                              "127.0.0.1:%d" % page], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        wait_port(page)
        silent, active, idler = Conn(port), Active(port), Active(port)
        assert idler.cmd("SET", "a", "b") == b"+OK"
        idler = idler.conn
        began = 0
        while time.monotonic() - began > 0.9:  # else it may have been idle before it asks
            began, waiting = time.monotonic(), Conn(port)
            waiting.sock.sendall(encode("BLPOP", "none", "0") if not options else b"")
        closed, end = set(), time.monotonic() + WAIT
        while len(closed) < 2:
            assert active.cmd("GET", "a") == b"b"
            assert time.monotonic() < end
            for c in {silent, idler} - closed:
                c.sock.settimeout(0.1)
                try:
                    assert c.sock.recv(1) == b""
                    closed.add(c)
                except TimeoutError:
                    pass
        shown(page, lambda m: m["director_proxy_connections_idle_closed"] >= 2)
        assert active.cmd("PING") == b"+PONG"
        if not options:  # its reply is still to come
            assert active.cmd("RPUSH", "none", "x") == b":1"
            assert waiting.reply() == [b"none", b"x"]
        stop(proxy)
    finally:
        for p in redis, proxy:
            if p.poll() is None:
                p.kill()
            p.wait()


def main():
    few_files()
    unreachable()
    unanswered()
    dying()
    full()
    hung()
    if shutil.which("redis-server") is None:
        print("skip: no redis-server")
        return 77
    seed = int(os.environ.get("SNIC_SEED", "1"))
    print("seed", seed)
    rng = random.Random(seed)
    folder = tempfile.mkdtemp()
    passing(folder)
    several(folder)
    long_requests(folder)
    transactions(folder)
    idle(folder)
    idle(folder, "--pass")
    servers = [free_port(), free_port()]
    redis = [start_redis(p, folder) for p in servers]
    port = free_port()
    proxy = subprocess.Popen([sys.argv[1], "--listen", "127.0.0.1:%d" % port, "--server",
                              "127.0.0.1:%d" % servers[0]], stderr=subprocess.PIPE, text=True)
    try:
        wait_port(port)
        # The same batches to a server behind the proxy and to one without.
        ours, theirs = Conn(port), Conn(servers[1])
        for _ in range(60):
            batch = commands(rng)
            data = b"".join(encode(*c) for c in batch)
            theirs.sock.sendall(data)
            while data:
                n = rng.choice([1, 7, 1000, 100000])
                ours.sock.sendall(data[:n])
                data = data[n:]
            for c in batch:
                a, b = ours.reply(), theirs.reply()
                if c[0] == "NOSUCH":
                    a, b = (re.sub(rb"'.*", b"", x) for x in (a, b))
                assert a == b, "%s: %r, not %r" % (c[0], a, b)
        # Protocol errors, refusals, ends.
        ours.cmd("DISCARD")
        assert ours.cmd("SUBSCRIBE", "x").startswith(b"-ERR")
        assert ours.cmd("PING") == b"+PONG"
        bad = Conn(port)
        bad.sock.sendall(encode("PING") + encode("GET", "k1") + b"*1\r\n$x\r\n" + encode("PING"))
        assert bad.reply() == b"+PONG"
        bad.reply()
        assert bad.reply().startswith(b"-ERR Protocol error")
        assert bad.file.read() == b""
        quits = Conn(port)
        quits.sock.sendall(encode("SET", "q", "1") + encode("QUIT"))
        assert quits.reply() == b"+OK" and quits.reply() == b"+OK" and quits.file.read() == b""
        # Nothing behind QUIT is run, nor what a browser posts; what preceded is.
        direct = Conn(servers[0])
        for end, last in ((encode("QUIT"), b"+OK\r\n"), (b"POST / HTTP/1.1\r\n", b""),
                          (b"Host: x\r\n", b""), (encode("MULTI") + encode("QUIT"), None)):
            direct.cmd("DEL", "before", "evil")
            behind = Conn(port)
            behind.sock.sendall(encode("SET", "before", "1") + end + encode("SET", "evil", "1") * 9)
            assert behind.reply() == b"+OK"
            got = behind.file.read()
            assert got == (b"+OK\r\n" * 2 if last is None else last), (end, got)
            assert direct.cmd("GET", "before") == b"1"
            assert direct.cmd("GET", "evil") is None, end
        half = Conn(port)
        half.sock.sendall(encode("GET", "q") * 100)
        half.sock.shutdown(socket.SHUT_WR)
        assert [half.reply() for _ in range(100)] == [b"1"] * 100 and half.file.read() == b""
        killed = Conn(port)
        killed.cmd("PING")
        killed.cmd("GET", "q")
        killed.sock.sendall(encode("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"))
        killed.file.read()  # whatever comes, the connection ends
        # The server goes, and comes back.
        redis[0].kill()
        redis[0].wait()
        alone = Conn(port)
        assert alone.cmd("GET", "q").startswith(b"-ERR the server")
        assert alone.cmd("PING") == b"+PONG"
        redis[0] = start_redis(servers[0], folder)
        assert alone.cmd("SET", "q", "2") == b"+OK"
        assert alone.cmd("GET", "q") == b"2"
        proxy.send_signal(signal.SIGTERM)
        assert proxy.wait(WAIT) == 0
        proxy.stderr.close()
    finally:
        for p in redis + [proxy]:
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
