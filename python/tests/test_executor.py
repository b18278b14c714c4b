"""The executor's protocol and placement, without a cluster."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pagetoll.executor import node as on_node
from pagetoll.executor.cluster import Demand, Node
from pagetoll.executor.driver import GIB, demand_of
from pagetoll.executor.protocol import BadJob, Job, Jobs, Results, read_job

BIG = Node("1", "big", frozenset(["big"]), Demand(64, 256 * GIB))
SMALL = Node("2", "small", frozenset(["small"]), Demand(1, 2 * GIB))


def _job(*argv: str) -> Job:
    return Job(id="a", argv=("pagetoll", *argv))


def test_a_job_takes_what_its_backend_needs_and_no_more_than_the_node_has() -> None:
    assert demand_of(_job("bill", "pin"), BIG) == Demand(2, 4 * GIB)
    assert demand_of(_job("bill", "pin", "--on", "sim"), BIG) == Demand(1, GIB)
    assert demand_of(_job("bill", "pin", "--on=sim"), BIG) == Demand(1, GIB)
    assert demand_of(_job("bill", "pin", "--on", "live"), BIG) == BIG.has
    assert demand_of(_job("bill", "pin"), SMALL) == SMALL.has


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "stdin, line 7: "),
        (b'{"id": "a"}', "stdin, line 7: argv: found nothing, expected a value"),
        (b'{"id": "a", "argv": []}', "stdin, line 7: argv: found nothing, expected a program and its arguments"),
        (b'{"id": 1, "argv": ["x"]}', "stdin, line 7: id: found 1, expected a text"),
    ],
)
def test_a_bad_line_is_named(line: bytes, message: str) -> None:
    with pytest.raises(BadJob) as bad:
        read_job(line, 7)
    assert str(bad.value).startswith(message)


def test_jobs_are_taken_while_more_may_come() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as pipe:
        jobs = Jobs(stream)
        pipe.write(b'{"id": "a", "argv": ["x"], "host": null}\n')
        taken = _take(jobs, 1)
        assert [job.id for job in taken] == ["a"]
        assert not jobs.ended
        pipe.write(b'{"id": "b", "argv": ["x"], "host": "big"}\n')
        pipe.close()
        assert [job.host for job in _take(jobs, 1)] == ["big"]
        _take(jobs, 0, until_ended=True)


def _take(jobs: Jobs, count: int, *, until_ended: bool = False) -> list[Job]:
    taken: list[Job] = []
    while len(taken) < count or (until_ended and not jobs.ended):
        taken += jobs.take()
        time.sleep(0.01)
    return taken


def test_results_know_when_nothing_reads_them() -> None:
    reader, writer = os.pipe()
    results = Results(writer)
    results.write({"id": "a"})
    assert not results.has_no_reader()
    assert json.loads(os.read(reader, 100)) == {"id": "a"}
    os.close(reader)
    assert results.has_no_reader()
    os.close(writer)


def test_a_program_is_fetched_once_by_many(tmp_path: Path) -> None:
    fetched = []

    def fetch() -> bytes:
        fetched.append(1)
        time.sleep(0.1)
        return b"#!/bin/sh\necho hello\n"

    home, name = tmp_path / "pagetoll-executor-0-x", Path("0123", "pagetoll")
    on_node.hold(home)
    threads = [threading.Thread(target=on_node.install, args=[home, name, fetch]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [1]
    outcome = on_node.execute([str(home / name)], "/nowhere")
    assert (outcome["exit"], outcome["stdout"]) == (0, "hello\n")
    assert home.stat().st_mode & 0o777 == 0o700


def test_folders_that_no_process_holds_are_removed(tmp_path: Path) -> None:
    prefix = f"{on_node.PREFIX}{os.getuid()}-"
    left, held, mine = (tmp_path / f"{prefix}{name}" for name in ("left", "held", "mine"))
    on_node.hold(held)
    left.mkdir()
    (left / "pagetoll").write_text("")
    on_node.hold(mine)
    assert [left.exists(), held.exists(), mine.exists()] == [False, True, True]


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    open_to_all = tmp_path / f"{on_node.PREFIX}{os.getuid()}-open"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError, match="is not this user's alone"):
        on_node.hold(open_to_all)


def test_a_killed_command_has_the_exit_code_of_its_signal() -> None:
    assert on_node.execute(["/bin/sh", "-c", "kill -9 $$"], "/")["exit"] == 137


def test_without_ray_it_says_how_to_install_it(tmp_path: Path) -> None:
    """Ray is hidden by a finder that knows no module of that name."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'ray' else find(name, *rest)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pagetoll.executor"]
    ended = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert ended.stderr == "pagetoll executor: ray is not installed: pip install 'pagetoll[ray]'\n"
