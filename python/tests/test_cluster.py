"""The executor on a Ray cluster of two nodes, both on this machine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pagetoll
from pagetoll.executor import node as on_node

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray stores nothing on a disk that is 95 % full and ends workers at 95 % of memory: both are this machine's affair.
os.environ.setdefault("RAY_local_fs_capacity_threshold", "1")
os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.cluster

LIMIT = 120
"""Seconds for one run of the executor."""
SIM = ["--on", "sim", "--samples", "2", "--format", "json"]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


class Executor:
    """A run of the executor; ``lines`` are what it has written so far."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "pagetoll.executor", "--address", address]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[dict[str, Any]] = []

    def give(self, *jobs: dict[str, Any]) -> None:
        assert self.process.stdin
        for job in jobs:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def end_of_jobs(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def next(self) -> dict[str, Any]:
        assert self.process.stdout
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.lines.append(line)
        return line

    def finish(self) -> tuple[int, str]:
        """Its exit code and stderr, after all its lines."""
        assert self.process.stdout
        assert self.process.stderr
        self.lines += [json.loads(line) for line in self.process.stdout]
        said = self.process.stderr.read().decode()
        return self.process.wait(LIMIT), said


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**NODE, "node_name": "left"})
    made.add_node(**{**NODE, "node_name": "right"})
    made.wait_for_nodes(LIMIT)
    yield made
    made.shutdown()
    _remove_folders()


@pytest.fixture
def start(cluster: Any) -> Iterator[Callable[[], Executor]]:
    started: list[Executor] = []

    def begin() -> Executor:
        started.append(Executor(cluster.address))
        return started[-1]

    yield begin
    for executor in started:
        executor.process.kill()
        executor.process.wait()


def _folders() -> list[Path]:
    return sorted(Path(tempfile.gettempdir()).glob(f"{on_node.PREFIX}{os.getuid()}-*"))


def _remove_folders() -> None:
    """What a node that was killed has left: its machine is this one."""
    on_node.remove_left_over(on_node.folder("of-no-run"))


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def _sleeper(mark: Path, seconds: float) -> list[str]:
    """A command that says that it runs, sleeps, and says where."""
    return ["/bin/sh", "-c", f"echo $$ > {mark}; sleep {seconds}; echo done"]


def _bill(program: str, number: int) -> dict[str, Any]:
    return {"id": f"bill-{number}", "argv": [program, "bill", "unmap", "--seed", str(number), *SIM], "host": None}


def _without_time(written: str) -> str:
    """When it ended is all that differs between two runs."""
    return "\n".join(line for line in written.splitlines() if not line.startswith('    "when": '))


@pytest.mark.smoke
def test_a_lost_node_costs_no_job_and_no_byte(
    cluster: Any, start: Callable[[], Executor], program: str, tmp_path: Path
) -> None:
    marks = [tmp_path / "a", tmp_path / "b"]
    executor = start()
    executor.give(*[{"id": mark.name, "argv": _sleeper(mark, 8), "host": None} for mark in marks])
    executor.give(*[_bill(program, number) for number in range(1, 9)])
    _wait_until(lambda: all(mark.exists() for mark in marks))
    (removed,) = cluster.worker_nodes
    cluster.remove_node(removed, allow_graceful=False)
    executor.end_of_jobs()
    assert executor.finish()[0] == 0
    lost = [line for line in executor.lines if "lost" in line]
    assert {line["lost"] for line in lost} == {"right"}
    assert lost[0]["id"] in ("a", "b")
    results = {line["id"]: line for line in executor.lines if "lost" not in line}
    assert len(results) == 10
    assert results["a"]["stdout"] == results["b"]["stdout"] == "done\n"
    assert {result["node"] for result in results.values()} == {"left"}
    for number in range(1, 9):
        job = _bill(program, number)
        local = subprocess.run(job["argv"], capture_output=True, text=True)
        there = results[job["id"]]
        assert (there["exit"], there["stderr"]) == (local.returncode, local.stderr)
        assert _without_time(there["stdout"]) == _without_time(local.stdout)


def test_jobs_are_pinned_to_their_host_and_leave_nothing(start: Callable[[], Executor], program: str) -> None:
    executor = start()
    pinned = [{**_bill(program, number), "host": ["left", "right"][number % 2]} for number in range(4)]
    pinned[0]["argv"][4] = "9"
    executor.give(*pinned, {"id": "nowhere", "argv": [program], "host": "elsewhere"})
    executor.give({"id": "none", "argv": ["/nowhere/pagetoll"], "host": None})
    executor.end_of_jobs()
    assert executor.finish()[0] == 0
    results = {line["id"]: line for line in executor.lines}
    assert all(results[job["id"]]["node"] == job["host"] for job in pinned)
    assert results["nowhere"]["exit"] == 3
    assert "no node is named elsewhere; the cluster has left, right" in results["nowhere"]["stderr"]
    assert "/nowhere/pagetoll: No such file or directory" in results["none"]["stderr"]
    assert _folders() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_jobs_and_cleans_nodes(start: Callable[[], Executor], tmp_path: Path, number: int) -> None:
    mark = tmp_path / "runs"
    executor = start()
    executor.give({"id": "slow", "argv": _sleeper(mark, 300), "host": None})
    _wait_until(lambda: mark.exists() and bool(mark.read_text()))
    executor.process.send_signal(number)
    assert executor.finish()[0] == 128 + number
    assert executor.lines == []
    assert not Path("/proc", mark.read_text().strip()).exists()
    assert _folders() == []


def _kill(executor: Executor) -> None:
    executor.process.kill()


def _hang_up(executor: Executor) -> None:
    assert executor.process.stdout
    executor.process.stdout.close()


@pytest.mark.parametrize("leave", [_kill, _hang_up])
def test_nothing_runs_on_for_nobody(
    start: Callable[[], Executor], tmp_path: Path, leave: Callable[[Executor], None]
) -> None:
    mark = tmp_path / "runs"
    executor = start()
    executor.give({"id": "slow", "argv": _sleeper(mark, 300), "host": None})
    _wait_until(lambda: mark.exists() and bool(mark.read_text()))
    leave(executor)
    _wait_until(lambda: not Path("/proc", mark.read_text().strip()).exists() and _folders() == [])
    executor.process.wait(LIMIT)


def test_a_bad_line_ends_it(start: Callable[[], Executor]) -> None:
    executor = start()
    executor.give({"id": "a", "argv": 1})
    code, said = executor.finish()
    assert code == 2
    assert "stdin, line 1: argv: found 1, expected a list" in said


def test_a_cluster_that_goes_away_is_said_after_what_was_done(
    cluster: Any, start: Callable[[], Executor], program: str, tmp_path: Path
) -> None:
    executor = start()
    executor.give(_bill(program, 1), {"id": "slow", "argv": _sleeper(tmp_path / "runs", 300), "host": None})
    assert executor.next()["exit"] == 0
    _wait_until((tmp_path / "runs").exists)
    cluster.shutdown()
    code, said = executor.finish()
    assert code == 3
    assert "the cluster went away" in said
    assert [line["id"] for line in executor.lines if "lost" not in line] == ["bill-1"]


@pytest.mark.smoke
def test_a_sweep_fills_the_same_store_as_on_this_machine(cluster: Any, program: str, tmp_path: Path) -> None:
    if b"--store" not in subprocess.run([program, "sweep", "--help"], capture_output=True).stdout:
        pytest.skip("this pagetoll has no sweep")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[axes]\nroute = ["unmap", "switch"]\nseed = [1, 2, 3]\n\n[options]\non = "sim"\nsamples = 2\n',
        encoding="utf-8",
    )
    here = pagetoll.sweep(plan, tmp_path / "here", jobs=1)
    there = pagetoll.sweep(plan, tmp_path / "there", on="ray", address=cluster.address)
    assert (len(here.paths), here.failures, there.failures) == (6, (), ())
    bytes_of = [{path.name: path.read_bytes() for path in bills.paths} for bills in (here, there)]
    assert bytes_of[0] == bytes_of[1]
    assert {bill.provenance.when for bill in there} == {None}


def test_no_cluster_is_an_error() -> None:
    executor = Executor("127.0.0.1:1")
    executor.end_of_jobs()
    code, said = executor.finish()
    assert code == 3
    assert "no cluster at 127.0.0.1:1" in said or "the cluster went away" in said
