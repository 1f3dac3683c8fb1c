"""`forerun serve` over three hosts (network namespaces of this machine) that are disturbed at random
while requests are in flight: processes are killed and stopped, links are cut, hosts go away and come
back. Every request ends with the tokens of an undisturbed run, or with a clear error by its deadline;
the service is ready again by itself after every fault, and leaves no process and no file.

Usage: host_faults_test.py PATH_OF_FORERUN [--faults N] [--seed N] [--reboots 45,120] [--report]

--reboots: hosts that are away for so many seconds, among the faults.
"""

import argparse
import collections
import ctypes
import http.client
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from launch import MPIRUN, Launch, all_gone
from namespaces import Namespaces

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
HOSTS = 3
SILENCE_S = 2
START_S = 30
CLIENTS = 4
DEADLINE_S = 20
# How late a request may end on a machine whose processors others use, too.
LATE_S = 5
# How long the service may take to be ready after a fault ends: silence, the last question to a host
# that did not answer, the pause before the next question, a start.
RECOVERY_S = 120
CLONE_NEWNET = 0x40000000


def cases():
    prompts = ("def quicksort(numbers):\n", "It was late", "class A:\n    def f(self):\n")
    return [
        {
            "prompt": prompt,
            "max_tokens": 32 + 16 * (seed % 4),
            "seed": seed,
            "temperature": 0 if seed % 3 == 0 else 0.8,
            "ignore_eos": True,
        }
        for prompt in prompts
        for seed in range(6)
    ]


class Service:
    """forerun serve on the first host."""

    def __init__(self, forerun, network, folder, *args):
        self.network = network
        hosts = folder / "hosts.txt"
        hosts.write_text("".join(name + "\n" for name in network.names))
        command = [
            *network.inside(0),
            *serve(forerun, folder),
            *("--hosts", hosts, "--network", network.network),
            *("--silence-s", SILENCE_S, "--start-s", START_S, "--verbose", *args),
        ]
        self.launch = Launch(command, env=network.environment())
        self.port = port_of(self.launch)

    def call(self, method, path, body=None, timeout=600):
        """Status and JSON; from within the first host's network: by a thread of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def enter(self):
        """Puts the calling thread, and no other, into the first host's network."""
        path = f"/proc/{self.network.holders[0].pid}/ns/net"
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)

    def wait_until_ready(self, timeout):
        deadline = time.monotonic() + timeout
        status, said = 0, None
        while time.monotonic() < deadline and self.launch.process.poll() is None:
            status, said = self.call("GET", "/ready")
            if status == 200:
                return
            time.sleep(0.1)
        raise AssertionError(f"not ready after {timeout} s: {status} {said}")


def serve(forerun, folder):
    return [
        *(forerun, "serve", "--model", TARGET, "--draft", DRAFT, "--port", 0),
        *("--cost-cache", folder / "costs", "--max-requests", CLIENTS),
    ]


def port_of(launch, timeout=120):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and launch.process.poll() is None:
        found = re.search(rb"http://\S+:(\d+)", os.pread(launch.out.fileno(), 4096, 0))
        if found:
            return int(found.group(1))
        time.sleep(0.05)
    raise AssertionError("the service has not started: " + launch.errors())


class Clients:
    """Asks all the time, and judges every answer."""

    def __init__(self, service, expected, seed):
        self.service = service
        self.expected = expected
        self.results = collections.Counter()
        self.errors = collections.Counter()
        self.wrong = []
        self.slowest_s = 0.0
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self.work, args=(random.Random(seed + idx),), daemon=True)
            for idx in range(CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    def work(self, choices):
        self.service.enter()
        while not self.stopping.is_set():
            number = choices.randrange(len(self.expected))
            body, text = self.expected[number]
            limit = choices.random() < 0.7
            self.judge(body | ({"deadline_ms": 1000 * DEADLINE_S} if limit else {}), text)

    def judge(self, body, text):
        begin = time.monotonic()
        try:
            status, said = self.service.call("POST", "/v1/completions", body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            status, said = 0, str(error)
        took = time.monotonic() - begin
        with self.lock:
            self.slowest_s = max(self.slowest_s, took)
            if "deadline_ms" in body and took > DEADLINE_S + LATE_S:
                self.wrong.append(f"{took:.1f} s for {body}: {said}")
            if status == 200 and said["choices"][0]["text"] == text:
                self.results["right"] += 1
            elif status in (408, 429, 503) or (
                status == 500 and "have died with this request" in said["error"]["message"]
            ):
                self.results[f"error {status}"] += 1
                self.errors[re.sub(r"[0-9]+", "N", said["error"]["message"])[:120]] += 1
            else:
                self.wrong.append(f"{status} for {body}: {said}")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(timeout=660)
        assert not any(thread.is_alive() for thread in self.threads), "a request has no end"


class Faults:
    def __init__(self, service, network, seed):
        self.service = service
        self.network = network
        self.random = random.Random(seed)
        self.happened = collections.Counter()
        self.kinds = {
            "kill a rank": self.kill_rank,
            "kill mpirun": self.kill_mpirun,
            "kill a daemon": self.kill_daemon,
            "stop a rank": self.stop_rank,
            "cut a link": self.cut_link,
            "a host refuses": lambda: self.go_away(self.random.uniform(1, 8)),
            "a host is gone": lambda: self.go_away(self.random.uniform(1, 8), answers=False),
        }

    def cause_random(self):
        kind = self.random.choice(list(self.kinds))
        time.sleep(self.random.uniform(0, 1.5))
        self.kinds[kind]()
        self.happened[kind] += 1
        return kind

    def reboot(self, seconds):
        kind = f"a host reboots for {seconds} s"
        self.go_away(seconds)
        self.happened[kind] += 1
        return kind

    def kill(self, numbers, number=signal.SIGKILL):
        for process in numbers:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def some_rank(self):
        ranks = self.service.launch.rank_numbers()
        return [ranks[self.random.choice(sorted(ranks))]] if ranks else []

    def kill_rank(self):
        self.kill(self.some_rank())

    def kill_mpirun(self):
        self.kill(self.service.launch.mpirun_numbers())

    def kill_daemon(self):
        host = self.random.randrange(1, HOSTS)
        daemons = [number for number in self.network.processes(host) if is_daemon(number)]
        self.kill(daemons)

    def stop_rank(self):
        rank = self.some_rank()
        self.kill(rank, signal.SIGSTOP)
        time.sleep(self.random.uniform(0, 3 * SILENCE_S))
        self.kill(rank, signal.SIGCONT)

    def cut_link(self):
        host = self.random.randrange(1, HOSTS)
        self.network.cut(host)
        time.sleep(self.random.uniform(0, 3 * SILENCE_S))
        self.network.mend(host)

    def go_away(self, seconds, answers=True):
        host = self.random.randrange(1, HOSTS)
        self.network.go_away(host, answers)
        try:
            time.sleep(seconds)
            if seconds > RECOVERY_S / 4:
                status, said = self.service.call("GET", "/ready")
                assert status == 503, f"ready while a host is away: {said}"
                assert self.network.names[host] in said["error"]["message"], said
                status, said = self.service.call("GET", "/health")
                assert status == 200, f"a host that is away comes back: {said}"
        finally:
            self.network.come_back(host)


def is_daemon(number):
    try:
        return b"orted" in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False


def undisturbed(forerun, folder):
    """What one process answers that decodes plainly: (body, text) of each case."""
    launch = Launch([*serve(forerun, folder), "--strategy", "autoregressive"])
    try:
        service = Service.__new__(Service)
        service.launch, service.port = launch, port_of(launch)
        answers = []
        for body in cases():
            status, said = service.call("POST", "/v1/completions", body)
            assert status == 200, said
            answers.append((body, said["choices"][0]["text"]))
        return answers
    finally:
        launch.close()


def trial(args, network, folder):
    expected = undisturbed(args.forerun, folder)
    # A service that stops coming back is to be seen here, and not to be tried for minutes.
    service = Service(args.forerun, network, folder, "--relaunches", 20)
    begin = time.monotonic()
    try:
        service.enter()  # this thread: it asks whether the service is ready
        service.wait_until_ready(RECOVERY_S)
        faults = Faults(service, network, args.seed)
        clients = Clients(service, expected, args.seed)
        reboots = [int(seconds) for seconds in args.reboots.split(",") if seconds]
        turns = [None] * (args.faults - len(reboots)) + reboots
        faults.random.shuffle(turns)
        slowest_s = 0.0
        for turn, seconds in enumerate(turns):
            kind = faults.cause_random() if seconds is None else faults.reboot(seconds)
            back = time.monotonic()
            service.wait_until_ready(RECOVERY_S)
            # Ready, and so it is: a request that begins now is answered.
            body, text = expected[turn % len(expected)]
            status, said = service.call("POST", "/v1/completions", body)
            assert status == 200 and said["choices"][0]["text"] == text, f"{kind}: {status} {said}"
            slowest_s = max(slowest_s, time.monotonic() - back)
            assert not clients.wrong, "\n".join(clients.wrong)
            if args.report:
                print(
                    f"{turn + 1}: {kind}, back after {time.monotonic() - back:.1f} s, "
                    f"{dict(clients.results)}",
                    flush=True,
                )
        clients.stop()
        assert not clients.wrong, "\n".join(clients.wrong)
        assert clients.results["right"] > 0
        numbers = [number for host in range(HOSTS) for number in network.processes(host)]
        service.launch.process.send_signal(signal.SIGINT)  # nothing is under way: one ends it
        code, _, err = service.launch.finish(timeout=60)
        assert code in (0, 130), f"{code}\n{err}"
        own = {os.getpid(), *(int(path.name) for path in Path("/proc/self/task").iterdir())}
        assert all_gone(set(numbers) - own, timeout=30), "processes are left"
        for host in range(1, HOSTS) if network.own_files else ():
            left = [name for name in network.files(host) if name.startswith("forerun-")]
            assert not left, f"files of host {host} are left: {left}"
        relaunches = err.count("is lost and started again")
    except AssertionError:
        print(service.launch.errors()[-6000:], file=sys.stderr)
        raise
    finally:
        service.launch.close()
    print(
        f"{sum(faults.happened.values())} faults {dict(faults.happened)} in "
        f"{time.monotonic() - begin:.0f} s, seed {args.seed}: {relaunches} relaunches, requests "
        f"{dict(clients.results)}, slowest answer {clients.slowest_s:.1f} s, slowest way back "
        f"{slowest_s:.1f} s\n{dict(clients.errors)}"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("forerun")
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reboots", default="")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if MPIRUN is None:
        print("host_faults_test: skipped, there is no mpirun")
        return 77
    # Files that all hosts need cannot lie where each host has a folder of its own.
    shared = (ROOT, Path(args.forerun).resolve())
    own_files = not any(path.is_relative_to("/tmp") for path in shared)
    try:
        network = Namespaces(HOSTS, "1gbit", own_files)
    except OSError as error:
        print(f"host_faults_test: skipped, {error}")
        return 77
    try:
        with tempfile.TemporaryDirectory() as name:
            # The test reads and writes none of the user's own files.
            os.environ.update(XDG_CACHE_HOME=name, HOME=name)
            trial(args, network, Path(name))
    finally:
        network.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
