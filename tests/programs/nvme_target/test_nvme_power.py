#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power is cut at every step of writing nvme_target's files: what was answered is there after
the restart, what was not is either there or as before. test_nvme_power.py NVME_TARGET NVME_DRIVER
POWER_CUT [NAME...]"""
import os
import sys

from nvmectl import HOST_A, NQN, Host, Target, run

LINES = ["subsystem " + NQN, "host %s %s" % (NQN, HOST_A), "namespace %s 1 memory=1M" % NQN]
RESERVE = [("register 0x11 3", "type 0 ptpl 1 1:11:0"), ("acquire 0x11 1", "type 1 ptpl 1 1:11:1"),
           ("release 0x11 1", "type 0 ptpl 1 1:11:0"), ("acquire 0x11 6", "type 6 ptpl 1 1:11:1"),
           ("unregister 0x11", "type 0 ptpl 1")]
COMMANDS = ["namespace add %s memory=64K" % NQN, "host allow %s nqn.b from=10.0.0.0/8" % NQN,
            "ana %s 1 0 lost" % NQN, "namespace remove %s 2" % NQN, "host deny %s nqn.b" % NQN]


def cut_target(target, power, step, lie):
    env = {"LD_PRELOAD": power, "SNIC_CUT": str(step), "SNIC_CUT_NAME": "t.conf",
           "SNIC_CUT_LIE": str(lie)}
    t = Target(target, LINES, ["--connections", "4"], env)
    error = t.start()
    assert error is None, error
    return t


def restart(t):
    t.process.wait()
    t.process.stdout.close()
    t.env = None
    return t.start()


def reservations(target, driver, power, step, lie=0):
    """@return what is wrong; None: nothing; False: the power was not cut any more"""
    t = cut_target(target, power, step, lie)
    may = ["type 0 ptpl 0"]
    try:
        h = Host(driver, t)
        h.good("connect")
        cut = False
        for words, after in RESERVE:
            status = h.call(*words.split())[0]
            if status != 0:
                cut = True
                may.append(after)
                break
            may = [after]
        h.close()
        if not cut:
            return False
        error = restart(t)
        if error is not None:
            return error
        h = Host(driver, t)
        h.good("connect")
        found = h.good("report", 1)
        h.close()
        return None if found in may else "%s is not one of %s" % (found, may)
    finally:
        t.close()


def commands(target, _driver, power, step, lie=0):
    t = cut_target(target, power, step, lie)
    try:
        may = [t.good("show", "config")]
        cut = False
        for i, words in enumerate(COMMANDS):
            before = t.good("show", "config")
            code = t.ctl(*words.split())[0]
            if code != 0:
                cut = True
                may = [i, before]
                break
            may = [t.good("show", "config")]
        if not cut:
            return False
        error = restart(t)
        if error is not None:
            return error
        found = t.good("show", "config")
        if len(may) == 2:  # as before, or as the command leaves it
            if found == may[1]:
                return None
            t.write(may[1].splitlines())
            t.stop()
            error = t.start()
            assert error is None, error
            t.good(*COMMANDS[may[0]].split())
            may = [t.good("show", "config")]
        return None if found in may else "%s is neither old nor new" % found
    finally:
        t.close()


def steps(most):
    """By day every third, beginning with another one each time."""
    nightly = os.environ.get("SNIC_NIGHTLY") == "1"
    turn = int(os.environ.get("SNIC_TURN") or os.getpid())
    return range(1, most) if nightly else range(1 + turn % 3, most, 3)


def every_step(what, *programs):
    cuts = 0
    for step in steps(200):
        wrong = what(*programs, step)
        if wrong is False:
            break
        assert wrong is None, "power cut at step %d: %s" % (step, wrong)
        cuts += 1
    assert cuts >= 5
    print("%d power cuts" % cuts)


def test_reservations(*programs):
    every_step(reservations, *programs)


def test_commands(*programs):
    every_step(commands, *programs)


def test_planted_bugs_found(*programs):
    """Without fsync of the file, or of its folder, something that was answered is lost."""
    for what in (reservations, commands):
        for lie in (1, 2):
            for step in range(6, 26):
                if what(*programs, step, lie):
                    break
            else:
                raise AssertionError("lie %d was not found by %s" % (lie, what.__name__))


if __name__ == "__main__":
    sys.exit(run([f for n, f in list(globals().items()) if n.startswith("test_")], sys.argv, 3))
