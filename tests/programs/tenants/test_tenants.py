#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""examples/tenants from outside: mistakes, what it refuses to overwrite, both kinds of device.

    test_tenants.py PROGRAM FOLDER_OF_JOBS [--only NAME]

Exit code: 0, or 1. Figures are asserted in simulated time only. A run on a file ends when every
tenant has done so many I/Os: how long that takes depends on the disk and on who else has the CPUs.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as xml

from tenants_run import (PLACE, WAIT, by_name, catches, digest, fresh, job, killed_if_raised,
                         measured, measured_alone, measured_until, run, start)

SCHEDULERS = ["gimbal", "fifo", "reflex", "parda", "flashfq"]
NIGHTLY = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
SANITIZED = os.environ.get("SNIC_SANITIZED", "") != ""
TURN = int(os.environ.get("SNIC_TURN", "") or 1)


def schedulers():
    """For what takes long: by day, under a sanitizer, the switch and one of the others."""
    if NIGHTLY or not SANITIZED:
        return SCHEDULERS
    return ["gimbal", SCHEDULERS[1 + TURN % (len(SCHEDULERS) - 1)]]


# ---- Mistakes ----

def test_help():
    out, err = run("--help")
    assert err == "" and "--scheduler" in out and "iodepth=N" in out
    assert max(map(len, out.splitlines())) <= 100


def test_options():
    j = job("[a]\n")
    device = fresh("d", 1 << 20)
    for args, text in [
            ((), "--job FILE is missing"),
            (("--job", j), "--device PATH or --ssd MODEL"),
            (("--job", j, "--device", device, "--ssd", "dct983"), "either --device PATH or --ssd"),
            (("--job", j, "--ssd", "dct983", "--direct"), "need --device"),
            (("--job", j, "--ssd", "dct983", "--overwrite"), "need --device"),
            (("--job", j, "--ssd", "dct983", "--scheduler", "cfq"), "--scheduler"),
            (("--job", j, "--ssd", "dct983", "--seconds", "2", "--warmup", "2"), "--warmup"),
            (("--job", j, "--ssd", "dct983", "--auto"), "--auto"),
            (("--job", j, "--ssd", "dct983", "--scheduler", "fifo", "--write-cost", "2"),
             "need --scheduler"),
            (("--job", j, "--ssd", "dct983", "--thresh-min", "1500"), "--thresh-min"),
            (("--job", j, "--ssd", "dct983", "--thresh-max", "250"), "--thresh-min"),
            (("--job", j, "--ssd", "dct983", "--write-cost", "0.9"), "--write-cost"),
            (("--job", j, "--ssd", "dct983", "--write-cost", "32.1"), "'32.1' is not 1..32"),
            (("--job", j, "--ssd", "dct983", "--write-cost", "320"), "'320' is not 1..32"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "0"), "--device-scale"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "0.00009"),
             "'0.00009' is not 0.0001..10000"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "10000.1"),
             "'10000.1' is not 0.0001..10000"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "100000"),
             "'100000' is not 0.0001..10000"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "1x"), "--device-scale"),
            (("--job", j, "--ssd", "dct983", "--device-scale", "nan"), "--device-scale"),
            (("--job", j, "--ssd", "dct983", "--seconds", "0"), "--seconds"),
            (("--job", j, "--ssd", "dct983", "--seconds", "86401"), "--seconds"),
            (("--job", j, "--ssd", "dct983", "--warmup", "86401"), "--warmup"),
            (("--job", j, "--ssd", "dct983", "--solo", "86401"), "--solo"),
            (("--job", j, "--ssd", "dct983", "--stats", "864010"), "--stats"),
            (("--job", j, "--ssd", "dct983", "--size", str((1 << 50) + 4096)), "--size"),
            (("--job", j, "--ssd", "dct983", "--nothing"), "--nothing")]:
        out, err = run(*args, code=2)
        assert out == "" and text in err, (args, err)
    for args, text in [
            (("--job", "missing.ini", "--ssd", "dct983"), "missing.ini: No such file"),
            (("--job", PLACE.work, "--ssd", "dct983"), "Is a directory"),
            (("--job", j, "--ssd", "dct984"), "is not dct983 or p3600"),
            (("--job", j, "--ssd", "dct98"), "is not dct983 or p3600"),
            (("--job", j, "--ssd", "p3600,new"), "'new' is not clean or fragmented"),
            (("--job", j, "--ssd", "dct983", "--size", "5000"), "multiple of 4096"),
            (("--job", j, "--ssd", "dct983", "--svg", "no/such/folder"), "no/such/folder"),
            (("--job", j, "--ssd", "dct983", "--seconds", "1", "--json", "/dev/full"),
             "cannot write /dev/full"),
            (("--job", j, "--device", fresh("missing")), "--size N makes it"),
            (("--job", j, "--device", PLACE.work), "neither a file nor a block device"),
            (("--job", j, "--device", "/dev/null"), "neither a file nor a block device"),
            (("--job", j, "--device", device, "--size", "2M"), "has 1048576 bytes only")]:
        usage = any(t in text for t in ("dct983 or", "clean or", "multiple of", "bytes only"))
        _, err = run(*args, code=2 if usage else 1)
        assert text in err, (args, err)


def test_job_mistakes():
    j = job("[global]\nbs=5k\nbs=\n[a]\niodept=3\nrw=red\nioengine=sync\n\nweight=300\n")
    out, err = run("--job", j, "--ssd", "dct983", code=2)
    assert out == ""
    lines = err.splitlines()
    for n, text in [(2, "note: bs is ignored: line 3 overrides it"), (3, "bs: value is missing"),
                    (5, "unknown key 'iodept'"), (6, "rw: 'red'"),
                    (7, "note: ioengine is ignored"), (9, "weight: '300'")]:
        assert any(s.startswith("%s:%d: " % (j, n)) and text in s for s in lines), (n, err)
    assert len(lines) == 6, err


def test_a_job_file_is_at_most_a_mebibyte():
    text = "[a]\n"
    j = job(text + "#\n" * ((1 << 19) - len(text) // 2))
    assert os.path.getsize(j) == 1 << 20
    run("--job", j, "--ssd", "dct983", "--seconds", 1)
    with open(j, "a", encoding="utf-8") as f:
        f.write("\n")
    _, err = run("--job", j, "--ssd", "dct983", "--seconds", 1, code=1)
    assert "more than 1048576 bytes" in err, err


# Each of fio's options is read, or left out by name.

def test_fio_s_own_options_are_known():
    fio = shutil.which("fio")
    if fio is None:
        print("skip: no fio")
        return
    text = subprocess.run([fio, "--cmdhelp=all"], capture_output=True, text=True,
                          check=False).stdout
    keys = re.findall(r"^ *([a-z0-9_-]+) +:", text, re.M)
    assert len(keys) > 150, text[:500]
    mine = {"rw", "rwmixread", "rwmixwrite", "bs", "bssplit", "startdelay", "runtime", "iodepth",
            "numjobs", "rate", "rate_iops", "offset", "size"}
    lines = ["%s=1" % k for k in sorted(set(keys) - mine)]
    _, err = run("--job", job("[a]\n" + "\n".join(lines)), "--ssd", "dct983", "--seconds", 1)
    for number, line in enumerate(lines, 2):
        assert ":%d: note: %s is ignored" % (number, line.split("=")[0]) in err, (line, err)
    # The same file is one for both.
    j = job("[global]\nioengine=psync\nbs=4k,8k ; sizes\nsize=50%\nfilename=x\ntime_based\n"
            "runtime=1\n[some readers]\nrw=randread\n[writers]\nrw=write\nnumjobs=2\n"
            "bssplit=4k/50:8k/50\n", "both.fio")
    r = subprocess.run([fio, "--parse-only", j], capture_output=True, text=True, check=False,
                       cwd=PLACE.work)
    assert r.returncode == 0, r.stdout + r.stderr
    out, _ = run("--job", j, "--ssd", "dct983", "--seconds", 1)
    assert "some_readers" in out and "writers" in out, out


def test_jobs_that_do_not_fit():
    device = fresh("d", 1 << 20)
    for text, line, part in [
            ("[x]\n[a]\noffset=1M\n", 2, "ends beyond the end of the device"),
            ("[a]\nsize=2M\n", 1, "ends beyond the end of the device"),
            ("[a]\n\n[b]\nbs=2M\n", 3, "ends beyond the end of the device"),
            ("[a]\nstart=5\n", 1, "starts after --seconds"),
            ("[a]\nnumjobs=6\nstart_step=1\n", 1, "starts after --seconds")]:
        j = job(text)
        _, err = run("--job", j, "--device", device, "--seconds", 5, code=2)
        assert err.startswith("%s:%d: [" % (j, line)) and part in err, (text, err)
    _, err = run("--job", job("[a]\nbs=2M\n"), "--ssd", "dct983", code=2)
    assert "more than the device takes at once" in err
    _, err = run("--job", job("[a]\niodepth=1024\nnumjobs=33\n"), "--ssd", "dct983", code=2)
    assert "32768" in err


# ---- A file ----

def test_nothing_is_overwritten_unasked():
    device = fresh("d", 1 << 20)
    before = digest(device)
    for rw in ("write", "randwrite", "rw", "randrw"):
        _, err = run("--job", job("[r]\n[w]\nrw=%s\n" % rw), "--device", device, code=1)
        assert "--overwrite allows it" in err and digest(device) == before
    j, _ = measured_until({"r": 1}, "--job", job("[r]\nrw=randread\niodepth=4\n"), "--device",
                          device, "--scheduler", "fifo")
    assert by_name(j)["r"]["reads"] > 0 and digest(device) == before
    j, _ = measured_until({"w": 1}, "--job", job("[w]\nrw=write\n"), "--device", device,
                          "--overwrite", "--scheduler", "fifo")
    assert by_name(j)["w"]["writes"] > 0 and digest(device) != before
    assert os.path.getsize(device) == 1 << 20


def test_results_do_not_overwrite_what_is_read():
    device = fresh("d", 1 << 20)
    before = digest(device)
    jobs = job("[r]\nrw=randread\n")
    os.symlink(device, fresh("link"))
    for option in ("--json", "--svg"):
        for path in (device, "link", jobs):
            _, err = run("--job", jobs, "--device", device, "--seconds", 1, option, path, code=1)
            assert "is the file of another option" in err and digest(device) == before
    _, err = run("--job", jobs, "--ssd", "p3600", "--seconds", 1, "--svg", fresh("x"), "--json",
                 "x", code=1)
    assert "is the file of another option" in err


def test_a_file_that_cannot_be_filled_is_left_empty():
    """Disk full: half a file was left, which then counted as not empty."""
    limit = "ulimit -f 2048; trap '' XFSZ; exec \"$@\""
    args = [PLACE.program, "--job", job("[w]\nrw=write\n"), "--device", fresh("half"),
            "--size", "8M", "--seconds", "1"]
    r = subprocess.run(["bash", "-c", limit, "sh", *args], capture_output=True, text=True,
                       timeout=WAIT, check=False, cwd=PLACE.work)
    assert r.returncode == 1 and "cannot fill" in r.stderr, r.stderr
    assert os.path.getsize(os.path.join(PLACE.work, "half")) == 0


def test_a_missing_file_is_made():
    for size, before in ((1 << 20, None), (2 << 20, 0)):
        device = fresh("new", before)
        j, _ = measured_until({"w": 1}, "--job", job("[w]\nrw=randwrite\niodepth=4\n"),
                              "--device", device, "--size", size)
        assert os.path.getsize(device) == size and by_name(j)["w"]["writes"] > 0
        with open(device, "rb") as f:
            assert f.read(4096).count(0) < 100, "it is not filled"


def test_schedulers_on_a_file():
    device = fresh("d", 4 << 20)
    text = ("[a]\nrw=randread\niodepth=8\n[b]\nrw=randrw\nbssplit=4k/50:64k/50\niodepth=8\n"
            "[c]\nrw=write\nbs=128k\nnumjobs=2\niodepth=2\nrate_iops=100\npriority=3\n")
    for s in SCHEDULERS:
        j, out = measured_until({"a": 1, "b": 32, "c.0": 1, "c.1": 1}, "--job", job(text),
                                "--device", device, "--overwrite", "--scheduler", s,
                                "--device-scale", "0.5")
        t = by_name(j)
        assert j["scheduler"] == s and j["errors"] == 0 and set(t) == {"a", "b", "c.0", "c.1"}
        assert t["a"]["reads"] > 0 and t["a"]["writes"] == 0
        assert t["a"]["read_bytes"] == 4096 * t["a"]["reads"]
        assert t["b"]["reads"] > 0 and t["b"]["writes"] > 0
        for c in ("c.0", "c.1"):
            assert t[c]["reads"] == 0 and t[c]["write_bytes"] == 131072 * t[c]["writes"] > 0
            assert t[c]["writes"] <= 100 * t[c]["seconds"] + 2, t[c]
        assert ("switch" in j) == (s == "gimbal") and j["cpu_us_per_io"] > 0
        assert "c.all" in out


def test_what_is_learned_and_fair_shares_on_a_file():
    device = fresh("d", 4 << 20)
    text = "[a]\nrw=randread\niodepth=8\n[b]\nrw=randread\nbs=64k\niodepth=8\nweight=3\n"
    j, out = measured_alone("--job", job(text), "--device", device, "--seconds", 1, "--solo", 1)
    m = re.search(r"^thresholds (\d+) us and (\d+) us", out, flags=re.M)
    assert m and int(m.group(1)) < int(m.group(2)), out
    for t in j["tenants"]:
        part = {"a": 1, "b": 3}[t["name"]] / 4
        assert t["section_alone"] > 0
        assert abs(t["fair"] - t["section_alone"] * part) < 1
        rounded = 1e-5 + 0.06 * (1 + t["f_util"]) / t["fair"]
        assert abs(t["f_util"] - t["bytes_per_second"] / t["fair"]) < rounded
    assert re.search(r"^f-Util: [\d.]+ to [\d.]+, largest deviation [\d.]+ %", out, flags=re.M)
    _, out = measured_alone("--job", job(text + "[w]\nrw=write\nbs=8k\n"), "--device", device,
                            "--seconds", 1, "--overwrite", "--thresh-min", 77, "--write-cost", 3)
    m = re.search(r"^thresholds 77 us and \d+ us, worst write cost 3.00, \d+ slots", out,
                  flags=re.M)
    assert m, out
    _, out = measured_alone("--job", job(text), "--device", device, "--seconds", 1, "--scheduler",
                            "reflex")
    assert re.search(r"^device scale [\d.]+: \d+ reads", out, flags=re.M), out


def test_a_device_that_fails():
    """The file loses its end while it is read: every I/O after that comes back short."""
    device = fresh("d", 4 << 20)
    j = job("[a]\nrw=randread\niodepth=4\noffset=1M\n[b]\nrw=randread\niodepth=4\nsize=4k\n")
    for s in ("gimbal", "fifo"):
        os.truncate(device, 4 << 20)
        with start("--job", j, "--device", device, "--seconds", 3600, "--stats", 1, "--scheduler",
                   s) as p, killed_if_raised(p):
            p.stdout.readline()
            os.truncate(device, 4096)
            out, err = p.communicate(timeout=WAIT)
            assert p.returncode == 1, (p.returncode, out, err)
        assert "errors: 1" in out and "a: read of 4096 bytes" in err and "b: read" not in err, err
        assert "1000 I/Os have failed" in err


# ---- The model ----

def test_the_model_is_deterministic():
    size = "4k" if NIGHTLY else "32k"
    text = ("[global]\nbs=%s\n[r]\nrw=randread\niodepth=16\nnumjobs=3\n"
            "[w]\nrw=randwrite\niodepth=8\n[m]\nrw=rw\n"
            "bssplit=4k/30:16k/70\niodepth=4\nstart=0.5\n" % size)
    for s in schedulers():
        args = ("--job", job(text), "--ssd", "dct983,fragmented", "--seconds", 1, "--scheduler", s)
        if s == "gimbal":
            args += ("--solo", 1)
        first, again = (measured(*args, "--seed", 7) for _ in range(2))
        assert first == again, "%s: the same seed, another run" % s
        if s in ("gimbal", "fifo"):
            other = measured(*args, "--seed", 8)
            assert first[0]["tenants"] != other[0]["tenants"], "%s: the seed does not matter" % s


def test_fairness_leaves_out_who_is_limited():
    """A tenant that asks for little, or is capped, made the others look unfairly treated."""
    text = ("[global]\nrw=randread\nbs=%s\niodepth=32\n[a]\n[b]\n" %
            ("16k" if NIGHTLY else "64k"))
    some = "f-Util of those without a limit: "
    for limit, summary in (("", "f-Util: "), ("[c]\nrate=1M\n", some),
                           ("[c]\ncap_iops=100\n", some), ("[global]\nrate=1M\n", "f-Util: ")):
        jobs = limit + "[a]\n" if limit.startswith("[global]") else text + limit
        j, out = measured("--job", job(jobs), "--ssd", "dct983", "--seconds", 1, "--solo", 1)
        m = re.search("^%s([\\d.]+) to ([\\d.]+), " % summary, out, flags=re.M)
        assert m, out
        seen = [t["f_util"] for t in j["tenants"] if t["name"] != "c"]
        assert abs(float(m.group(1)) - min(seen)) < 0.001, out
        assert abs(float(m.group(2)) - max(seen)) < 0.001, out


def test_little_s_law_in_the_model():
    """With always N I/Os in flight N = rate x latency."""
    text = "[a]\nrw=randread\nbs=8k\niodepth=48\n[b]\nrw=randwrite\nbs=16k\niodepth=3\nnumjobs=2\n"
    for s in ("fifo", "reflex", "flashfq"):
        t = by_name(measured("--job", job(text), "--ssd", "p3600", "--seconds", 2, "--warmup", 1,
                             "--scheduler", s, "--device-scale", 1)[0])
        for name, depth in (("a", 48), ("b.0", 3), ("b.1", 3)):
            n = t[name]["ios_per_second"] * t[name]["average_us"] / 1e6
            assert abs(n / depth - 1) < 0.05, (s, name, n)


def test_rates_are_kept_in_the_model():
    text = ("[bytes]\nrw=randread\nbs=16k\niodepth=16\nrate=40000000\n"
            "[ios]\nrw=randread\niodepth=16\nrate_iops=5000\n"
            "[both]\nrw=randread\niodepth=16\nrate_iops=4000\nrate=8M\n"
            "[free]\nrw=randread\niodepth=16\n")
    for s in schedulers():
        t = by_name(measured("--job", job(text), "--ssd", "dct983", "--seconds", 2, "--warmup", 1,
                             "--scheduler", s)[0])
        assert t["bytes"]["bytes_per_second"] <= 40e6 * 1.011 + 16384, (s, t["bytes"])
        assert t["ios"]["ios_per_second"] <= 5000 * 1.011 + 1, (s, t["ios"])
        assert t["both"]["bytes_per_second"] <= (8 << 20) * 1.011 + 4096, (s, t["both"])
        if s in ("gimbal", "fifo"):  # an idle enough device gives what is asked for
            assert t["bytes"]["bytes_per_second"] >= 40e6 * 0.97, (s, t["bytes"])
            assert t["ios"]["ios_per_second"] >= 5000 * 0.97, (s, t["ios"])
            assert t["both"]["bytes_per_second"] >= (8 << 20) * 0.97, (s, t["both"])
        assert t["free"]["ios_per_second"] > 8000, (s, t["free"])


def test_caps_are_the_switch_s():
    text = ("[bytes]\nrw=randread\nbs=16k\niodepth=16\ncap_bytes=40000000\n"
            "[ios]\nrw=randread\niodepth=16\ncap_iops=5000\n"
            "[free]\nrw=randread\niodepth=16\n")
    args = ("--job", job(text), "--ssd", "dct983", "--seconds", 3, "--warmup", 1)
    t = by_name(measured(*args)[0])
    assert abs(t["bytes"]["bytes_per_second"] / 40e6 - 1) <= 0.02, t["bytes"]
    assert abs(t["ios"]["ios_per_second"] / 5000 - 1) <= 0.02, t["ios"]
    t = by_name(measured(*args, "--scheduler", "fifo")[0])
    assert t["bytes"]["bytes_per_second"] > 80e6
    _, err = run(*args, "--scheduler", "fifo")
    assert "its caps are ignored: fifo has none" in err


def test_floors_and_groups_are_the_switch_s():
    text = ("[least]\nrw=randread\nbs=128k\niodepth=16\nfloor_bytes=800000000\n"
            "[one]\nrw=randread\nbs=128k\niodepth=16\n"
            "[many]\nrw=randread\nbs=128k\niodepth=16\nnumjobs=7\ngroup=1\n")
    args = ("--job", job(text), "--ssd", "dct983", "--seconds", 3, "--warmup", 1)
    t = measured(*args)[0]
    total = {}
    for x in t["tenants"]:
        name = x["name"].split(".")[0]
        total[name] = total.get(name, 0) + x["bytes_per_second"]
    assert total["least"] >= 0.98 * 800e6, total
    assert abs(total["one"] / total["many"] - 1) <= 0.1, total
    _, err = run(*args, "--scheduler", "fifo")
    assert "its floors are ignored: fifo has none" in err
    assert "its group is ignored: fifo has none" in err


def test_the_end_does_not_wait_for_caps():
    """What a capped tenant had queued took 9 hours at a byte a second."""
    text = "[a]\nrw=randread\niodepth=8\ncap_bytes=1\n[b]\nrw=randread\ncap_iops=1\niodepth=999\n"
    fresh("capped.bin")
    run("--job", job(text), "--device", "capped.bin", "--size", "1M", "--seconds", 1)


def test_weights_and_fair_shares_in_the_model():
    text = "[global]\nrw=randread\nbs=128k\niodepth=32\n[a]\nweight=4\n[b]\n[c]\nnumjobs=2\n"
    j, _ = measured("--job", job(text), "--ssd", "dct983", "--seconds", 3, "--warmup", 1, "--solo",
                    1)
    t = by_name(j)
    for name in ("b", "c.0", "c.1"):
        ratio = t["a"]["bytes_per_second"] / t[name]["bytes_per_second"]
        assert abs(ratio - 4) < 0.4, (name, ratio)
    for x in j["tenants"]:
        assert abs(x["fair"] - x["section_alone"] * x["weight"] / 7) < 1


def test_starts_and_stops():
    text = ("[a]\nrw=randread\niodepth=4\n[b]\nrw=randread\niodepth=4\nstart=1\nstop=2.5\n"
            "[c]\nrw=randread\niodepth=4\nnumjobs=3\nstart=0.5\nstart_step=1\nruntime=1\n"
            "[d]\nrw=randread\nnumjobs=2\nstop=1\nstop_step=1.5\n")
    j, out = measured("--job", job(text), "--ssd", "p3600", "--seconds", 3, "--warmup", 1,
                      "--stats", 1)
    seconds = {t["name"]: t["seconds"] for t in j["tenants"]}
    assert seconds == {"a": 2, "b": 1.5, "c.0": 0.5, "c.1": 1, "c.2": 0.5, "d.0": 0, "d.1": 1.5}
    for t in j["tenants"]:
        assert (t["reads"] > 0) == (t["seconds"] > 0), t
    lines = [dict(p.split("=") for p in x.split()) for x in out.splitlines() if "time_ms" in x]
    busy = [[int(x[n + "_ios_per_second"]) > 1 for x in lines] for n in ("a", "b", "c_2", "d_0")]
    assert busy == [[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 0]], busy
    a = by_name(j)["a"]
    assert a["reads"] > by_name(j)["b"]["reads"]


def test_statistics():
    out, _ = run("--job", job("[a-b]\nrw=randread\niodepth=4\n[c]\nnumjobs=2\nrw=write\n"), "--ssd",
                 "dct983", "--seconds", 4, "--stats", 1)
    lines = [s for s in out.splitlines() if s.startswith("time_ms=")]
    assert [s.split()[0] for s in lines] == ["time_ms=%d000" % i for i in (1, 2, 3, 4)], out
    for s in lines:
        pairs = s.split(" ")
        assert all(re.fullmatch(r"[A-Za-z0-9_]+=\d+", p) for p in pairs), s
        names = [p.split("=")[0] for p in pairs]
        assert len(set(names)) == len(names)
        d = dict(p.split("=") for p in pairs)
        for t in ("a_b", "c_0", "c_1"):
            assert int(d[t + "_ios_per_second"]) > 0 and int(d[t + "_average_us"]) > 0
            ios = int(d[t + "_ios_per_second"])
            assert abs(int(d[t + "_bytes_per_second"]) - 4096 * ios) <= 4096
        assert int(d["write_cost_percent"]) >= 100


def test_the_picture():
    """Well-formed, nothing outside its frame, no number that is none."""
    with open(os.path.join(PLACE.jobs, "dynamic.ini"), encoding="utf-8") as f:
        short = re.sub(r"(?m)^(st\w+)=(\d+)$", r"\1=\g<2>0000us", f.read())
    assert short.count("0000us\n") == 4
    late = "[readers]\nstop=0.1\n[writers]\nrw=rw\nstart=0.9\n"
    for text in (short, late, "[readers]\n[writers]\nrw=rw\n"):
        path = fresh("out.svg")
        run("--job", job(text), "--ssd", "dct983,fragmented", "--seconds", 1, "--svg", path)
        check_picture(path, ["readers", "writers"])
    path = fresh("out.svg")
    run("--job", job("[idle]\nstart=1\n"), "--ssd", "p3600", "--seconds", 2, "--svg", path)
    check_picture(path, ["idle"])


def check_picture(path, sections):
    root = xml.parse(path).getroot()
    ns = "{http://www.w3.org/2000/svg}"
    with open(path, encoding="ascii") as f:
        text = f.read()
    assert not re.search(r"nan|inf", text), path
    words = " ".join(t.text or "" for t in root.iter(ns + "text"))
    for w in sections + ["bandwidth, MB/s", "latency, us", "time, s", "99th percentile", "average"]:
        assert w in words, (w, words)
    frames = [[float(r.get(k)) for k in ("x", "y", "width", "height")]
              for r in root.iter(ns + "rect") if r.get("class") == "frame"]
    assert len(frames) == 2
    lines = 0
    for p in root.iter(ns + "path"):
        points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", p.get("d"))
        if not p.get("class").startswith("line") or len(points) < 2:
            continue
        lines += 1
        for x, y in points:
            assert any(fx - 1 <= float(x) <= fx + w + 1 and fy - 1 <= float(y) <= fy + h + 1
                       for fx, fy, w, h in frames), (x, y)
    assert lines >= 3 * len(sections), lines


def test_the_examples():
    names = sorted(n for n in os.listdir(PLACE.jobs) if n.endswith(".ini"))
    assert len(names) >= 4
    for name in names:
        args = ("--job", os.path.join(PLACE.jobs, name), "--ssd", "dct983", "--seconds", 1)
        if name == "dynamic.ini":  # takes longer than a second, which is all that is wrong
            _, err = run(*args, code=2)
            assert [s for s in err.splitlines() if "starts after --seconds" not in s] == [], err
        else:
            j, _ = measured(*args)
            assert all(t["reads"] + t["writes"] > 0 for t in j["tenants"]), name


# ---- Ctrl-C ----

def test_interrupted():
    device = fresh("d", 4 << 20)
    j = job("[a]\nrw=randread\niodepth=4\n[b]\nrw=randread\nbs=64k\niodepth=4\n")
    for where in (("--device", device), ("--ssd", "dct983")):
        for number in (signal.SIGINT, signal.SIGTERM):
            svg = fresh("out.svg")
            with start("--job", j, *where, "--seconds", 86000, "--stats", 1, "--svg",
                       svg) as p, killed_if_raised(p):
                line = p.stdout.readline()
                assert line.startswith("time_ms="), line + p.stderr.read()
                p.send_signal(number)
                out, err = p.communicate(timeout=WAIT)
                assert p.returncode == 0, (p.returncode, out, err)
            rows = [s.split()[0] for s in out.splitlines()]
            assert "a" in rows and "b" in rows and "all" in rows, out
            xml.parse(svg)
    with start("--job", j, "--ssd", "dct983", "--solo", 80000, "--seconds", 1) as p, \
            killed_if_raised(p):
        assert catches(p, signal.SIGINT), p.communicate()  # the solo run prints nothing
        time.sleep(0.3)  # most often in its middle: the end is the same at its beginning
        assert p.poll() is None, p.communicate()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=WAIT)
        assert p.returncode == 1 and "interrupted before the run" in err, (out, err)


def main():
    PLACE.program, PLACE.jobs = (os.path.realpath(p) for p in sys.argv[1:3])
    only = sys.argv[4] if sys.argv[3:4] == ["--only"] else ""
    failed = 0
    PLACE.work = tempfile.mkdtemp(prefix="tenants.")
    try:
        for name, test in list(globals().items()):
            if not name.startswith("test_") or only not in name:
                continue
            print("---", name, flush=True)
            try:
                test()
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                failed = 1
    finally:
        shutil.rmtree(PLACE.work)
    print("failed" if failed else "passed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
