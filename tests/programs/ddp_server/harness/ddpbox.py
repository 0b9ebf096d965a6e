# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machines of a test: namespaces for nodes and clients, a network of their own with faults,
disks with faults. Python's own library only.

enter() starts the program again in a PID and a mount namespace of its own: when it ends, killed
or not, the kernel ends all processes in them, and mounts and network namespaces are gone as well.
"""
import ctypes
import faulthandler
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

INSIDE = "SNIC_DDPBOX_INSIDE"
PATIENCE = 240.0  # seconds for what has to happen at last: machines are shared
LIMIT = 840  # of a test, below ctest's


def missing(network=True):
    """What the machine lacks, as words; empty: nothing."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    if not os.path.exists("/dev/fuse"):
        lacks.append("/dev/fuse")
    tools = ["unshare", "mount", "fusermount3"]
    if network:
        tools += ["ip", "nft", "tc", "nsenter"]
        if not os.path.exists("/dev/net/tun"):
            lacks.append("/dev/net/tun")
    lacks += [t for t in tools if shutil.which(t) is None]
    if not lacks:
        try_it = ["unshare", "-m", "-p", "-f", "-n", "--propagation", "private", "true"]
        if subprocess.run(try_it, stderr=subprocess.DEVNULL).returncode != 0:
            lacks.append("permission to make namespaces")
    return lacks


def enter(network=True):
    if os.environ.get(INSIDE):
        # PID 1 has no default action for signals; its end is that of all the others.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        return
    lacks = missing(network)
    if lacks:
        print("skipped: it needs " + ", ".join(lacks))
        sys.exit(77)
    os.environ[INSIDE] = "1"
    sys.stdout.flush()
    os.execvp("unshare", ["unshare", "-m", "-p", "-f", *(["-n"] if network else []),
                          "--kill-child=KILL", "--mount-proc", "--propagation", "private",
                          sys.executable, "-u", *sys.argv])


def before_others():
    """This process and what it starts get the processor before the machine's other work, as far as
    the kernel lets it: for claims about nodes that have a machine to themselves."""
    for attempt in (os.setsid, lambda: os.nice(-15), write_autogroup):
        try:
            attempt()
        except OSError:
            pass


def write_autogroup():
    with open("/proc/self/autogroup", "w", encoding="ascii") as f:
        f.write("-15")


def work_folder(path="/tmp/ddpbox"):
    """An empty folder in memory that goes with the mount namespace."""
    os.makedirs(path, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=8g", "none", path)
    return path


def run(*words):
    r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {r.stdout}")
    return r.stdout


def until(what, text, seconds=PATIENCE):
    """What may fail at first; @return what it gives"""
    end = time.monotonic() + seconds
    while True:
        try:
            got = what()
            if got:
                return got
        except OSError:
            pass
        if time.monotonic() >= end:
            raise TimeoutError("timed out: " + text)
        time.sleep(0.02)


def limit(seconds, wrong):
    """The end of a run before ctest's, with a message: wrong() gives what was wrong until then. All
    processes end with the namespaces."""
    def end(*_):
        for w in wrong():
            print("WRONG", w)
        print(f"FAILED: not done in {seconds} s", flush=True)
        faulthandler.dump_traceback()
        os._exit(1)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)


class Control:
    """A program that answers each line on a UNIX socket by one (lossfs, forwarder)."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        until(lambda: self.socket.connect(path) is None, "connect to " + path)
        self.file = self.socket.makefile("rw")

    def __call__(self, line):
        self.file.write(line + "\n")
        self.file.flush()
        answer = self.file.readline().strip()
        if not answer.startswith("ok"):
            raise RuntimeError(f"{line}: {answer}")
        return dict(w.split("=") for w in answer.split()[1:])


class Disk:
    """A lossfs over a folder. Its commands are those of lossfs.c."""

    def __init__(self, program, folder, lower=None):
        self.lower = lower or folder + "/lower"
        self.path = folder + "/disk"
        for d in (self.lower, self.path):
            os.makedirs(d, exist_ok=True)
        self.process = subprocess.Popen([program, self.lower, self.path, folder + "/disk.ctl"])
        self.control = Control(folder + "/disk.ctl")
        until(lambda: os.path.ismount(self.path), "mount of " + self.path)

    def __call__(self, line):
        return self.control(line)

    def close(self):
        self.process.terminate()  # unmounts
        self.process.wait()


def enter_network(name):
    """This thread's sockets are of the network namespace from now on."""
    fd = os.open("/run/netns/" + name, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns " + name)
    finally:
        os.close(fd)


class Network:
    """Namespaces n0, n1, ... and c (clients), each with an address and a TUN device to the
    forwarder, through which all packets go."""

    MTU = 1500

    def __init__(self, program, folder, nodes, seed):
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/run/netns")
        self.names = [f"n{i}" for i in range(nodes)] + ["c"]
        self.process = subprocess.Popen(
            [program, folder + "/net.ctl", str(seed), *(f"t{n}" for n in self.names)])
        self.control = Control(folder + "/net.ctl")
        for i, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "link", "set", "t" + name, "netns", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "addr", "add", self.address(i) + "/24", "dev", "t" + name)
            run("ip", "-n", name, "link", "set", "t" + name, "mtu", str(self.MTU), "up",
                "txqueuelen", "1000")

    @staticmethod
    def address(i):
        return f"10.77.0.{i + 1}"

    def inside(self, i):
        return ["nsenter", f"--net=/run/netns/{self.names[i]}"]

    def __call__(self, line):
        return self.control(line)

    def nft(self, i, script):
        r = subprocess.run([*self.inside(i), "nft", "-f", "-"], input=script, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode != 0:
            raise RuntimeError(f"nft: {script}: {r.stdout}")

    def rules(self, i, rules):
        """The rules for what node i receives: all of them, until the next call."""
        lines = "".join(f"add rule inet faults in {r}\n" for r in rules)
        self.nft(i, "add table inet faults\ndelete table inet faults\nadd table inet faults\n"
                 "add chain inet faults in { type filter hook input priority 0; }\n" + lines)

    def rate(self, i, bits):
        """What node i sends, in bits per second; 0: as much as it can."""
        device = "t" + self.names[i]
        subprocess.run(["tc", "-n", self.names[i], "qdisc", "del", "dev", device, "root"],
                       stderr=subprocess.DEVNULL)
        if bits:
            run("tc", "-n", self.names[i], "qdisc", "add", "dev", device, "root", "tbf", "rate",
                f"{bits}bit", "burst", "65536", "latency", "200ms")

    def heal(self):
        for i in range(len(self.names)):
            self.rules(i, [])
            self.rate(i, 0)
        self.control("clear")

    def close(self):
        self.process.terminate()
        self.process.wait()


class Process:
    """A program of a node, in its network namespace, with a log."""

    def __init__(self, command, log):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL)

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def kill(self, wait=True):
        self.signal(signal.SIGKILL)
        return self.process.wait() if wait else None
