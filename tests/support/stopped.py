# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program that is stopped in a system call, as by the terminal, and continued: the kernel ends
some calls with EINTR then, also without a handler of signals."""
import contextlib
import os
import signal
import socket
import subprocess
import time

LIMIT = 240  # seconds, against hangs only
CONNECT = {"x86_64": 42, "aarch64": 203}[os.uname().machine]  # of /proc/PID/syscall


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


def await_connect(process):
    """It sleeps in connect()."""
    end = time.monotonic() + LIMIT
    while True:
        await_state(process, "S")
        with open("/proc/%d/syscall" % process.pid, encoding="ascii") as f:
            call = f.read()
        if call.startswith("%d " % CONNECT):
            return
        assert time.monotonic() < end, "the program waits in system call " + call
        time.sleep(0.005)


@contextlib.contextmanager
def stopped_in_connect(command, listener):
    """Starts the command, which is stopped and continued while connect() waits for a place in the
    listener's backlog, and then gets one. Yields its process and the connection."""
    listener.settimeout(LIMIT)
    listener.listen(0)
    with socket.socket(listener.family) as first:
        first.connect(listener.getsockname())  # takes the only place
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            await_connect(p)
            stop_and_continue(p)
            await_connect(p)
            listener.accept()[0].close()
            with listener.accept()[0] as connection:
                connection.settimeout(LIMIT)
                yield p, connection
        finally:
            p.kill()
            p.wait()
            p.stdout.close()
