#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A node that has no memory for replies for a while: watches overflow, and continue.

    test_ddp_memory.py BINARY NO_MEMORY_LIBRARY
"""
import os
import signal
import sys
import time

from ddpserver import Cluster, carry_out


def replies_without_memory(binary, library):
    os.environ["LD_PRELOAD"] = library
    with Cluster(binary, nodes=1) as k:
        k.start(0, True)
        del os.environ["LD_PRELOAD"]
        k.wait(0)
        with k.conn(0) as w, k.conn(0) as a:
            assert w.cmd("WATCHKEY", "a") == 1
            begin = w.reply()
            assert begin[:3] == [b"watch", 1, b"begin"], begin
            assert a.cmd("SET", "a", "1") == "OK" and w.reply()[2] == b"put"
            k.processes[0].send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            for i in range(3):  # each takes effect, and has no reply but this
                assert "out of memory" in str(a.ask("SET", "a", "lost%d" % i))
            time.sleep(0.1)
            k.processes[0].send_signal(signal.SIGUSR1)
            got = w.reply()
            assert got[:4] == [b"watch", 1, b"overflow", b"a"], got
            assert a.cmd("SET", "a", "2") == "OK"
            after = w.reply()
            assert after[2] == b"put" and after[4] == b"2", after
            number = [int(e[6].split(b":")[3]) for e in (begin, got, after)]
            assert number[1] == number[0] + 4 and number[2] == number[1] + 1, number


if __name__ == "__main__":
    carry_out({"replies without memory": replies_without_memory}, [], *sys.argv[1:3])
