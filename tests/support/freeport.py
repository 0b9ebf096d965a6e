# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A port that stays free while a server that had it is down."""
import os
import random
import socket
import time


def free_port():
    """@return a port of loopback at which no program listens, below those that the kernel gives to
    connections: one of these could be taken while a test's server starts again."""
    rng = random.Random(os.getpid() * 7919 + time.monotonic_ns())
    while True:
        port = rng.randrange(20000, 32000)
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as s:
                    s.bind(("127.0.0.1", port))
            return port
        except OSError:
            continue
