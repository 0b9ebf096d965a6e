#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_forwarder.py FORWARDER: the network of the harness, and each of its faults."""
import hashlib
import os
import socket
import sys
import threading
import time

import ddpbox

COUNT = 400


def check(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def inside(name, what):
    """what() in a thread of that namespace."""
    got = []

    def body():
        ddpbox.enter_network(name)
        got.append(what())

    t = threading.Thread(target=body)
    t.start()
    t.join()
    return got[0]


class Pair:
    """UDP from the clients to node 0, and the order in which numbers arrive."""

    def __init__(self, net):
        self.net = net
        self.to = inside("n0", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.to.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.to.bind((net.address(0), 7000))
        self.to.settimeout(0.25)
        self.out = inside("c", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.out.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE

    def numbers(self, count=COUNT, size=0):
        for i in range(count):
            self.out.sendto(b"%d " % i + b"x" * size, (self.net.address(0), 7000))
        got, before, end = [], None, time.monotonic() + 300
        while len(got) < 3 * count:
            try:
                got.append(int(self.to.recv(65536).split()[0]))
            except TimeoutError:  # the forwarder has none left, or was not scheduled
                now = self.net("stats")
                assert time.monotonic() < end, now
                if now == before and now["waiting"] == "0":
                    break
                before = now
        return got


def test_clean(net, pair):
    check(pair.numbers() == list(range(COUNT)), "all arrive in order")
    check(pair.numbers(5, 20_000) == list(range(5)), "fragments arrive")


def test_stream(net, pair):
    listener = inside("n1", lambda: socket.create_server((net.address(1), 7001)))
    data = os.urandom(1 << 20) * 8
    sums = []

    def receive():
        s, _ = listener.accept()
        h = hashlib.sha256()
        while more := s.recv(1 << 20):
            h.update(more)
        sums.append(h.digest())

    def send():
        with socket.create_connection((net.address(1), 7001)) as s:
            s.sendall(data)

    for faults in ("", "loss 20000", "delay 500 jitter 2000 dup 50000"):
        if faults:
            net("link * * " + faults)
        t = threading.Thread(target=receive)
        t.start()
        inside("c", send)
        t.join()
        check(sums.pop() == hashlib.sha256(data).digest(), f"a stream with '{faults}'")


def test_delay_keeps_order(net, pair):
    net("link * 1 delay 20000")
    check(pair.numbers() == list(range(COUNT)), "all arrive in order")
    check(int(net("stats")["late"]) >= COUNT, "late")


def test_reordering(net, pair):
    net("link * 1 reorder 100000 span 30000")
    got = pair.numbers()
    check(got != sorted(got) and sorted(got) == list(range(COUNT)), "all arrive, some later")


def test_duplication(net, pair):
    net("link * 1 dup 500000")
    got = pair.numbers()
    check(set(got) == set(range(COUNT)) and len(got) > COUNT * 5 / 4, "many arrive twice")


def test_loss_by_seed(net, pair):
    net("link 3 1 loss 200000")
    got = pair.numbers()
    check(COUNT // 2 < len(got) < COUNT and got == sorted(got), "some are lost")
    net("link 3 1 loss 1000000")
    check(pair.numbers() == [], "all are lost")


def test_nft(net, pair):
    net.rules(0, [f"ip saddr {net.address(2)} drop"])
    check(pair.numbers(20) == [], "a partition")
    net.rules(0, [f"ip saddr {net.address(2)} numgen random mod 100 < 30 drop"])
    check(COUNT // 2 < len(pair.numbers()) < COUNT, "loss by nft")
    net.rules(0, [])
    check(len(pair.numbers(20)) == 20, "healed")


def test_rate(net, pair):
    net.rate(2, 2_000_000)
    got = pair.numbers(COUNT, 1000)
    check(0 < len(got) < COUNT, f"what is beyond the queue is lost: {len(got)}")
    net.rate(2, 0)
    check(len(pair.numbers(20)) == 20, "healed")


def main():
    ddpbox.enter()
    net = ddpbox.Network(os.path.abspath(sys.argv[1]), ddpbox.work_folder(), 2, 5)
    pair = Pair(net)
    tests = [v for k, v in sorted(globals().items()) if k.startswith("test_")]
    for test in tests:
        net.heal()
        test(net, pair)
        print("ok", test.__name__)
    net.close()
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
