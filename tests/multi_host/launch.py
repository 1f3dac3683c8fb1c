"""What the tests of several hosts share: a launch of forerun under mpirun on this machine, that of
the test or one of forerun's own (--hosts)."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

MPIRUN = shutil.which("mpirun")
# After which a process that has said nothing is lost: longer than a machine that others use, too,
# stops a process for.
SILENCE_S = 4


def mpirun_command(ranks):
    """`ranks` processes here, more than processors or not, also as root (in containers)."""
    command = [MPIRUN, "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    return command + ["-n", str(ranks)]


def run(command, timeout=300, env=None):
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
        env=env,
    )


class Launch:
    """A launch that is looked at, and disturbed, while it runs."""

    def __init__(self, command, env=None):
        # Files, which may be looked at before all of it is there.
        self.out, self.err = (tempfile.TemporaryFile("w+") for _ in range(2))
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            env=env,
        )

    def rank_numbers(self):
        """Process numbers by rank, of those that there are."""
        found = {}
        for number in _descendants(self.process.pid):
            rank = _environment(number).get("OMPI_COMM_WORLD_RANK")
            if rank is not None:
                found.setdefault(int(rank), number)
        return found

    def ranks(self, count, timeout=60):
        """Process numbers of ranks 0 to count - 1, once all have started."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.process.poll() is None:
            found = self.rank_numbers()
            if sorted(found) == list(range(count)):
                return [found[rank] for rank in range(count)]
            time.sleep(0.02)
        raise AssertionError(f"not all of {count} ranks have started")

    def any_rank(self, but, timeout=60):
        """Process numbers by rank once there is one that is not of `but`; None: the launch has
        ended."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return None
            found = self.rank_numbers()
            if found and not but.intersection(found.values()):
                return found
            time.sleep(0.02)
        raise AssertionError("no rank has started")

    def mpirun_numbers(self):
        """Of a supervised launch: what it has started itself."""
        return [number for number, parent in _processes() if parent == self.process.pid]

    def wait_for_other_mpirun(self, timeout):
        """Until what runs now has been replaced, or all has ended."""
        before = set(self.mpirun_numbers())
        deadline = time.monotonic() + timeout
        while before.intersection(self.mpirun_numbers()) or (
            not self.mpirun_numbers() and self.process.poll() is None
        ):
            if time.monotonic() > deadline:
                raise AssertionError("a launch that was disturbed has not been replaced")
            time.sleep(0.02)

    def kill(self):
        """All that is left of it."""
        if self.process.poll() is None:
            for number in [*_descendants(self.process.pid), self.process.pid]:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()

    def wait_for_output(self, timeout=120):
        """Until something has been written; rank 0 writes the prompt first."""
        deadline = time.monotonic() + timeout
        while os.fstat(self.out.fileno()).st_size == 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the launch has no output: " + self._written()[1])
            time.sleep(0.01)

    def errors(self):
        """What has been written to standard error so far. The file's place is the process' own."""
        return os.pread(self.err.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for_words(self, words, timeout=120):
        """Until they stand on standard error."""
        deadline = time.monotonic() + timeout
        while words not in self.errors():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"not said: {words}: {self.errors()}")
            time.sleep(0.02)

    def _written(self):
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
        return texts

    def close(self):
        self.kill()
        self.out.close()
        self.err.close()

    def finish(self, timeout):
        """(exit code, stdout, stderr); fails where it takes longer."""
        try:
            self.process.wait(timeout=timeout)
        finally:
            self.kill()
        return self.process.returncode, *self._written()


def _processes():
    """(process number, its parent's) of all that there are."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        found.append((int(folder.name), int(stat.rpartition(")")[2].split()[1])))
    return found


def _descendants(number):
    children = _processes()
    found, queue = [], [number]
    while queue:
        parent = queue.pop()
        for child, of in children:
            if of == parent:
                found.append(child)
                queue.append(child)
    return found


def _environment(number):
    try:
        entries = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(entry.decode(errors="replace").split("=", 1) for entry in entries if b"=" in entry)


def _status(number, field):
    """A line of the process' status; empty where it is gone."""
    try:
        for line in Path(f"/proc/{number}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def peak_resident_bytes(number):
    """Most memory that the process has had, 0 where it is gone."""
    return 1024 * int((_status(number, "VmHWM") or "0").split()[0])


def resident_bytes(number):
    return 1024 * int((_status(number, "VmRSS") or "0").split()[0])


def open_files(number):
    return len(os.listdir(f"/proc/{number}/fd"))


def has_handler(number, signal_number):
    """Whether the process catches the signal."""
    return bool(int(_status(number, "SigCgt") or "0", 16) >> (signal_number - 1) & 1)


def all_gone(numbers, timeout=10):
    """Whether the processes have ended, at once or soon."""
    deadline = time.monotonic() + timeout
    # A zombie is gone but for whoever has not asked for its exit code.
    while any(_status(number, "State") not in ("", "Z (zombie)") for number in numbers):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
