# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs of examples/tenants: to be imported by its tests, which set PLACE first."""
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import time

WAIT = 300


class PLACE:
    """Of the program, of the job files that come with it, of the test's own files."""
    program = jobs = work = None


def run(*args, code=0):
    """What it printed: (stdout, stderr)"""
    r = subprocess.run([PLACE.program, *map(str, args)], capture_output=True, text=True,
                       timeout=WAIT, check=False, cwd=PLACE.work)
    assert r.returncode == code, "%s: exit code %d, not %d\n%s%s" % (
        " ".join(map(str, args)), r.returncode, code, r.stdout, r.stderr)
    return r.stdout, r.stderr


def job(text, name="job.ini"):
    path = os.path.join(PLACE.work, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def fresh(name, size=None):
    path = os.path.join(PLACE.work, name)
    if os.path.exists(path):
        os.remove(path)
    if size is not None:
        with open(path, "wb") as f:
            f.write(b"keep" * (size // 4))
    return path


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def measured(*args):
    """The JSON of a run, checked for itself, and what was printed."""
    path = fresh("out.json")
    out, _ = run(*args, "--json", path)
    return checked(path, out)


def checked(path, out):
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    check_json(j)
    rows = {line.split()[0] for line in out.splitlines() if line}
    for t in j["tenants"]:
        assert t["name"] in rows, "no row for %s:\n%s" % (t["name"], out)
    return j, out


def measured_until(wanted, *args):
    """The same of a run that is interrupted when each tenant has done as many I/Os as wanted."""
    path = fresh("out.json")
    left = dict(wanted)
    printed = []
    with start(*args, "--seconds", 80000, "--stats", 1, "--json", path) as p:
        with killed_if_raised(p):
            while any(n > 0 for n in left.values()):
                line = p.stdout.readline()
                assert line, "it ended: " + "".join(printed) + p.stderr.read()
                printed.append(line)
                if line.startswith("time_ms="):
                    pairs = dict(x.split("=") for x in line.split())
                    for name in left:
                        left[name] -= int(pairs[name.replace(".", "_") + "_ios_per_second"])
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=WAIT)
            assert p.returncode == 0, (p.returncode, out, err)
    return checked(path, "".join(printed) + out)


def measured_alone(*args):
    """The same with --solo or a scheduler that is calibrated, which measure for a second each. One
    in which the machine did not do a single I/O measured nothing: again."""
    path = fresh("out.json")
    for _ in range(30):
        r = subprocess.run([PLACE.program, *map(str, args), "--json", path], capture_output=True,
                           text=True, timeout=WAIT, check=False, cwd=PLACE.work)
        if r.returncode == 1 and "has not completed an I/O for a second" in r.stderr:
            print("again:", r.stderr, end="")
            continue
        assert r.returncode == 0, (args, r.returncode, r.stdout, r.stderr)
        j, out = checked(path, r.stdout)
        if all(t.get("section_alone", 1) > 0 for t in j["tenants"]):
            return j, out
        print("again: no I/O of a tenant that was alone")
    raise AssertionError("this machine does no I/O for seconds, 30 times: %s" % (args,))


def check_json(j):
    tenants = j["tenants"]
    total = sum(t["read_bytes"] + t["write_bytes"] for t in tenants)
    for t in tenants:
        n = t["reads"] + t["writes"]
        b = t["read_bytes"] + t["write_bytes"]
        if t["seconds"] > 0:
            assert abs(t["ios_per_second"] - n / t["seconds"]) <= 1e-3 * n / t["seconds"] + 1
            assert abs(t["bytes_per_second"] - b / t["seconds"]) <= 1e-3 * b / t["seconds"] + 1
        if total:
            assert abs(t["share_percent"] - 100 * b / total) < 0.01, t
        assert t["p50_us"] <= t["p99_us"] <= t["p999_us"], t
        if n:
            assert t["average_us"] > 0, t
    if total:
        assert abs(sum(t["share_percent"] for t in tenants) - 100) < 0.1


def by_name(j):
    return {t["name"]: t for t in j["tenants"]}


def start(*args):
    return subprocess.Popen([PLACE.program, *map(str, args)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=PLACE.work)


@contextlib.contextmanager
def killed_if_raised(p):
    """Its end would be waited for, which is a day away."""
    try:
        yield
    except BaseException:
        p.kill()
        raise


def catches(p, number):
    """Until it has a handler for the signal; 0: it ended before."""
    while p.poll() is None:
        with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", f.read(), flags=re.M)
        if caught and int(caught.group(1), 16) >> (number - 1) & 1:
            return 1
        time.sleep(0.01)
    return 0
