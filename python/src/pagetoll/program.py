"""The program ``pagetoll``: where it is, and how it is run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pagetoll.errors import ProgramFailed, ProgramMissing

HOW_TO_INSTALL = (
    "run `cargo install --path crates/cli`, `make deb` or `make static` in pagetoll's source tree, "
    "or name the program in the variable PAGETOLL"
)


@dataclass(frozen=True, slots=True)
class Output:
    """What the program wrote, and its exit code."""

    command: str
    exit: int
    stdout: bytes
    stderr: str

    def unless(self, *accepted: int) -> Output:
        """The output, where the exit code is one of those; raises ``ProgramFailed`` otherwise."""
        if self.exit not in accepted:
            raise ProgramFailed(self.command, self.exit, self.stderr)
        return self


def find() -> str:
    """The program: what ``PAGETOLL`` names, or ``pagetoll`` on ``PATH``. Raises ``ProgramMissing``."""
    named = os.environ.get("PAGETOLL")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ProgramMissing(f"PAGETOLL is {named}, which is no program; {HOW_TO_INSTALL}")
        return str(Path(found).absolute())
    found = shutil.which("pagetoll")
    if found is None:
        raise ProgramMissing(f"pagetoll is not on PATH; {HOW_TO_INSTALL}")
    return found


def run(arguments: Sequence[str], *, shows_progress: bool = False) -> Output:
    """Runs the program to its end; with ``shows_progress`` its stderr is this process's own.

    An interrupt ends the program first, which removes what it made, and is then raised.
    """
    command = [find(), *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if shows_progress else subprocess.PIPE,
        env=_environment(),
    )
    try:
        stdout, stderr = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    said = "its messages are on stderr" if stderr is None else stderr.decode(errors="replace")
    return Output(shlex.join(["pagetoll", *arguments]), _exit_code(process.returncode), stdout, said)


def _environment() -> dict[str, str]:
    """With this Python first, so that a sweep on Ray finds this package by ``python3``."""
    here = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)])}


def _exit_code(returncode: int) -> int:
    """As a shell has it: 128 + N after signal N."""
    return returncode if returncode >= 0 else 128 - returncode
