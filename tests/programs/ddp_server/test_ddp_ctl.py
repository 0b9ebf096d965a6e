#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`ddp_server ctl` and the configurations of real nodes: founded, added, replaced, overridden.

    test_ddp_ctl.py BINARY [NAME ...]
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from ddpserver import (WAIT, Cluster, carry_out, evidence, fields, refused, run, settled, shows,
                       tests_of)
from stopped import stop_and_continue, stopped_in_connect


def test_founding_ctl_and_backup(binary):
    with Cluster(binary, shards=2) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--shards", "2", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        assert "exists" in run(binary, "found", "--file", conf, "--peers", "127.0.0.1:1", code=1)
        assert os.stat(conf + ".key").st_mode & 0o777 == 0o600
        moved = os.path.join(k.directory, "moved.key")
        os.rename(conf + ".key", moved)  # no other key is made beside the file
        assert "exists" in run(binary, "found", "--file", conf, "--peers", "127.0.0.1:1", code=1)
        assert not os.path.exists(conf + ".key")
        os.rename(moved, conf + ".key")
        k.config = conf
        k.found()
        c = k.conn(0)
        k.put(0, (("k%d" % i, "value %d" % i * (i % 50)) for i in range(1500)))
        assert c.cmd("SET", "ttl", "x", "PX", "1000000") == "OK"
        refused(c.cmd("ADMIN", "DRAIN"), "NOPERM")
        refused(c.cmd("MEMBERS", "REMOVE", "1"), "NOPERM")
        refused(c.cmd("ADMIN", "PROVE", "00" * 32), "WRONGPASS")
        shows(binary, "ctl", "status", "--config", conf, want=lambda text: (
            text.count("serves"), text.count("full 0,1,2"), text.count(": up")) == (6, 6, 12))
        other = os.path.join(k.directory, "other.key")
        with open(other, "w", encoding="utf-8") as f:
            f.write("ab" * 32 + "\n")
        assert "read by others" in run(binary, "ctl", "status", "--cluster-key", other, code=1)
        os.chmod(other, 0o600)
        at = "127.0.0.1:%d" % k.ports[1]
        text = run(binary, "ctl", "drain", "--config", conf, code=2)
        assert "--connect is missing" in text, text
        text = run(binary, "ctl", "drain", "--config", conf, "--connect", at, "--node", "2", code=2)
        assert "--node is of add, remove and replace" in text, text
        wrong = run(binary, "ctl", "drain", "--cluster-key", other, "--connect", at, code=1)
        assert "not the cluster's key" in wrong, wrong
        backup = os.path.join(k.directory, "backup")
        assert "1501 keys" in run(binary, "ctl", "backup", "--config", conf, "--file", backup)
        assert os.stat(backup).st_mode & 0o777 == 0o600
        fifo = os.path.join(k.directory, "fifo")
        os.mkfifo(fifo)
        text = run(binary, "ctl", "backup", "--config", conf, "--file", fifo, code=1)
        assert "not a regular file" in text, text
        for i in range(0, 1500, 2):
            c.cmd("DEL", "k%d" % i)
        assert c.cmd("SET", "k1", "newer") == "OK"
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup, "--if-absent")
        assert "750 keys restored" in text and "751 existed" in text, text
        assert c.cmd("GET", "k1") == b"newer" and c.cmd("DBSIZE") == 1501
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup)
        assert "1501 keys" in text and "kept" not in text, text
        assert c.cmd("SET", "newer", "1") == c.cmd("SET", "newest", "1") == "OK"
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup)
        assert "1501 keys" in text and "2 that the file does not have are kept" in text, text
        assert c.cmd("DEL", "newer", "newest") == 2
        for i in range(1500):
            assert c.cmd("GET", "k%d" % i) == b"value %d" % i * (i % 50)
        assert 900000 < c.cmd("PTTL", "ttl") <= 1000000
        with open(backup, "r+b") as f:
            f.seek(5000)
            f.write(b"\xff")
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup, code=1)
        assert "damaged" in text, text
        assert "ends" in run(binary, "ctl", "drain", "--config", conf, "--connect", at)
        assert k.processes[1].wait(WAIT) == 0
        k.processes[1] = None
        # its disk is lost: the node is replaced by one with an empty directory
        shutil.rmtree(os.path.join(k.directory, "1"))
        run(binary, "ctl", "replace", "--config", conf, "--node", "1")
        k.start(1)
        k.wait(1)
        with k.conn(1) as d:
            assert d.cmd("DBSIZE") == 1501 and d.cmd("GET", "k42") == b"value 42" * 42
        settled(k, 0, full=[0, 1, 2])
        text = shows(binary, "ctl", "status", "--config", conf, want=lambda text: (
            text.count("min_full 2,") == 6 and "refused" not in text))
        own = text.split(": node 1 of 3\n")[1].split(": node 2 of 3\n")[0]
        assert own.count("has learned: 100% of the keys compared") == 2, text
        k.kill(1)
        # a node with another key is no node of this cluster
        k.start(1, options=["--cluster-key", other])
        k.until(0, "CLUSTER", "STATE", want=lambda r: b"down" in str(r).encode())
        refused(k.until(1, "GET", "k1", want=lambda r: "cluster key" in str(r)), "CLUSTERDOWN")
        for key, words in ((["--cluster-key", other],
                            "has another cluster key than the other nodes (--cluster-key)"),
                           ([], "not the cluster's key that this node has")):
            shows(binary, "ctl", "status", "--config", k.config, *key, code=1,
                  want=lambda text, words=words: words in text)
        k.logs(1, "no connection with node 0: key:", "node 2: key:",
               "no other node has this node's cluster key")
        k.logs(0, "no connection with node 1: key:")


def test_backups_that_are_not_whole(binary):
    """One that cannot be written leaves nothing; one with bytes behind its end is not restored."""
    with Cluster(binary, nodes=1) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers", "127.0.0.1:%d" % k.peers[0],
            "--clients", "127.0.0.1:%d" % k.ports[0])
        k.found()
        k.put(0, (("k%d" % i, "v" * 100) for i in range(1000)))
        file = os.path.join(k.directory, "file")
        ctl = [binary, "ctl", "backup", "--config", k.config, "--file", file]
        text = run("sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "sh", *ctl, code=1)
        assert "cannot write" in text, text
        assert not [n for n in os.listdir(k.directory) if n.startswith("file")]
        run(*ctl)
        with open(file, "ab") as f:
            f.write(b"x")
        with k.conn(0) as c:
            assert c.cmd("DEL", "k1") == 1
            ctl[2] = "restore"
            assert "behind its end" in run(*ctl, code=1)
            assert c.cmd("GET", "k1") is None
            os.truncate(file, os.path.getsize(file) - 1)
            assert "1000 keys restored" in run(*ctl)
            assert c.cmd("GET", "k1") == b"v" * 100
            for i in range(1, 1000):
                assert c.cmd("DEL", "k%d" % i) == 1
        ctl[2] = "backup"
        assert run(*ctl).startswith("1 key, ")


def test_ctl_is_stopped(binary):
    """And continued, as by the terminal, while it connects and while it waits for the answer."""
    with Cluster(binary, nodes=1) as k, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        key = os.path.join(k.directory, "key")
        with open(key, "w", encoding="utf-8", opener=lambda n, f: os.open(n, f, 0o600)) as f:
            f.write("ab" * 32 + "\n")
        command = [binary, "ctl", "drain", "--cluster-key", key, "--connect",
                   "127.0.0.1:%d" % s.getsockname()[1]]
        with stopped_in_connect(command, s) as (p, node):
            assert b"CHALLENGE" in node.recv(100)
            stop_and_continue(p)
            node.sendall(b"-ERR tomorrow\r\n")
            text = p.communicate(timeout=WAIT)[0]
        assert p.returncode == 1 and b"is not a ddp_server" in text, text  # not: interrupted


def without_lease(k, p):
    """ctl has begun: the node that it talks to loses its lease, ctl runs into that, and both peers
    continue. @return what ctl printed"""
    p.send_signal(signal.SIGSTOP)
    for i in (1, 2):
        k.processes[i].send_signal(signal.SIGSTOP)
    k.until(0, "GET", "k0", want=lambda r: str(r).startswith("CLUSTERDOWN"))
    p.send_signal(signal.SIGCONT)
    time.sleep(.3)
    for i in (1, 2):
        k.processes[i].send_signal(signal.SIGCONT)
    text = p.communicate(timeout=WAIT)[0].decode()
    assert p.returncode == 0, text
    return text


def until_ctl_has(command, what):
    """The process of the command, while it works, and has done something."""
    while True:
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while p.poll() is None:
            if what():
                return p
        assert p.returncode == 0, p.communicate()[0]


def test_backup_and_restore_without_lease(binary):
    """For a moment: both continue."""
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        k.found()
        k.put(0, (("k%d" % i, "%d " % i * 3000) for i in range(1000)))
        file = os.path.join(k.directory, "file")
        at = ["--config", k.config, "--file", file, "--connect", "127.0.0.1:%d" % k.ports[0]]
        p = until_ctl_has([binary, "ctl", "backup", *at],
                          lambda: os.path.exists(file + ".new") and os.path.getsize(file + ".new"))
        assert "1000 keys" in without_lease(k, p)
        c = k.conn(0)
        for i in range(1000):
            k.until(0, "DEL", "k%d" % i, want=lambda r: r in (0, 1))
        p = until_ctl_has([binary, "ctl", "restore", *at],
                          lambda: c.cmd("DBSIZE") > 64)  # it has had a reply
        assert "1000 keys restored" in without_lease(k, p)
        for i in range(1000):
            assert c.cmd("GET", "k%d" % i) == b"%d " % i * 3000


def test_a_lost_disk_has_no_vote(binary):
    """A node that was started with an empty directory and without `replace`."""
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        k.found()
        status = (binary, "ctl", "status", "--config", k.config)
        shows(*status, want=lambda text: "no vote" not in text)
        k.kill(1)
        shutil.rmtree(os.path.join(k.directory, "1"))
        k.start(1)
        k.wait(1)
        text = shows(*status, code=1, want=lambda text: (
            text.count("serves"), text.count("has no vote")) == (3, 1))
        assert "`ddp_server ctl replace --node 1`" in text, text
        assert "has no vote" in k.log(1), k.log(1)
        run(binary, "ctl", "replace", "--config", k.config, "--node", "1")
        k.until(1, "CLUSTER", "STATE",
                want=lambda r: all(fields(s)["vote"] == 1 and fields(s)["serves"] for s in r[5]))
        settled(k, 0, full=[0, 1, 2])
        k.kill(0)  # the two others are a majority
        k.until(1, "SET", "k", "v", want=lambda r: r == "OK")


def test_replace_of_a_node_that_learns(binary):
    """Started with an empty directory, replaced while it learns: the directory is not void. Of the
    two shards one may be heard, or learn, before the other."""
    with Cluster(binary, shards=2) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--shards", "2", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        k.found()
        k.put(0, (("k%d" % i, "v" * 4000) for i in range(8000)))
        k.kill(1)
        k.until(0, "CLUSTER", "STATE", want=lambda r: not any(
            1 in fields(s)["hears"] + fields(s)["full"] for s in r[5]))
        shutil.rmtree(os.path.join(k.directory, "1"))
        k.start(1)
        at = ("--config", k.config, "--connect", "127.0.0.1:%d" % k.ports[0])
        refusals = []

        def replaced(reply):
            if not refusals and not any(fields(s)["learners"] for s in reply[5]):
                return False
            p = subprocess.run([binary, "ctl", "replace", *at, "--node", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                               check=False)
            refusals.append(p.stdout.decode())
            # the shards refuse each for itself: the last try of a ctl may have been the change
            return p.returncode == 0 or len(refusals) > 1 and "has its vote" in refusals[-1]

        def votes(reply):
            shards = [fields(s) for s in reply[5]]
            if any(b"was removed or replaced" in s["state"] for s in shards):
                evidence.inconclusive("replaced a second time: a shard took the node for dead")
            return all(s["vote"] == 1 and s["serves"] for s in shards)
        k.until(0, "CLUSTER", "STATE", want=replaced)
        k.until(1, "CLUSTER", "STATE", want=votes)
        settled(k, 0, full=[0, 1, 2])
        p = subprocess.run([binary, "ctl", "replace", *at, "--node", "1"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=WAIT, check=False)
        text = p.stdout.decode()
        if p.returncode == 0 or "TRYAGAIN" in text:
            evidence.inconclusive("a shard has taken the node for dead")
        assert "ERR node 1 is alive" in text and "stop it first" in text, text


def test_status_of_a_witness(binary):
    """It serves no client, and that is no error."""
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--witness", "2", "--min-full", "1", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        for i in range(3):
            k.start(i, True)
        k.until(2, "GET", "k", want=lambda r: "is a witness" in str(r))
        k.wait(0)
        k.wait(1)
        shows(binary, "ctl", "status", "--config", k.config,
              want=lambda text: "is a witness" in text and "refused" not in text)
        third = "127.0.0.1:%d" % k.ports[2]
        backup = ["--config", k.config, "--file", os.path.join(k.directory, "backup"), "--connect",
                  "%s,127.0.0.1:%d" % (third, k.ports[0])]
        assert "0 keys" in run(binary, "ctl", "backup", *backup)  # of one that serves
        k.kill(0)
        k.kill(1)
        k.until(2, "CLUSTER", "STATE", want=lambda r: len(fields(r[5][0])["hears"]) == 1)
        assert "cannot connect" in run(binary, "ctl", "backup", *backup, code=1)
        assert "does not serve" in run(binary, "ctl", "backup", *backup[:4], "--connect", third,
                                       code=1)
        run(binary, "ctl", "status", "--config", k.config, "--connect", third, code=1)


def test_status_names_what_a_node_waits_for(binary):
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--witness", "2", "--min-full", "1", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))

        def waits(i, words):
            text = shows(binary, "ctl", "status", "--config", k.config, "--connect",
                         "127.0.0.1:%d" % k.ports[i], code=1, want=lambda text: words in text)
            return text.count("    waits ")

        k.start(0, True)
        assert waits(0, "waits to hear the nodes of --peers: it hears 0") == 1
        k.start(1, True)
        k.start(2, True)
        k.wait(0)
        k.wait(1)
        k.kill(1)
        settled(k, 0, full=[0])
        k.kill(2)
        assert waits(0, "waits to hear a majority of the nodes 0,1,2: it hears 0") == 1
        k.kill(0)
        k.start(1)
        k.start(2)  # the keys of node 0 may be newer
        assert waits(1, "waits for the nodes 0 of the last membership: start them") == 1
        k.start(0)
        k.wait(1)
        shows(binary, "ctl", "status", "--config", k.config, want=lambda text: "waits" not in text)


def test_two_of_three_disks_are_lost(binary):
    """The third one continues after an override, whether it ran on or was started again."""
    for again in (False, True):
        with Cluster(binary, shards=2) as k:
            k.config = os.path.join(k.directory, "c.conf")
            run(binary, "found", "--file", k.config, "--shards", "2", "--peers",
                ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
                ",".join("127.0.0.1:%d" % p for p in k.ports))
            k.found()
            k.put(0, (("k%d" % i, "v%d" % i) for i in range(400)))
            settled(k, 0, full=[0, 1, 2])  # the third one has them
            for i in (0, 1, 2) if again else (0, 1):
                k.kill(i)
            for i in (0, 1):
                shutil.rmtree(os.path.join(k.directory, str(i)))
            if again:
                k.start(2)
            k.until(2, "GET", "k1", want=lambda r: "CLUSTERDOWN" in str(r))
            k.until(2, "CLUSTER", "STATE", want=lambda r: all(
                fields(fields(s)["progress"])["reading"] == 0 for s in r[5]))
            ctl = (binary, "ctl", "override", "--config", k.config)
            third = "127.0.0.1:%d" % k.ports[2]
            assert "--connect" in run(*ctl, "--ended", "0,1", code=2)
            text = run(*ctl, "--ended", "0,1", "--connect", third, code=1)
            assert "WARNING" in text and "nothing was done" in text and "--yes" in text, text
            refused(k.conn(2).ask("GET", "k1"), "CLUSTERDOWN")
            assert "this node itself" in run(*ctl, "--ended", "0,2", "--yes", "--connect", third,
                                             code=1)
            text = run(*ctl, "--ended", "0,1", "--yes", "--connect", third)
            assert "WARNING" in text and "replace" in text, text
            k.wait(2)
            with k.conn(2) as d:
                assert d.cmd("DBSIZE") == 400
                assert d.cmd("MGET", *["k%d" % i for i in range(400)]) == [
                    b"v%d" % i for i in range(400)]
            # at first the node may count the others still: then its write is unknown
            k.until(2, "SET", "k0", "x", want=lambda r: "NOREPLICAS" in str(r))
            for i in (0, 1):
                run(binary, "ctl", "replace", "--config", k.config, "--connect", third, "--node",
                    str(i))
                k.start(i)
                k.wait(i)
                settled(k, 2, full=[0, 2] if i == 0 else [0, 1, 2])
            with k.conn(1) as d:
                assert d.cmd("SET", "k0", "x") == "OK" and d.cmd("DBSIZE") == 400
                assert d.cmd("MGET", *["k%d" % i for i in range(1, 400)]) == [
                    b"v%d" % i for i in range(1, 400)]


def test_override_with_an_old_log(binary):
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers))
        k.found()
        with k.conn(0) as c:
            assert c.cmd("DURABILITY", "all", "COPIES", "3", "SET", "old", "1") == "OK"
            k.kill(2)
            k.until(0, "SET", "new", "1", want=lambda r: r == "OK")  # without node 2
        for i in (0, 1):
            k.kill(i)
            shutil.rmtree(os.path.join(k.directory, str(i)))
        k.start(2)
        k.until(2, "GET", "old", want=lambda r: "CLUSTERDOWN" in str(r))
        ctl = (binary, "ctl", "override", "--config", k.config, "--yes", "--ended", "0,1",
               "--connect", "127.0.0.1:%d" % k.ports[2])
        run(*ctl)
        time.sleep(1)  # it must not begin
        refused(k.conn(2).ask("GET", "old"), "CLUSTERDOWN")
        assert "may be lost" in run(*ctl, "--any-log")
        k.wait(2)
        with k.conn(2) as d:
            assert d.cmd("GET", "old") == b"1" and d.cmd("GET", "new") is None


def test_add_and_remove(binary):
    with Cluster(binary, nodes=4) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers[:3]))
        k.config = conf
        for i in range(3):
            k.start(i, True)
        k.wait(0)
        at = ["--config", conf, "--connect", "127.0.0.1:%d" % k.ports[0]]
        c = k.conn(0)
        k.put(0, (("k%d" % i, str(i)) for i in range(500)))
        for verb, node in (("add", "3"), ("replace", "2")):  # it would be vacant for ever
            for i in (0, 1):
                text = run(binary, "ctl", verb, *at, "--node", node, "--address",
                           "127.0.0.1:%d" % k.peers[i], code=1)
                assert "has a port of node %d, by --peers of node 0" % i in text, text
        text = run(binary, "ctl", "add", *at, "--node", "3", "--address",
                   "127.0.0.1:%d" % k.peers[3])
        assert "writes will need 3 nodes with all keys instead of 2" in text, text
        assert "--client was not given" in text, text
        assert "configured already" in run(binary, "ctl", "add", *at, "--node", "1", "--address",
                                           "127.0.0.1:1", code=1)
        k.start(3, options=["--peers", ",".join("127.0.0.1:%d" % p for p in k.peers)])
        settled(k, 0, full=[0, 1, 2, 3])
        k.wait(3)
        assert k.conn(3).cmd("DBSIZE") == 500
        assert c.cmd("CLUSTER", "STATE")[:4] == [b"node", 0, b"nodes", 4]
        text = run(binary, "ctl", "remove", *at, "--node", "1")
        assert "writes will need 2 nodes with all keys instead of 3" in text, text
        settled(k, 0, full=[0, 2, 3], configured=[0, 2, 3])
        refused(k.conn(1).ask("GET", "k1"), "CLUSTERDOWN")
        k.until(1, "GET", "k1", want=lambda r: "was removed" in str(r))
        k.logs(1, "was removed")
        k.kill(1)
        assert "no such node" in run(binary, "ctl", "remove", *at, "--node", "9", code=1)
        k.kill(2)  # the new node counts
        k.until(0, "SET", "k1", "x", want=lambda r: r == "OK")
        assert k.conn(3).cmd("GET", "k1") == b"x"


if __name__ == "__main__":
    carry_out(tests_of(globals()), sys.argv[2:], sys.argv[1])
