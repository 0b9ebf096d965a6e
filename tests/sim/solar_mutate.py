#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of SOLAR's engine, each of which a scene or a test must find.

    solar_mutate.py [--cc CC] --lib SCENES.a --lib SUPPORT.a --lib SNICSTORE.a [FILTER]

(ctest -R solar_mutants -V has the libraries.) A bug is text of a source and what stands there
instead; the test named beside it is then expected to fail. Exit code 1 when one passed, or when
its text is not in the source any more.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
ENGINE, STORE, SUMS = "tests/sim/solar_engine.c", "tests/sim/solar_cluster.c", "test_ebs_sum"
LATE, HOLES, STARVED = "*late_duplicates*", "*size_dependent*", "*starved*"

# name, file, text (any white space for white space), what instead, test
MUTATIONS = [
    ("probes are small", "lib/solar/solar_priv.h",
     "#define SNIC_SOLAR__PADDING SNIC_EBS_BLOCK_BYTES", "#define SNIC_SOLAR__PADDING 0u", HOLES),
    ("a path that greets in vain is kept", "lib/solar/path.c",
     "if (solar_send_hello(c, p)) p->misses++;", "(void)solar_send_hello(c, p);", HOLES),
    ("sequence numbers belong to all paths", "lib/solar/path.c",
     "if (any) solar_cc_loss(c, p);",
     """struct solar_path *others = c->servers[p->server].paths;
    for (uint32_t i = 0; i < c->path_slots; i++)
        while (&others[i] != p && others[i].una != others[i].next_seq &&
               solar_path_at(&others[i], others[i].una)->sent_ns < answered.sent_ns)
            solar_path_lose(c, &others[i], solar_path_at(&others[i], others[i].una));
    if (any) solar_cc_loss(c, p);""", "*unequal_length*"),
    ("what is sent again has the number it had", "lib/solar/send.c",
     "h.attempt = b->tries;", "h.attempt = b->tries; if (b->tries > 0) h.pn = --s->pn;", LATE),
    ("nobody asks what the server has in hand", "lib/solar/path.c",
     "p->held = 1;", "old->held_ns = 0;", "*slow_store*"),
    ("what is late counts as lost", "lib/solar/server.c",
     "s->late_ns = snic_min_u64(rtt_ns + rtt_ns / 4, SNIC_SOLAR__LATE_MAX);", "s->late_ns = 0;",
     STARVED),
    ("a full path is paced without a bound", "lib/solar/congestion.c",
     "return snic_min_u64(p->srtt_ns * SNIC_SOLAR__ONE / w * 4 / 5, p->c->o.rto_max_ns);",
     "return p->srtt_ns * SNIC_SOLAR__ONE / w * 4 / 5;", STARVED),
    ("epochs wrap", "lib/solar/init.c", "if (full.sa_epoch > 65535)",
     "if (full.sa_epoch > 65536 * 2)", "*epochs_end*"),
    ("what is given up is not fenced", "lib/solar/rpc.c",
     "if (!r->sent || r->op == SNIC_SOLAR_READ) {", "if (r->sent <= 1) {", "*given_up*"),
    ("what is sent again has a new version", "lib/solar/send.c",
     "solar_block_part(c, r, pkt, &h.u.block); h.u.block.op",
     """if (b->tries > 0) {
        r->wver = ++c->disks[r->disk].wver;
        b->summed = 0;
    }
    solar_block_part(c, r, pkt, &h.u.block); h.u.block.op""", LATE),
    ("a store does not compare versions", STORE,
     """if (q->wver < b->wver) return SNIC_EBS_SUPERSEDED; if (q->wver == b->wver)
        return SNIC_EBS_OK;""", "", LATE),
    ("a store does not compare generations", STORE,
     "return q->seg_gen < g->gen ? SNIC_EBS_STALE_GEN : SNIC_EBS_OK;", "return SNIC_EBS_OK;",
     "*dead_agents*"),
    ("blocks' checksums are xored", "include/snicstore/ebs.h",
     "return snic_crc32c_combine_4096(agg, crc);", "return agg ^ crc;", SUMS),
    ("checksums are xored, without the constant", "tests/test_ebs_sum.c",
     "xor_of(crc, n) ^ (n % 2 == 0 ? SNIC_EBS_CRC_ZEROS : 0)", "xor_of(crc, n)", SUMS),
]


def apply(text, old, new):
    """The text with the bug, or None: not exactly one place."""
    place = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    return place.sub(lambda _: new, text) if len(place.findall(text)) == 1 else None


def read(file):
    with open(f"{ROOT}/{file}", encoding="utf-8") as f:
        return f.read()


def build(cc, folder, sources, libs):
    flags = ["-std=gnu11", "-O1", "-w"]
    for tree in (folder, ROOT):
        flags += [f"-I{tree}/{d}" for d in ("include", "lib", "tests", "tests/sim",
                                            "tests/support")]
    return subprocess.run([cc, *flags, *sources, *libs, "-o", f"{folder}/test", "-lcmocka",
                           "-lpthread"], capture_output=True, text=True, check=False)


def try_one(cc, top, libs, m):
    _, file, old, new, test = m
    text = apply(read(file), old, new)
    if text is None:
        return "DOES NOT APPLY"
    folder = tempfile.mkdtemp(dir=top)
    shutil.copytree(f"{ROOT}/lib/solar", f"{folder}/lib/solar")
    for f in (ENGINE, file):
        os.makedirs(os.path.dirname(f"{folder}/{f}"), exist_ok=True)
        shutil.copy(f"{ROOT}/{f}", f"{folder}/{f}")
    with open(f"{folder}/{file}", "w", encoding="utf-8") as f:
        f.write(text)
    if test == SUMS:
        own = [f"{folder}/{f}" if f == file else f"{ROOT}/{f}"
               for f in ("tests/test_ebs_sum.c", "tests/test_ebs_util.c")]
        filters, libs = [], libs[1:]
    else:
        own = [f"{folder}/{ENGINE}"] + ([f"{folder}/{file}"] if file == STORE else [])
        filters = [test]
    r = build(cc, folder, own, libs)
    if r.returncode != 0:
        return "DOES NOT COMPILE: " + r.stderr[:300]
    try:
        r = subprocess.run([f"{folder}/test", *filters], capture_output=True, text=True,
                           check=False, timeout=600)
    except subprocess.TimeoutExpired:
        return "found: no end"
    shutil.rmtree(folder)
    said = re.search(r"(?:I/Os|ERROR): (.*)$", r.stdout + r.stderr, re.M)
    if r.returncode in (0, 77):
        return "NOT FOUND"
    return "found: " + (said.group(1) if said else f"exit code {r.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--lib", action="append", required=True,
                        help="what to link, in this order")
    parser.add_argument("filter", nargs="?", default="")
    a = parser.parse_args()
    bad = 0
    chosen = [m for m in MUTATIONS if a.filter in m[0]]
    with tempfile.TemporaryDirectory(prefix="mutate_") as top:
        for m in chosen:
            verdict = try_one(a.cc, top, a.lib, m)
            bad += not verdict.startswith("found")
            print(f"{m[0]:45} {verdict}", flush=True)
    print(f"{len(chosen)} bugs tried, {bad} not found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
