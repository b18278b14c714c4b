"""Gives jobs to nodes, and results to whoever started the executor.

A job is placed on a node here and not by Ray, so that it is known which node was lost, and which nodes remain to be
tried. A node gets as many jobs at a time as it has CPUs and memory for.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from pagetoll.executor.cluster import Cluster, Demand, Lost, Node, NodeLost, Refused
from pagetoll.executor.protocol import ENVIRONMENT, USAGE, BadJob, Job, Jobs, Results

NODES_TRIED = 3
"""Nodes that a job may lose before it fails."""
TURN = 0.1
"""Seconds between two looks at jobs and signals."""
REFRESH = 2.0
"""Seconds between two looks at which nodes there are."""
WITHOUT_NODES = 60.0
"""Seconds to wait for a node where there is none."""
GIB = 2**30


class ClusterGone(Exception):
    """No cluster, or no node of it, is left."""


@dataclass
class _Placed:
    """A job on a node."""

    job: Job
    node: Node
    demand: Demand


@dataclass
class Driver:
    """One run of the executor."""

    cluster: Cluster
    jobs: Jobs
    results: Results
    stopped_by: int = 0
    """The signal that came, else 0."""
    _pending: deque[Job] = field(default_factory=deque)
    _running: dict[Any, _Placed] = field(default_factory=dict)
    _lost_on: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the nodes that each job has lost."""
    _gone: set[str] = field(default_factory=set)
    """Ids of nodes that are gone, whatever Ray says."""
    _used: dict[str, Node] = field(default_factory=dict)
    _nodes: list[Node] = field(default_factory=list)
    _looked: float = 0.0
    _seen: float = field(default_factory=time.monotonic)
    """When there were nodes last."""

    def run(self) -> int:
        """Runs all jobs; the exit code. Raises ``BadJob``, ``BrokenPipeError`` and ``ClusterGone``."""
        while not (self.jobs.ended and not self._pending and not self._running):
            if self.results.has_no_reader():
                raise BrokenPipeError
            if self.stopped_by:
                return 128 + self.stopped_by
            self._pending.extend(self.jobs.take())
            self._look_at_nodes()
            self._place()
            self._collect()
        return 0

    def close(self) -> None:
        """Ends what still runs, and removes what was put on nodes."""
        self.cluster.cancel(list(self._running))
        self.cluster.close(self._used.values())

    def _look_at_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked < REFRESH:
            return
        self._nodes, self._looked = [node for node in self.cluster.nodes() if node.id not in self._gone], now
        if any(node.has.cpus for node in self._nodes):
            self._seen = now
        elif now - self._seen > WITHOUT_NODES:
            raise ClusterGone("no node with a CPU is left")

    def _place(self) -> None:
        """Starts each job that a node has room for; the others keep their order."""
        waiting: deque[Job] = deque()
        while self._pending:
            job = self._pending.popleft()
            allowed = self._allowed(job)
            node = next((node for node in allowed if self._has_room(node, demand_of(job, node))), None)
            if node is not None:
                self._start(job, node)
            elif job.host is not None and not allowed:
                names = ", ".join(sorted(node.name for node in self._nodes))
                self._fail(job, "-", f"no node is named {job.host}; the cluster has {names or 'none'}")
            else:
                waiting.append(job)
        self._pending = waiting

    def _allowed(self, job: Job) -> list[Node]:
        """Nodes that may run a job, the least busy first: those that it was not lost on, unless there is no other."""
        if job.host is not None:
            return [node for node in self._nodes if job.host in node.names]
        able = [node for node in self._nodes if node.has.cpus]
        able.sort(key=lambda node: sum(placed.node.id == node.id for placed in self._running.values()))
        lost = self._lost_on.get(job.id, [])
        return [node for node in able if node.id not in lost] or able

    def _has_room(self, node: Node, demand: Demand) -> bool:
        taken = [placed.demand for placed in self._running.values() if placed.node.id == node.id]
        cpus, memory = sum(one.cpus for one in taken), sum(one.memory for one in taken)
        return not taken or (cpus + demand.cpus <= node.has.cpus and memory + demand.memory <= node.has.memory)

    def _start(self, job: Job, node: Node) -> None:
        demand = demand_of(job, node)
        try:
            started = self.cluster.submit(job, node, demand)
        except OSError as error:
            self._fail(job, "-", f"{job.argv[0]}: {error.strerror}")
            return
        self._running[started] = _Placed(job, node, demand)
        self._used[node.id] = node

    def _collect(self) -> None:
        if not self._running:
            time.sleep(TURN)
            return
        for started in self.cluster.wait(list(self._running), TURN):
            self._finish(self._running.pop(started), started)

    def _finish(self, placed: _Placed, started: Any) -> None:
        try:
            outcome = self.cluster.outcome(started)
        except Lost as lost:
            if isinstance(lost, NodeLost):
                self._gone.add(placed.node.id)
            self._again(placed, str(lost))
        except Refused as refused:
            self._fail(placed.job, placed.node.name, str(refused))
        else:
            self.results.write({"id": placed.job.id, "node": placed.node.name, **outcome})

    def _again(self, placed: _Placed, why: str) -> None:
        """The job of a lost node goes first on another one."""
        job, node = placed.job, placed.node
        self.results.write({"lost": node.name, "id": job.id})
        lost = self._lost_on.setdefault(job.id, [])
        lost.append(node.id)
        self._looked = 0.0
        self._look_at_nodes()
        if len(lost) < NODES_TRIED:
            self._pending.appendleft(job)
        else:
            self._fail(job, node.name, f"{len(lost)} nodes were lost while they ran it, the last by {why}")

    def _fail(self, job: Job, node: str, why: str) -> None:
        """A result for a job that could not be run: what the machines lack, not what the program said."""
        line = {"id": job.id, "node": node, "exit": ENVIRONMENT, "stdout": "", "stderr": f"executor: {why}\n"}
        self.results.write({**line, "seconds": 0.0})


def demand_of(job: Job, node: Node) -> Demand:
    """What a job takes: a lab's guests keep two CPUs busy in 4 GiB, a model one, and a live bill has its host alone.

    A node that has less is taken as a whole.
    """
    on = option_of(job.argv, "on")
    if on == "live":
        return node.has
    wanted = Demand(1, GIB) if on == "sim" else Demand(2, 4 * GIB)
    return Demand(min(wanted.cpus, node.has.cpus), min(wanted.memory, node.has.memory))


def option_of(argv: tuple[str, ...], name: str) -> str | None:
    """The value of an option, given as ``--name value`` or ``--name=value``."""
    for word, following in zip(argv, [*argv[1:], None], strict=True):
        if word == f"--{name}":
            return following
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return None


def main(arguments: list[str], results: Results) -> int:
    """Runs the executor in this process; the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m pagetoll.executor", description="Runs jobs on a Ray cluster.")
    parser.add_argument("--address", help="the cluster's, as ray.init takes it; else the one that Ray finds")
    address = parser.parse_args(arguments).address
    if find_spec("ray") is None:
        return _say(ENVIRONMENT, "ray is not installed: pip install 'pagetoll[ray]'")
    try:
        cluster = Cluster(address)
    except Exception as error:
        return _say(ENVIRONMENT, f"no cluster at {address or 'this machine'}: {error}")
    driver = Driver(cluster, Jobs(sys.stdin.buffer), results)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: setattr(driver, "stopped_by", number))
    try:
        return driver.run()
    except BadJob as bad:
        return _say(USAGE, str(bad))
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except Exception as error:
        return _say(ENVIRONMENT, f"the cluster went away: {error}")
    finally:
        _close(driver)


def _close(driver: Driver) -> None:
    """What is left on a cluster that is gone is removed by the next run."""
    try:
        driver.close()
    except Exception as error:
        _say(0, f"nodes were not cleaned: {error}")


def _say(code: int, message: str) -> int:
    os.write(2, f"pagetoll executor: {message}\n".encode())
    return code
