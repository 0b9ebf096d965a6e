#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A second implementation of DH-HMAC-CHAP, which plays the other half of nvmeauth and compares
every byte: all hashes, all groups, one direction and both, transformed and plain secrets.

    nvmeauth_judge.py LINE_PROGRAM [--seed N] [--all]

Written from the specification (NVM Express Base 2.0, 8.13; RFC 7919 for the primes, which are
computed here from e). Where `nvme` is installed, secrets are also made by `nvme gen-dhchap-key`.
"""
import base64
import hashlib
import hmac
import random
import shutil
import struct
import subprocess
import sys
import zlib

HASHES = {1: "sha256", 2: "sha384", 3: "sha512"}
BITS = {1: 2048, 2: 3072, 3: 4096, 4: 6144, 5: 8192}
OFFSETS = {1: 560316, 2: 2625351, 3: 5736041, 4: 15705020, 5: 10965728}  # RFC 7919, appendix A
IDLE, NEGOTIATED, CHALLENGED, REPLIED, SUCCESS1, DONE, FAILING, OVER = range(8)


def two_to_e(bits):
    """[2^bits * e], the sum of reciprocal factorials."""
    guard = bits + 64
    total = term = 1 << guard
    k = 1
    while term:
        term //= k
        total += term
        k += 1
    return total >> 64


def prime(group):
    b = BITS[group]
    return (1 << b) - (1 << (b - 64)) + ((two_to_e(b - 130) + OFFSETS[group]) << 64) - 1


PRIMES = {g: prime(g) for g in BITS}
WIDTH = {0: 0, **{g: b // 8 for g, b in BITS.items()}}


def mac(h, key, data):
    return hmac.new(key, data, HASHES[h]).digest()


class Secret:
    def __init__(self, h, key):
        self.h, self.key = h, key
        tail = struct.pack("<I", zlib.crc32(key))
        self.text = "DHHC-1:%02d:%s:" % (h, base64.b64encode(key + tail).decode())

    def transformed(self, nqn):
        return mac(self.h, self.key, nqn + b"NVMe-over-Fabrics") if self.h else self.key


class Queue:
    """What both sides know, and how responses are computed."""

    def __init__(self, host, sub, h, g, tid, host_key, ctrl_key):
        self.host, self.sub, self.h, self.g, self.tid = host.encode(), sub.encode(), h, g, tid
        self.host_key, self.ctrl_key = host_key, ctrl_key
        self.size = hashlib.new(HASHES[h]).digest_size

    def session(self, y, x):
        if self.g == 0:
            return b""
        shared = pow(y, x, PRIMES[self.g]).to_bytes(WIDTH[self.g], "big")
        return hashlib.new(HASHES[self.h], shared).digest()

    def respond(self, of_ctrl, challenge, sequence, session):
        if self.g:
            challenge = mac(self.h, session, challenge)
        prover, other = (self.sub, self.host) if of_ctrl else (self.host, self.sub)
        key = (self.ctrl_key if of_ctrl else self.host_key).transformed(prover)
        text = b"Controller" if of_ctrl else b"HostHost"
        return mac(self.h, key, challenge + struct.pack("<IHB", sequence, self.tid, 0) + text +
                   prover + b"\0" + other)


class Half:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)

    def __call__(self, *words):
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline().split()
        assert line, "the program ended: %s" % self.p.wait()
        if line[0] == "error":
            return int(line[1]), 0, b""
        return int(line[0]), int(line[1]), bytes.fromhex(line[2] if len(line) > 2 else "")


def exponent(raw, group):
    """As the library documents: the first bytes of the private value, the top bit set."""
    n = {1: 32, 2: 40, 3: 48, 4: 48, 5: 56}[group]
    return int.from_bytes(raw[:n], "big") | 1 << (8 * n - 1)


def negotiate(tid, hashes, groups):
    d = bytes([1, 0, len(hashes), len(groups)]) + bytes(hashes).ljust(30, b"\0")
    return struct.pack("<BBHHBB", 0, 0, 0, tid, 0, 1) + (d + bytes(groups)).ljust(64, b"\0")


def setup(half, q, rng, hashes, groups):
    challenge, x, sequence = rng.randbytes(64), rng.randbytes(64), rng.randrange(1, 1 << 32)
    half("init", q.host.decode(), q.sub.decode(), hashes, groups)
    assert half("keys", q.host_key.text, q.ctrl_key.text if q.ctrl_key else "-")[0] == 0
    half("random", challenge.hex(), x.hex(), sequence)
    return challenge[:q.size], x, sequence


def against_controller(half, q, rng):
    """nvmeauth is the controller, this is the host."""
    c1, x, s1 = setup(half, q, rng, 1 << q.h, 1 << q.g)
    assert half("put", negotiate(q.tid, [3, 2, 1], [0, 1, 2, 3, 4, 5]).hex())[:2] == (NEGOTIATED, 0)
    state, _, got = half("get", 4096)
    ours = b"" if q.g == 0 else pow(2, exponent(x, q.g), PRIMES[q.g]).to_bytes(WIDTH[q.g], "big")
    want = struct.pack("<BBHHBBBBHI", 1, 1, 0, q.tid, q.size, 0, q.h, q.g, WIDTH[q.g], s1)
    want += c1 + ours
    assert got == want and state == CHALLENGED, (got.hex(), want.hex())
    y = rng.getrandbits(320) | 1 << 319
    value = b"" if q.g == 0 else pow(2, y, PRIMES[q.g]).to_bytes(WIDTH[q.g], "big")
    session = q.session(int.from_bytes(ours, "big"), y)
    c2 = rng.randbytes(q.size) if q.ctrl_key else bytes(q.size)
    s2 = rng.randrange(1, 1 << 32) if q.ctrl_key else 0
    reply = struct.pack("<BBHHBBBBHI", 1, 2, 0, q.tid, q.size, 0, bool(q.ctrl_key), 0, WIDTH[q.g],
                        s2) + q.respond(0, c1, s1, session) + c2 + value
    assert half("put", reply.hex())[:2] == (REPLIED, 0)
    state, _, got = half("get", 4096)
    want = struct.pack("<BBHHBBB7x", 1, 3, 0, q.tid, q.size, 0, bool(q.ctrl_key))
    if not q.ctrl_key:
        assert got == want and state == DONE, got.hex()
        return
    want += q.respond(1, c2, s2, session)
    assert got == want and state == SUCCESS1, (got.hex(), want.hex())
    assert half("put", struct.pack("<BBHH10x", 1, 4, 0, q.tid).hex())[:2] == (DONE, 0)


def against_host(half, q, rng):
    """nvmeauth is the host, this is the controller."""
    c2, x, s2 = setup(half, q, rng, 14, 63)
    state, _, got = half("start", q.tid)
    assert got == negotiate(q.tid, [1, 2, 3], [1, 2, 3, 4, 5, 0]) and state == NEGOTIATED, got.hex()
    c1, s1, y = rng.randbytes(q.size), rng.randrange(1, 1 << 32), rng.getrandbits(320) | 1 << 319
    value = b"" if q.g == 0 else pow(2, y, PRIMES[q.g]).to_bytes(WIDTH[q.g], "big")
    challenge = struct.pack("<BBHHBBBBHI", 1, 1, 0, q.tid, q.size, 0, q.h, q.g, WIDTH[q.g], s1)
    state, _, got = half("step", (challenge + c1 + value).ljust(2048, b"\0").hex())
    ours = b"" if q.g == 0 else pow(2, exponent(x, q.g), PRIMES[q.g]).to_bytes(WIDTH[q.g], "big")
    session = q.session(int.from_bytes(ours, "big"), y)
    both = bool(q.ctrl_key)
    want = struct.pack("<BBHHBBBBHI", 1, 2, 0, q.tid, q.size, 0, both, 0, WIDTH[q.g],
                       s2 if both else 0) + q.respond(0, c1, s1, session)
    want += (c2 if both else bytes(q.size)) + ours
    assert got == want and state == REPLIED, (got.hex(), want.hex())
    success = struct.pack("<BBHHBBB7x", 1, 3, 0, q.tid, q.size, 0, both)
    if both:
        success += q.respond(1, c2, s2, session)
    state, _, got = half("step", success.hex())
    assert state == DONE and got == (struct.pack("<BBHH10x", 1, 4, 0, q.tid) if both else b"")


def leading_zeros(half, q, rng):
    """Exchanges whose shared value, or one side's value, begins with a zero byte."""
    p = PRIMES[1]
    found = set()
    while "shared" not in found:
        c1, x, s1 = rng.randbytes(64), rng.randbytes(64), rng.randrange(1, 1 << 32)
        e, y = exponent(x, 1), rng.getrandbits(320) | 1 << 319
        ours = pow(2, e, p)
        small = "ours" if ours >> 2040 == 0 else None
        if small is None and pow(ours, y, p) >> 2040 == 0:
            small = "shared"
        if small is None or small in found:
            continue
        found.add(small)
        half("init", q.host.decode(), q.sub.decode(), 1 << q.h, 2)
        half("keys", q.host_key.text, "-")
        half("random", c1.hex(), x.hex(), s1)
        half("put", negotiate(q.tid, [q.h], [1]).hex())
        _, _, got = half("get", 4096)
        assert got[16 + q.size:] == ours.to_bytes(256, "big"), "padding of the public value"
        session = q.session(ours, y)
        reply = struct.pack("<BBHHBBBBHI", 1, 2, 0, q.tid, q.size, 0, 0, 0, 256, 0)
        reply += q.respond(0, c1[:q.size], s1, session) + bytes(q.size)
        assert half("put", (reply + pow(2, y, p).to_bytes(256, "big")).hex())[:2] == (REPLIED, 0)


def made_by_nvme(nqn):
    """(hash, secret) of `nvme gen-dhchap-key` with every hash and length that it makes."""
    found = []
    if shutil.which("nvme") is None:
        print("nvme-cli is not installed: secrets of nvme gen-dhchap-key are left out")
        return found
    for h in range(4):
        for length in (32, 48, 64):
            raw = random.Random(h * 100 + length).randbytes(length)
            r = subprocess.run(["nvme", "gen-dhchap-key", "-m", str(h), "-l", str(length),
                                "-n", nqn, "-s", raw.hex()],
                               capture_output=True, text=True, check=False)
            text = r.stdout.strip()
            if r.returncode == 0 and text.startswith("DHHC-1:"):
                found.append((h, length, raw, text))
    assert found, "nvme gen-dhchap-key makes no secret at all"
    return found


def secrets(half, nqn):
    for h, length, raw, text in made_by_nvme(nqn):
        assert half("keys", text, "-")[0] == 0, "refused: " + text
        key = base64.b64decode(text[10:-1])[:-4]
        assert len(key) == length and Secret(h, key).text == text
        print("secret of nvme-cli: hash %d, %d bytes, %s" %
              (h, length, "as given" if key == raw else "transformed by nvme-cli"))


def main():
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    rng = random.Random(seed)
    probe = subprocess.run([sys.argv[1]], stdin=subprocess.DEVNULL, check=False)
    if probe.returncode == 77:
        return 77
    half = Half(sys.argv[1])
    host, sub = "nqn.2014-08.org.nvmexpress:uuid:1-2-3", "nqn.2026-11.example:disk"
    secrets(half, host)
    count = 0
    for h in HASHES:
        for g in range(6):
            for both in (0, 1):
                for rotation in range(4):
                    t, length = (h + g + rotation) % 4, (32, 48, 64)[(h + g + both + rotation) % 3]
                    host_key = Secret(t, rng.randbytes(length))
                    ctrl_key = Secret((t + 1) % 4, rng.randbytes(length)) if both else None
                    q = Queue(host, sub, h, g, rng.randrange(1 << 16), host_key, ctrl_key)
                    against_controller(half, q, rng)
                    against_host(half, q, rng)
                    count += 2
                    if g and "--all" not in sys.argv:
                        break
    long = "nqn.2026-11.example:" + "x" * 203
    q = Queue(long, long[:-1] + "y", 3, 1, 0xffff, Secret(3, rng.randbytes(64)),
              Secret(0, rng.randbytes(64)))
    against_controller(half, q, rng)
    against_host(half, q, rng)
    leading_zeros(half, Queue(host, sub, 1, 1, 7, Secret(0, rng.randbytes(32)), None), rng)
    print("%d transactions of %d hashes and 6 groups, each byte as computed here" % (count + 2, 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
