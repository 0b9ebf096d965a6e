#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The ranges of kv_server's and kv_load's options, and how long roles and their supervisor wait.

    test_kv_limits.py KV_SERVER KV_LOAD [--only NAME]

Exit code: 0 or 1. Waits of ten seconds and more are left to the night.
"""
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Server, encode, free_port  # noqa: E402

NIGHTLY = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")

# The ends of each range; what is one step, and ten times, beyond.
SERVER = """
--spin 1000000 1000001 10000000
--memory 32M,1T 33554431 1025G 10T
--size 64M 67108863 9223372036854775808
--segment 16M,1G 8M 2G 10G
--cache-entries 1024,8000000000 1023 8000000001 80000000000
--device-depth 1,32768 0 32769 327680
--databases 1,4096 0 4097 40960
--connections 1,60000 0 60001 600000
--timeout 4000000 4000001 40000000
--stats 86400 86401 864000
--sync interval=1,always,none interval=0 interval=-1 interval=x sometimes
--maxmemory-clients 0,100%,9223372036854775807 101% 1000% 9223372036854775808 x
--client-query-buffer-limit 1mb,9223372036854775807 1048575 0 9223372036854775808
--client-output-buffer-limit 'normal 0 0 0','normal 1gb 1gb 1000000' normal 'normal 1 1' 'x 1 1 1'
"""
LOAD = """
--clients 1,4096 0 4097 40960
--pipeline 1,1024 0 1025 10240
--keys 1,999999999999 0 1000000000000 9999999999990
--key-bytes 8,16 7 17 160
--value-bytes 0,8M 8388609 80M
--get-percent 0,100 101 1000
--seconds 1,1000000 0 1000001 10000000
--requests 1,18446744073709551615 0 18446744073709551616
--database 0,4095 4096 40950
--timeout 1,86400 0 86401 864000
"""


def run(args, **more):
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                       check=False, **more)
    return r.returncode, r.stdout.decode(errors="replace")


def ranges(table, args, end):
    """What is in a range passes: the next mistake, @end, is the one named."""
    for line in table.strip().split("\n"):
        option, *values = [w[0] or w[1] for w in re.findall(
            r"((?:'[^']*',?|[^\s'])+)()", line)]
        for value in values[0].split(","):
            code, out = run(args + [option, value.strip("'")] + end)
            assert code not in (0, -6, -11) and end[0] in out and option + ":" not in out, (
                option, value, code, out)
        for value in values[1:]:
            code, out = run(args + [option, value.strip("'")] + end)
            assert code > 0 and option in out and end[1] not in out, (option, value, code, out)


def test_server_options(server, _):
    """Beyond its range each is refused by its name, before anything is opened."""
    node = Server(server, "monolith")
    try:
        ranges(SERVER, [server, "--monolith", "--dir", os.path.join(node.directory, "d")],
               ["--listen", "nowhere"])
        assert not os.path.exists(os.path.join(node.directory, "d"))
    finally:
        node.destroy()


def test_load_options(_, load):
    ranges(LOAD, [load], ["--server", "nowhere"])


def test_load_at_its_limits(server, load):
    """As many connections, and as deep a pipeline, as may be; with fewer files than that it reports
    the limit."""
    with Server(server, "monolith", connections=5000) as node:
        address = ["--server", "127.0.0.1:%d" % node.port, "--requests", "20000",
                   "--value-bytes", "16", "--keys", "1000", "--op", "mixed"]
        for more in (["--clients", "4096"], ["--pipeline", "1024", "--clients", "2"],
                     ["--database", "15", "--key-bytes", "8"]):
            code, out = run([load] + address + more)
            assert code == 0 and "20000 operations" in out and "0 errors" in out, (more, out)
        code, out = run([load] + address + ["--database", "16"])
        assert code == 1 and "DB index is out of range" in out, out
        code, out = run([load] + address + ["--clients", "200"], preexec_fn=lambda:
                        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        assert code == 1 and "--clients: 232 open files are needed" in out and "ulimit" in out, out
        assert node.stop() == 0


def test_load_ends_where_nothing_is_answered(_, load):
    """A server that takes connections and answers nothing, or no more, is named."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:%d" % silent.getsockname()[1]
        command = [load, "--server", address, "--timeout", "1", "--clients", "1", "--op", "set"]
        for more in ([], ["--info"], ["--database", "1"]):
            code, out = run(command + more)
            assert code == 1 and address + " has answered nothing within 1 s" in out, (more, out)
            silent.accept()[0].close()
        p = subprocess.Popen(command, stderr=subprocess.PIPE)
        conn = silent.accept()[0]
        conn.sendall(b"+OK\r\n" if conn.recv(65536) else b"")
        err = p.communicate(timeout=WAIT)[1].decode()
        conn.close()
        assert p.returncode == 1 and address + " has answered nothing for 1 s" in err, err


def wait_for(what, node):
    end = time.monotonic() + WAIT
    while True:
        got = what()
        if got:
            return got
        assert time.monotonic() < end, node.log()
        time.sleep(0.02)


def starts(node, role):
    with open(node.log_path, errors="replace") as f:
        return [int(p) for p in re.findall(r"started the %s role, process (\d+)" % role, f.read())]


def test_dies_again_and_again(server, _):
    """A role that dies as soon as it is started is started after longer and longer pauses, up to
    5 s, once each time; the other role serves, and the first one that lives serves, too."""
    kills = 12 if NIGHTLY else 7
    with Server(server, "two") as node:
        with node.conn() as c:
            assert c.cmd("SET", "k", "v") == "OK"
        for n in range(kills):
            pid = wait_for(lambda: starts(node, "host")[n:], node)[0]
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: starts(node, "host")[kills:], node)
        node.wait_ready()
        assert len(starts(node, "host")) == kills + 1 and len(starts(node, "dpu")) == 1
        with node.conn() as c:
            assert c.cmd("GET", "k") == b"v" or node.options["sync"] == "none"
            assert c.cmd("SET", "k", "w") == "OK"
        assert node.stop() == 0


def test_cannot_start(server, _):
    """A role that ends with an error soon after its start ends the server; both roles are gone."""
    with Server(server, "two", sync="always") as node:
        with node.conn() as c:
            assert c.cmd("SET", "k", "v") == "OK"
        pids = node.pids()
        path = os.path.join(node.directory, "img")
        os.rename(path, path + ".away")
        os.mkdir(path)  # the next DPU role finds a directory
        os.kill(node.role_pid("dpu"), signal.SIGKILL)
        assert node.wait() == 1
        assert "the dpu role failed at its start (exit status 1)" in node.log(), node.log()
        for pid in pids:
            wait_for(lambda: not os.path.exists("/proc/%d" % pid), node)
        os.rmdir(path)
        os.rename(path + ".away", path)
        node.start()
        with node.conn() as c:
            assert c.cmd("GET", "k") == b"v"
        assert node.stop() == 0


def test_role_that_hangs(server, _):
    """At the end each role waits for the other, but not for ever: 15 s the host for a DPU that does
    not drain, 10 s the DPU for a host that does not go."""
    if not NIGHTLY:
        print("  left to the night")
        return
    for stuck, other in (("host", "dpu"), ("dpu", "host")):
        with Server(server, "two", sync="always") as node:
            with node.conn() as c:
                assert c.cmd("SET", "k", "v") == "OK"
            pid, ends = node.role_pid(stuck), node.role_pid(other)
            os.kill(pid, signal.SIGSTOP)
            node.process.send_signal(signal.SIGTERM)

            def gone():  # or a zombie, for a moment
                try:
                    with open("/proc/%d/stat" % ends) as f:
                        return f.read().rpartition(")")[2].split()[0] == "Z"
                except OSError:
                    return True
            wait_for(gone, node)
            assert node.process.poll() is None
            os.kill(pid, signal.SIGCONT)
            assert node.wait() == 0
            node.start()
            with node.conn() as c:
                assert c.cmd("GET", "k") == b"v"
            assert node.stop() == 0


def main():
    server, load = sys.argv[1:3]
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or only not in (None, name[5:]):
            continue
        began = time.monotonic()
        try:
            test(server, load)
            result = "ok"
        except Exception:  # whatever it was, the others run
            traceback.print_exc()
            failed += 1
            result = "FAILED"
        print("%-22s %6.2f s  %s" % (name[5:], time.monotonic() - began, result), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
