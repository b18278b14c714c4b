"""The Ray cluster: its nodes, and commands that run on them. All that knows Ray is here, and one line of ``node``."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagetoll.executor import node as on_node
from pagetoll.executor.node import Command, Outcome
from pagetoll.executor.protocol import Job

SECONDS_TO_CLEAN = 15


class Lost(Exception):
    """Ray's process on the node is gone: the command may be run elsewhere."""


class NodeLost(Lost):
    """The node itself is gone. Ray may list it as alive for some seconds more; it never comes back by the same id."""


class Refused(Exception):
    """The node could not run the command at all."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job takes of a node: CPUs, and bytes of memory."""

    cpus: float
    memory: float


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is alive, with all that it has; ``names`` are what a job's ``host`` may call it."""

    id: str
    name: str
    names: frozenset[str]
    has: Demand


class Cluster:
    """A connection to a cluster; without an address to the one that Ray finds, else to a new one of this machine."""

    def __init__(self, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        ray.cloudpickle.register_pickle_by_value(on_node)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="warning",
            include_dashboard=False if address is None else None,
        )
        self._ray = ray
        self._run = uuid.uuid4().hex[:16]
        self._programs: dict[str, tuple[str, Any]] = {}
        self._carry_out = ray.remote(max_retries=0)(on_node.carry_out)
        self._clean = ray.remote(num_cpus=0, max_retries=0)(on_node.clean)

    def nodes(self) -> list[Node]:
        """The nodes that are alive."""
        return [_node(found) for found in self._ray.nodes() if found["Alive"]]

    def submit(self, job: Job, node: Node, demand: Demand) -> Any:
        """Starts a job on a node; what it gives is for ``wait`` and ``outcome``. ``OSError``: no such program."""
        digest, program = self._program(job.argv[0])
        command = Command(f"{self._run}-{node.id[:12]}", digest, list(job.argv), str(Path.cwd()))
        task = self._carry_out.options(
            num_cpus=demand.cpus, memory=demand.memory or None, scheduling_strategy=self._only_on(node)
        )
        return task.remote(command, [program])

    def _program(self, path: str) -> tuple[str, Any]:
        """The digest of a program, and what it is in the object store: put there once."""
        if path not in self._programs:
            content = Path(path).read_bytes()
            self._programs[path] = hashlib.sha256(content).hexdigest(), self._ray.put(content)
        return self._programs[path]

    def wait(self, started: list[Any], seconds: float) -> list[Any]:
        """Those that have ended, after that time at the latest."""
        ended, _ = self._ray.wait(started, num_returns=len(started), timeout=0)
        return list(ended or self._ray.wait(started, timeout=seconds)[0])

    def outcome(self, started: Any) -> Outcome:
        """How a command ended; raises ``Lost`` and ``Refused``."""
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(started)
        except errors.RayTaskError as error:
            raise Refused(str(error.cause)) from None
        except (errors.NodeDiedError, errors.TaskUnschedulableError) as error:
            raise NodeLost(type(error).__name__) from None
        except errors.RayError as error:
            raise Lost(type(error).__name__) from None
        return outcome

    def cancel(self, started: list[Any]) -> None:
        """Ends commands, and waits until they have cleaned up after themselves."""
        for one in started:
            self._ray.cancel(one)
        if started:
            self._ray.wait(started, num_returns=len(started), timeout=on_node.GRACE + 2)

    def close(self, used: Iterable[Node]) -> None:
        """Removes what was put on those nodes, and disconnects."""
        alive = {node.id for node in self.nodes()}
        cleaning = [
            self._clean.options(scheduling_strategy=self._only_on(node)).remote(f"{self._run}-{node.id[:12]}")
            for node in used
            if node.id in alive
        ]
        if cleaning:
            self._ray.wait(cleaning, num_returns=len(cleaning), timeout=SECONDS_TO_CLEAN)
        self._ray.shutdown()

    def _only_on(self, node: Node) -> Any:
        return self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)


def _node(found: dict[str, Any]) -> Node:
    """The name that was given to the node, else its host's: Ray names nodes by their addresses otherwise."""
    address, host, given = found["NodeManagerAddress"], found["NodeManagerHostname"], found["NodeName"]
    resources = found["Resources"]
    return Node(
        id=found["NodeID"],
        name=host if given == address else given,
        names=frozenset([address, host, given, found["NodeID"]]),
        has=Demand(resources.get("CPU", 0), resources.get("memory", 0)),
    )
