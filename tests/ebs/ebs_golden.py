#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packets of tests/ebs/test_ebs.c, made by a program that has no line in common with lib/ebs:
 `ebs_golden.py` prints the table for that file, `ebs_golden.py --check FILE` compares.

The values are those of ebs_sample() in tests/ebs/test_ebs_util.c.
"""
import hashlib
import hmac
import re
import struct
import sys

VERSION = 2
PROOF = 0x0ddc0ffeebadf00d
TYPES = ["WRITE", "WACK", "READ_REQ", "READ_RESP", "ACKV", "PROBE", "PROBE_ACK", "RESET", "HELLO",
         "HELLO_ACK", "FENCE", "FENCE_ACK", "NAK", "TOKEN"]
TO_SERVER = {"WRITE", "READ_REQ", "PROBE", "HELLO", "FENCE", "TOKEN"}
# Flags and status, where they are not 0.
FLAGS = {"WRITE": 0x126, "WACK": 0x210, "READ_RESP": 0x80}
STATUS = {"RESET": 10, "FENCE_ACK": 2, "NAK": 4}


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def block(kind):
    fence = kind.startswith("FENCE")
    lba = 0 if fence else 0x1122334455
    count = 0 if fence else 9 if kind == "READ_REQ" else 1
    data_crc = 0 if fence or kind == "READ_REQ" else 0xed96b643
    bound = struct.pack(">QQHHBBHQQII", 0x0102030405060708, 0xf1f2f3f4f5f6f7f8, lba % 512,
                        count, 12, 0, 0xbeef, lba, 0x0003000000000777, 0xcafe, data_crc)
    last = {"WRITE": struct.pack(">II", 0xaabbccdd, 0), "WACK": struct.pack(">II", 0x0badf00d, 0),
            "READ_REQ": struct.pack(">Q", 0x103),
            "READ_RESP": struct.pack(">HHI", 0x1234, 0x5678, 0xaabbccdd)}.get(kind, bytes(8))
    return bound + struct.pack(">II", crc32c(bound), 0x76543210) + last


def token():
    """Also in tests/ebs/test_ebs_token.c; the signing key is 64 bytes, 1 ... 64."""
    claims = struct.pack(">BBHIQIIQ16x", 1, 5, 0, 0x5167, 0x0102030405060708, 0x00030000,
                         0xacc00001, 0x6f5e4d3c)
    mac = hmac.new(bytes(range(1, 65)), b"snic ebs token 1" + claims, hashlib.sha256)
    return claims + mac.digest()[:16]


def part(kind):
    if kind == "ACKV":
        return b""
    if kind.startswith("HELLO"):
        epoch = 7 if kind == "HELLO" else 0
        last = 0xacc00001 << 32 if kind == "HELLO" else 0x5eed000000000002
        return struct.pack(">BBHIIIQQQQIIQ", 1, 2, 0, 0xfeedface, 0xf, epoch, 0x0f1e2d3c4b5a6978,
                           0x8877665544332211, PROOF, 0x1020304050607080, 0x99, 4320, last)
    if kind == "RESET":
        return struct.pack(">QBBHI48x", 0x8877665544332211, 1, 3, 0, 2500)
    if kind.startswith("PROBE"):
        return struct.pack(">IIQ32xQII", 224, 0, 0x0f1e2d3c4b5a6978, PROOF, 0x99, 0xacc00001)
    if kind == "NAK":
        return struct.pack(">IHHQ48x", 1500, 0x8000, 0, PROOF)
    if kind == "TOKEN":
        return token()
    return block(kind)


def body(kind):
    """What hdr_crc is of, beside the headers, and the bytes of it that the table has."""
    if kind == "READ_REQ":
        slots = struct.pack(">HHHHHH", 1, 2, 0x300, 4, 0xffff, 0x8001)
        return slots, slots
    if kind == "ACKV":
        acks = b"".join(struct.pack(">QHHIIIIBBH", 0x0007000000000123 + i, 5 + i, i, 0x11223344 + i,
                                    0x55667788 + i, 0x100 + i, 0x0badf00d + i, 3 + i, 0xfe, i << 9)
                        for i in range(2))
        return acks, acks
    if kind.startswith("PROBE"):
        return bytes(96), b""
    if kind.startswith("HELLO"):
        return bytes(64), b""
    return b"", b""


def packet(kind):
    ack = kind == "ACKV"
    flags = FLAGS.get(kind, 0)
    before = 64 if ack else 128 + (80 if flags & 0xc else 0)
    rpc = struct.pack(">BBHIQHHBBBBIIIIIIHBB", VERSION << 4 | before // 16, TYPES.index(kind) + 1,
                      flags, 0xc0ffee01, 0x0007000000000123, 0 if ack else 5, 2 if ack else 9, 3,
                      0xfe, 2, 0x15, 0x11223344, 0x55667788, 0x99aabbcc, 0xfffe, 0x22334455,
                      0x66778899, STATUS.get(kind, 0), 1, 0xfd)
    summed, shown = body(kind)
    rest = struct.pack(">Q", 0x1deadbeef) + part(kind)
    scope = struct.pack(">II", 0xc0ffee01, 0 if kind in TO_SERVER else 1)
    crc = crc32c(scope + rpc + bytes(4) + rest + summed)
    return rpc + struct.pack(">I", crc) + rest + shown


def main():
    hexes = {kind: packet(kind).hex() for kind in TYPES}
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        text = open(sys.argv[2], encoding="utf-8").read()
        for kind in TYPES:
            found = re.search(r"\[SNIC_EBS_" + kind + r"\] =((?:\s*\"[0-9a-f]*\")+)", text)
            if found is None or "".join(re.findall("[0-9a-f]{8,}", found[1])) != hexes[kind]:
                sys.exit(f"{sys.argv[2]}: the bytes of {kind} are not those of the format")
        return
    for kind in TYPES:
        lines = [hexes[kind][i:i + 80] for i in range(0, len(hexes[kind]), 80)]
        quoted = "\n        ".join(f'"{x}"' for x in lines)
        print(f"    [SNIC_EBS_{kind}] =\n        {quoted},")


main()
