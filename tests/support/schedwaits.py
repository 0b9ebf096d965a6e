# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long others kept the processes of a test from the processors. Python's own library only."""
import collections
import os
import threading
import time


class Waits(threading.Thread):
    """A node of ddp_server that is not scheduled for its lease's time leaves the membership, and is
    right to do so. The kernel counts what each thread waits for a processor, when the wait has
    ended; when all stand still, as a virtual machine may, the samples of this thread are late. What
    a test itself does, as SIGSTOP, is in neither: add()."""

    LEASE = 0.4  # seconds
    LONG = LEASE / 2  # within a lease's time: evidence
    LEAST, LATE, PERIOD = 0.1, 0.15, 0.05  # of one sample

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.processes = processes  # a function: those that there are now
        self.end = threading.Event()
        self.seconds = 0.0
        self.longest = 0.0  # within a lease's time
        self.evidence = []  # (when, seconds)

    def delays(self):
        """Nanoseconds by thread."""
        got = {}
        for p in self.processes():
            folder = f"/proc/{p.pid}/task"
            try:
                threads = os.listdir(folder)
            except OSError:  # the process has ended
                continue
            for thread in threads:
                try:
                    with open(f"{folder}/{thread}/schedstat", encoding="ascii") as f:
                        got[thread] = int(f.read().split()[1])
                except (OSError, IndexError):  # it has ended, or the kernel does not count
                    pass
        return got

    def add(self, seconds):
        self.longest = max(self.longest, seconds)
        if seconds >= self.LONG:
            self.evidence.append((time.monotonic(), seconds))

    def since(self, when):
        """The longest wait that is evidence, or 0."""
        return max((s for t, s in list(self.evidence) if t >= when), default=0)

    def run(self):
        samples = collections.deque([(time.monotonic(), self.delays())])
        while not self.end.wait(self.PERIOD):
            now, after = time.monotonic(), self.delays()
            sampled, before = samples[-1]
            while len(samples) > 1 and samples[1][0] <= now - self.LEASE:
                samples.popleft()
            late = now - sampled - self.PERIOD
            most = max((d - before.get(t, 0) for t, d in after.items()), default=0) / 1e9
            if most >= self.LEAST or late >= self.LATE:
                self.seconds += max(most, late)
            first = samples[0][1]
            of_lease = max((d - first.get(t, 0) for t, d in after.items()), default=0) / 1e9
            self.add(max(of_lease, late))
            samples.append((now, after))

    def close(self):
        self.end.set()
        self.join()
        return self

    def __str__(self):
        return (f"{self.seconds:.1f} s in waits of {self.LEAST} s and more, at most "
                f"{self.longest:.2f} s within {self.LEASE} s")
