"""What runs on a node of the cluster: the program is put there once, and carries out jobs.

This module is sent to the nodes by value, so it may import nothing of this package: nodes need not have it.

The folder of the program is private, and locked as long as a process uses it. A node that was cut off from its cluster
cannot be cleaned by it, so the next one's first job removes folders that no process holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

PREFIX = "pagetoll-executor-"
GRACE = 10
"""Seconds that a program has to clean up after itself before it is killed."""

TURN = 0.2
"""Seconds until an interrupt is seen."""

_held: dict[str, int] = {}
"""Descriptors of the folders that this process holds a lock of."""


class Outcome(TypedDict):
    """How a command ended: its exit code (128 + N after signal N), what it wrote, and how long it took."""

    exit: int
    stdout: str
    stderr: str
    seconds: float


def folder(run: str) -> Path:
    """The folder of a run on this node: of this user alone."""
    return Path(tempfile.gettempdir(), f"{PREFIX}{os.getuid()}-{run}")


@dataclass(frozen=True)
class Command:
    """A command as the driver has it: its program's SHA-256, and where it was given."""

    run: str
    """The name of the executor's run."""
    digest: str
    argv: list[str]
    folder: str
    """The working folder, where the node has one of that name."""


def carry_out(command: Command, program: list[Any]) -> Outcome:
    """Runs a command with the program that is in the object store: a list, so that Ray fetches it only when asked."""
    import ray

    def fetch() -> bytes:
        return bytes(ray.get(program[0]))

    name = Path(command.argv[0]).name
    installed = install(folder(command.run), Path(command.digest, name), fetch)
    return execute([str(installed), *command.argv[1:]], command.folder)


def install(home: Path, name: Path, fetch: Callable[[], bytes]) -> Path:
    """The program of that name below the folder, fetched where no process of this node has done so yet."""
    hold(home)
    program = home / name
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            program.parent.mkdir(exist_ok=True)
            whole = program.with_suffix(".new")
            whole.write_bytes(fetch())
            whole.chmod(stat.S_IRWXU)
            whole.rename(program)
    return program


def hold(home: Path) -> None:
    """Makes the folder, and keeps it from being removed as left over for as long as this process lives."""
    if str(home) in _held:
        return
    remove_left_over(home)
    while str(home) not in _held:
        home.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        # Another run may remove it until it is locked.
        with contextlib.suppress(FileNotFoundError):
            _lock(home)


def _lock(home: Path) -> None:
    """Locks the folder; raises ``FileNotFoundError`` where it is gone."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        _refuse_others(home, found)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.path.samestat(found, home.stat()):
            _held[str(home)] = os.dup(descriptor)
    finally:
        os.close(descriptor)


def _refuse_others(home: Path, found: os.stat_result) -> None:
    """The temporary folder is everyone's: another user may have made one of that name, to have a program of his run."""
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PermissionError(f"{home}: is not this user's alone")


def remove_left_over(besides: Path) -> None:
    """Removes the folders of this user's runs that no process holds."""
    for left in besides.parent.glob(f"{PREFIX}{os.getuid()}-*"):
        if left == besides or left.is_symlink():
            continue
        try:
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


def clean(run: str) -> None:
    """Removes the run's folder."""
    shutil.rmtree(folder(run), ignore_errors=True)


def execute(argv: list[str], at: str) -> Outcome:
    """Runs a command; an interrupt, and the end of this process, end it too."""
    started = time.monotonic()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=at if Path(at).is_dir() else None,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    try:
        stdout, stderr = _outputs(process)
    except BaseException:
        _end(process)
        raise
    return {
        "exit": process.returncode if process.returncode >= 0 else 128 - process.returncode,
        "stdout": stdout.decode(errors="replace"),
        "stderr": stderr.decode(errors="replace"),
        "seconds": round(time.monotonic() - started, 3),
    }


def _outputs(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Both outputs, when it has ended. Ray's interrupt of a task ends no system call: so wait by turns."""
    while True:
        try:
            return process.communicate(timeout=TURN)
        except subprocess.TimeoutExpired:
            continue


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and what it has started."""
    if process.returncode is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def die_with_parent() -> None:
    """prctl(PR_SET_PDEATHSIG): a worker may be killed in a way that it cannot catch."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
