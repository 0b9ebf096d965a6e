# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program that is stopped in a system call, as by the terminal, and continued: the kernel ends
some calls with EINTR then, also without a handler of signals."""
import signal
import time

LIMIT = 240  # seconds, against hangs only


def await_state(process, state):
    end = time.monotonic() + LIMIT
    while True:
        with open("/proc/%d/stat" % process.pid, encoding="ascii") as f:
            now = f.read().rsplit(")", 1)[1].split()[0]
        if now == state:
            return
        assert now not in "ZX", "the program ended before its state was '%s'" % state
        assert time.monotonic() < end, "the program's state is '%s', not '%s'" % (now, state)
        time.sleep(0.005)


def stop_and_continue(process):
    await_state(process, "S")
    process.send_signal(signal.SIGSTOP)
    await_state(process, "T")
    process.send_signal(signal.SIGCONT)
