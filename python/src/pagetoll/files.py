"""Bills from files, folders and stores of sweeps, read one at a time."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pagetoll import bills, comparison
from pagetoll.bills import Bill
from pagetoll.errors import BillError
from pagetoll.record import Record, WrongField

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

R = TypeVar("R", bound=Record)
# Bytes of a larger file, which is no bill: the limit of the program's own readers.
_MOST = 64 << 20
_STORE = re.compile(r'^schema\s*=\s*"pagetoll\.store/1"', re.MULTILINE)


class CorruptBill(UserWarning):
    """A file of a folder is no bill. Says which and why; the other bills are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Record):
    """A job of a sweep that gave no bill; ``reason`` is the end of its stderr."""

    id: str
    command: str
    exit: int | None = None
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Bills:
    """The bills of a folder. They are read each time that they are gone through, and never all held at once.

    ``paths`` are the files below the folder ``root``, in the order of their names; those that turn out to be no bills
    are passed over with a ``CorruptBill`` warning. ``failures`` are a store's jobs that gave no bill.
    """

    root: Path
    paths: tuple[Path, ...]
    failures: tuple[Failure, ...] = ()

    def __iter__(self) -> Iterator[Bill]:
        for _, bill in self.items():
            yield bill

    def items(self) -> Iterator[tuple[str, Bill]]:
        """Each bill with its name: its path in the folder without the ending, which in a store is the job's id."""
        for path in self.paths:
            try:
                yield path.relative_to(self.root).with_suffix("").as_posix(), read_bill(path)
            except (BillError, OSError) as error:
                warnings.warn(f"{error}; the other bills are used", CorruptBill, stacklevel=3)

    def to_arrow(self) -> pyarrow.Table:
        """One line for each row, axes and scalars as columns: see ``pagetoll.tables``."""
        from pagetoll import tables

        return tables.rows(self.items())

    def to_polars(self) -> polars.DataFrame:
        """The table of ``to_arrow``, in polars."""
        from pagetoll import tables

        return tables.to_polars(self.to_arrow())

    def to_pandas(self) -> pandas.DataFrame:
        """The table of ``to_arrow``, in pandas."""
        from pagetoll import tables

        return tables.to_pandas(self.to_arrow())

    def tolls(self) -> pyarrow.Table:
        """One line for each toll; columns ``bill`` and ``row`` join it with the table of rows."""
        from pagetoll import tables

        return tables.tolls(self.items())


def read(source: str | PathLike[str]) -> Bill | Bills:
    """Reads a bill from a file; of a folder, every ``*.json`` below it; of a sweep's store, its bills and failures.

    Raises ``BillError`` where a file is no bill or there is nothing to read, ``OSError`` where it cannot be read.
    """
    path = Path(source)
    if not path.is_dir():
        # A link that the caller names is followed, one in a folder is not.
        return read_bill(path.resolve())
    if (path / "store.toml").exists():
        return _store(path)
    found = tuple(sorted(path.rglob("*.json")))
    if not found:
        raise BillError(f"{path}: no *.json below it; expected a bill, a folder of bills, or a store")
    return Bills(path, found)


def read_bill(path: Path) -> Bill:
    """Reads one bill; raises ``BillError``, also for a link, and ``OSError``."""
    return read_record(_content(path), str(path), Bill, bills.SCHEMA)


def _content(path: Path) -> bytes:
    """The bytes of a regular file: a pipe would never end, and a link in a store may lead anywhere."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise BillError(f"{path}: is a symbolic link; expected a regular file") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BillError(f"{path}: is no regular file; expected one")
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise BillError(f"{path}: is larger than {_MOST >> 20} MiB; expected at most that")
    return content


def read_diff(written: bytes, source: str) -> comparison.Diff:
    """Reads what ``pagetoll diff --format json`` wrote; raises ``BillError``, which names ``source``."""
    return read_record(written, source, comparison.Diff, comparison.SCHEMA)


def read_record(written: bytes, source: str, cls: type[R], schema: str | None) -> R:
    """Reads a record of that schema; raises ``BillError``, which names ``source`` and the field."""
    try:
        value = json.loads(written)
        _check_schema(value, schema)
        return cls.from_json(value)
    except (ValueError, RecursionError, WrongField) as wrong:
        raise BillError(f"{source}: {wrong}") from None


def _check_schema(value: Any, expected: str | None) -> None:
    found = value.get("schema") if isinstance(value, dict) else value
    if expected is not None and found != expected:
        raise WrongField(repr(found)[:60], repr(expected)).inside("schema")


def _store(path: Path) -> Bills:
    """A store that a sweep is still writing to holds whole bills only."""
    if not _STORE.search(_content(path / "store.toml").decode(errors="replace")):
        raise BillError(f'{path / "store.toml"}: schema: expected "pagetoll.store/1"')
    folder = path / "bills"
    for below in (folder, path / "failures"):
        if below.is_symlink():
            raise BillError(f"{below}: is a symbolic link; expected a folder")
    return Bills(folder, tuple(sorted(folder.glob("*.json"))), tuple(_failures(path / "failures")))


def _failures(folder: Path) -> Iterator[Failure]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield read_record(_content(path), str(path), Failure, None)
        except (BillError, OSError) as error:
            warnings.warn(f"{error}; the other failures are used", CorruptBill, stacklevel=4)
