"""Hosts that are network namespaces of this machine, joined by a bridge whose links have a rate.

What a launch sees of them is what it sees of machines: names, addresses, interfaces of their own.
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

NETWORK = "10.213.7"
LINK = "fr0"  # a host's interface


def _run(*command):
    subprocess.run(
        list(map(str, command)),
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
    )


class Namespaces:
    """`count` hosts; the first one has the bridge. OSError where this machine does not permit it.

    A host lives as long as the process that holds its namespaces. With `own_files` all but the
    first have a /tmp and a /dev/shm of their own.
    """

    def __init__(self, count, rate, own_files=False):
        self.own_files = own_files
        self.names = [f"forerun-{number}" for number in range(count)]
        self.holders = []
        # Hosts with a /tmp of their own can see this folder, too.
        self.folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        try:
            for name in self.names:
                self._hold(name)
            self._join(rate)
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            told = getattr(error, "stderr", None) or str(error)
            raise OSError(f"no network namespaces here: {told.strip()}") from error

    @property
    def network(self):
        return f"{NETWORK}.0/24"

    def _hold(self, name):
        # Says that it is there once it is.
        files = ""
        if self._has_own_files(len(self.holders)):
            files = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && "
        holder = subprocess.Popen(
            [
                "unshare",
                "--net",
                "--uts",
                *(["--mount"] if files else []),
                "sh",
                "-c",
                f"{files}hostname {name} && ip link set lo up && echo held && exec cat",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.holders.append(holder)
        if holder.stdout.readline().strip() != "held":
            raise OSError(holder.stderr.read())

    def _has_own_files(self, host):
        return self.own_files and host > 0

    def inside(self, host):
        """What runs a command on the host."""
        files = ["--mount"] if self._has_own_files(host) else []
        return ["nsenter", "--target", str(self.holders[host].pid), "--net", "--uts", *files, "--"]

    def files(self, host):
        """Names in /tmp and /dev/shm of a host that has its own."""
        root = Path(f"/proc/{self.holders[host].pid}/root")
        return sorted(
            path.name for place in ("tmp", "dev/shm") for path in (root / place).iterdir()
        )

    def processes(self, host):
        """Numbers of what runs on the host, its holder aside."""
        network = os.readlink(f"/proc/{self.holders[host].pid}/ns/net")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "ns" / "net") == network:
                    found.append(int(folder.name))
            except OSError:  # it has ended
                continue
        return [number for number in found if number != self.holders[host].pid]

    def go_away(self, host, answers=True):
        """A host beside the first one goes down: all that runs there dies, its link is down, and
        nothing is started there until come_back(). `answers`: ssh is refused, as where the machine
        starts anew; else it waits, as where there is none."""
        (Path(self.folder.name) / f"away-{host}").write_text("refuses" if answers else "waits")
        self.cut(host)
        for _ in range(3):  # one may have started another meanwhile
            for number in self.processes(host):
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        if self._has_own_files(host):  # as a start empties them
            _run(*self.inside(host), "sh", "-c", "rm -rf /tmp/* /dev/shm/*")

    def come_back(self, host):
        self.mend(host)
        (Path(self.folder.name) / f"away-{host}").unlink(missing_ok=True)

    def _join(self, rate):
        bridge = self.inside(0)
        _run(*bridge, "ip", "link", "add", LINK, "type", "bridge")
        _run(*bridge, "ip", "address", "add", f"{NETWORK}.1/24", "dev", LINK)
        _run(*bridge, "ip", "link", "set", LINK, "up")
        limit = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
        for host in range(1, len(self.names)):
            port = f"port{host}"
            _run(
                *bridge,
                "ip",
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                LINK,
                "netns",
                self.holders[host].pid,
            )
            _run(*bridge, "ip", "link", "set", port, "master", LINK, "up")
            _run(*bridge, "tc", "qdisc", "add", "dev", port, *limit)
            own = self.inside(host)
            _run(*own, "ip", "address", "add", f"{NETWORK}.{host + 1}/24", "dev", LINK)
            _run(*own, "ip", "link", "set", LINK, "up")
            _run(*own, "tc", "qdisc", "add", "dev", LINK, *limit)

    def cut(self, host):
        """Takes the plug of a host beside the first one out."""
        _run(*self.inside(0), "ip", "link", "set", f"port{host}", "down")

    def mend(self, host):
        _run(*self.inside(0), "ip", "link", "set", f"port{host}", "up")

    def sent_bytes(self, host):
        """What a host has sent to the others."""
        for line in Path(f"/proc/{self.holders[host].pid}/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == LINK:
                return int(counts.split()[8])
        raise OSError(f"host {host} has no interface {LINK}")

    def environment(self):
        """For a launch: starts a host's part on that host, as ssh would."""
        agent = Path(self.folder.name) / "agent"
        cases = "".join(
            f"{name}) away={self.folder.name}/away-{host}\n"
            'case "$(cat "$away" 2>/dev/null)" in\n'
            f'refuses) echo "ssh: connect to host {name} port 22: Connection refused" >&2\n'
            "exit 255 ;;\n"
            'waits) while [ -e "$away" ]; do sleep 0.5; done ;;\n'
            "esac\n"
            f'exec {" ".join(self.inside(host))} sh -c "$*" ;;\n'
            for host, name in enumerate(self.names)
        )
        agent.write_text(
            f"#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}"
            '*) echo "no such host: $host" >&2; exit 1 ;;\nesac\n'
        )
        agent.chmod(0o700)
        return dict(os.environ, OMPI_MCA_plm_rsh_agent=str(agent))

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
            for stream in (holder.stdin, holder.stdout, holder.stderr):
                stream.close()
        self.holders = []
        self.folder.cleanup()
