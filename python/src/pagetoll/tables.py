"""Bills as Arrow tables: one line for each row, and one line for each toll.

Columns of the rows:

- ``bill`` (the file's name) and ``row`` (its number in the bill, from 0);
- of the bill: ``route``, ``backend``, ``unit``, ``evidence``, ``when`` (UTC), ``pagetoll`` (the program's version),
  ``stack.NAME``, and ``option.NAME`` for each option of the command that made it;
- of the row: its fields, with nested ones as ``layout.runs``, ``restored.kept.pss`` and ``crossings.NAME``; ``runs``
  is a list; ``checks_failed`` counts checks.

Text columns are dictionaries, because the same few texts come again and again. Bills are taken a thousand at a time, so
that memory holds the table and little else.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from pagetoll.bills import Bill, Profile, Row, RowKey
from pagetoll.errors import PackageMissing
from pagetoll.record import Record

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Named = Iterable[tuple[str, Bill]]
Line = dict[str, Any]

AT_A_TIME = 1000
"""Bills that are held at once."""

_FLOATS = tuple[float, ...]


def _columns(record: type[Record], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The columns of a record's fields and of those of records in it, each with the type of its values."""
    for name, hint in get_type_hints(record).items():
        kind = get_args(hint)[0] if get_origin(hint) is UnionType else hint
        if kind in (int, float, bool, str, _FLOATS):
            yield prefix + name, kind
        elif isinstance(kind, type) and issubclass(kind, Record) and kind is not Profile:
            yield from _columns(kind, f"{prefix}{name}.")


_OF_BILL = ("route", "backend", "unit", "evidence", "when", "pagetoll")
_OF_ROW = dict(_columns(Row))
_KINDS = dict.fromkeys(("bill", "name", *_OF_BILL), str) | {"row": int, "checks_failed": int, **_OF_ROW}


def rows(bills: Named) -> pyarrow.Table:
    """One line for each row of the bills. Raises ``PackageMissing`` without pyarrow."""
    return _table(bills, _row_lines, ["bill", "row", *_OF_BILL, *RowKey._fields, "role", "pages", "cost_per_page"])


def tolls(bills: Named) -> pyarrow.Table:
    """One line for each toll: ``bill``, ``row``, ``name``, ``count_per_page``, ``cost_each``, ``cost_per_page``."""
    return _table(bills, _toll_lines, ["bill", "row", "name", "count_per_page", "cost_each", "cost_per_page"])


def to_polars(table: pyarrow.Table) -> polars.DataFrame:
    """The same table in polars. Raises ``PackageMissing`` without it."""
    try:
        import polars
    except ImportError:
        raise PackageMissing("polars", "polars") from None
    return polars.from_arrow(table)


def to_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """The same table in pandas. Raises ``PackageMissing`` without it."""
    try:
        import pandas  # noqa: F401 (pyarrow says less clearly that it is missing)
    except ImportError:
        raise PackageMissing("pandas", "pandas") from None
    return table.to_pandas()


def _row_lines(name: str, bill: Bill) -> Iterator[Line]:
    of_bill = _of_bill(name, bill)
    for number, row in enumerate(bill.rows):
        yield {**of_bill, "row": number, **_of_row(row)}


def _of_bill(name: str, bill: Bill) -> Line:
    line: Line = {"bill": name, "route": bill.route, "backend": bill.backend, "unit": bill.unit}
    line |= {"evidence": bill.evidence, "when": _time(bill.provenance.when), "pagetoll": bill.provenance.pagetoll}
    line |= {f"option.{option}": value for option, value in options(bill.provenance.command).items()}
    return line | {f"stack.{part}": version for part, version in bill.stack.items()}


def _of_row(row: Row) -> Line:
    line: Line = {}
    for column in _OF_ROW:
        *outer, name = column.split(".")
        record: Record | None = row
        for field in outer:
            record = getattr(record, field, None)
        value = getattr(record, name, None)
        if value is not None or (outer and record):
            line[column] = value
    line["checks_failed"] = sum(check.verdict == "fail" for check in row.checks)
    return line | {f"crossings.{kind}": count for kind, count in row.crossings.items()}


def _toll_lines(name: str, bill: Bill) -> Iterator[Line]:
    for number, row in enumerate(bill.rows):
        for toll in row.tolls:
            line: Line = {"bill": name, "row": number, "name": toll.name, "cost_per_page": toll.cost_per_page}
            yield line | {"count_per_page": toll.count_per_page, "cost_each": toll.cost_each}


def options(command: str) -> dict[str, str]:
    """The options of a command line by their long names; one without a value is ``true``.

    ``pagetoll bill pin --folio 2M --profile`` gives ``{"folio": "2M", "profile": "true"}``.
    """
    found: dict[str, str] = {}
    option = None
    for word in _words(command):
        if word.startswith("--"):
            option, given, value = word[2:].partition("=")
            found[option] = value if given else "true"
            option = None if given else option
        elif option:
            found[option], option = word, None
    return found


def _words(command: str) -> list[str]:
    """As a shell splits it; where its quotes are not closed, at blanks."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _time(when: str | None) -> datetime | None:
    """None also where it is no time: nothing depends on it."""
    try:
        return None if when is None else datetime.fromisoformat(when.replace("Z", "+00:00"))
    except ValueError:
        return None


def _table(bills: Named, lines: Callable[[str, Bill], Iterator[Line]], least: list[str]) -> pyarrow.Table:
    """A table of all lines; it has the columns ``least`` also where there is no line."""
    try:
        import pyarrow
    except ImportError:
        raise PackageMissing("pyarrow", "arrow") from None
    pieces = [pyarrow.table({name: pyarrow.array([], _type(name)) for name in least})]
    bills = iter(bills)
    while some := list(islice(bills, AT_A_TIME)):
        pieces.append(_piece(line for name, bill in some for line in lines(name, bill)))
    return pyarrow.concat_tables(pieces, promote_options="permissive").unify_dictionaries()


def _piece(lines: Iterable[Line]) -> pyarrow.Table:
    """Columns, each filled up with nulls where a line does not have it: most lines have few of all columns."""
    import pyarrow

    columns: dict[str, list[Any]] = {}
    count = 0
    for line in lines:
        for name, value in line.items():
            column = columns.setdefault(name, [])
            column += [None] * (count - len(column))
            column.append(value)
        count += 1
    for column in columns.values():
        column += [None] * (count - len(column))
    return pyarrow.table({name: pyarrow.array(values, _type(name)) for name, values in columns.items()})


def _type(name: str) -> Any:
    """A column's type: of all pieces the same, whatever is absent in one of them."""
    import pyarrow

    if name == "when":
        return pyarrow.timestamp("s", tz="UTC")
    kind = str if name.startswith(("stack.", "option.")) else _KINDS.get(name, float)
    arrow = {int: pyarrow.int64(), bool: pyarrow.bool_(), _FLOATS: pyarrow.list_(pyarrow.float64())}
    arrow[str] = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return arrow.get(kind, pyarrow.float64())
