"""The lines that the executor reads and writes."""

from __future__ import annotations

import json
import os
import queue
import select
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from pagetoll.record import Record, WrongField

USAGE = 2
ENVIRONMENT = 3
"""Exit codes: bad input, and a machine or cluster that lacks something."""


class BadJob(Exception):
    """A line is no job. Says which line and which field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Record):
    """A command to run; ``host`` is the node that it has to run on, if any."""

    id: str
    argv: tuple[str, ...]
    host: str | None = None


def read_job(line: bytes, number: int) -> Job:
    """Reads a line; ``number`` is its, from 1. Raises ``BadJob``."""
    try:
        job = Job.from_json(json.loads(line))
    except (ValueError, WrongField) as wrong:
        raise BadJob(f"stdin, line {number}: {wrong}") from None
    if not job.argv:
        raise BadJob(f"stdin, line {number}: argv: found nothing, expected a program and its arguments")
    return job


class Jobs:
    """Jobs from a stream, read by a thread of its own, so that no result waits for the next job."""

    def __init__(self, stream: BinaryIO) -> None:
        self.ended = False
        """Whether the stream has ended and all its jobs were taken."""
        self._lines: queue.Queue[Job | BadJob | None] = queue.Queue()
        threading.Thread(target=self._read, args=[stream], daemon=True).start()

    def _read(self, stream: BinaryIO) -> None:
        for number, line in enumerate(stream, 1):
            try:
                self._lines.put(read_job(line, number))
            except BadJob as bad:
                self._lines.put(bad)
        self._lines.put(None)

    def take(self) -> list[Job]:
        """The jobs that have come since the last call; raises ``BadJob``."""
        taken: list[Job] = []
        while not self.ended:
            try:
                item = self._lines.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, BadJob):
                raise item
            self.ended = item is None
            if item is not None:
                taken.append(item)
        return taken


class Results:
    """Where results go: a line at a time, each by one write, so that no line is ever cut or mixed with another."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._hung_up = select.poll()
        self._hung_up.register(descriptor, 0)

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes a line; raises ``BrokenPipeError`` where it has no reader any more."""
        rest = memoryview(json.dumps(line).encode() + b"\n")
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def has_no_reader(self) -> bool:
        """Whether the reader is gone, without writing anything."""
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in self._hung_up.poll(0))
