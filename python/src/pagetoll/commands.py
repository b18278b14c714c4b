"""Bills, comparisons and sweeps, made by the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pagetoll import bills, program
from pagetoll.bills import Bill
from pagetoll.comparison import Diff
from pagetoll.files import Bills, read, read_diff, read_record

MISSING = ("row-missing", "figures-missing")
"""Findings that ``pagetoll diff --allow-missing`` accepts: its JSON lists them all the same."""

Source = Bill | str | PathLike[str]


def bill(route: str, **options: Any) -> Bill:
    """Bills a route: ``bill("pin", on="sim", folio=["2M", "1G"], what_if="...", profile=True)``.

    Options are those of ``pagetoll bill ROUTE --help``, with ``_`` for ``-``. A list becomes values with commas between
    them, True an option without a value; None and False leave the option out. A bill with a failed check is returned
    all the same: see ``Bill.failed_checks``. Raises ``ProgramFailed`` and ``ProgramMissing``.
    """
    arguments = ["bill", route, *arguments_of(options), "--format", "json"]
    output = program.run(arguments).unless(0, 1)
    if not output.stdout:
        output.unless(0)
    return read_record(output.stdout, output.command, Bill, bills.SCHEMA)


def diff(old: Source, new: Source, tolerance: float = 0.5, *, allow_missing: bool = False) -> Diff:
    """Compares two bills of a route, given as bills or files; ``tolerance`` is in per cent, for exact counts.

    With ``allow_missing``, rows and figures that only the old bill has are no findings. What regressed is a result, no
    error. Raises ``ProgramFailed`` for bills that cannot be compared.
    """
    with ExitStack() as held:
        paths = [held.enter_context(_file(source)) for source in (old, new)]
        output = program.run(["diff", "--format", "json", "--tolerance", str(tolerance), "--", *paths])
    found = read_diff(output.unless(0, 1).stdout, output.command)
    if not allow_missing:
        return found
    return replace(found, findings=tuple(finding for finding in found.findings if finding.kind not in MISSING))


def sweep(
    plan: str | PathLike[str],
    store: str | PathLike[str],
    on: Literal["local", "ray"] = "local",
    address: str | None = None,
    **options: Any,
) -> Bills:
    """Runs the jobs of a plan that are not in the store yet, here or on a Ray cluster, and reads the store.

    Further options are those of ``pagetoll sweep --help``, such as ``jobs=2`` and ``retries=0``. Progress goes to
    stderr. Jobs that failed are in ``Bills.failures``. Raises ``ProgramFailed`` where the sweep itself failed.
    """
    given = arguments_of({"store": store, "on": on, "address": address, **options})
    program.run(["sweep", fspath(plan), *given], shows_progress=True).unless(0, 1)
    found = read(store)
    assert isinstance(found, Bills), "a store is a folder"
    return found


def arguments_of(options: dict[str, Any]) -> list[str]:
    """The command line of options: see ``bill``."""
    return [word for name, value in options.items() for word in _argument("--" + name.replace("_", "-"), value)]


def _argument(option: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(str(item) for item in value)
    return [f"{option}={fspath(value) if isinstance(value, PathLike) else value}"]


@contextmanager
def _file(source: Source) -> Iterator[str]:
    """The path of a bill; one that is held is written to a file for as long."""
    if not isinstance(source, Bill):
        yield fspath(source)
        return
    with TemporaryDirectory(prefix="pagetoll-") as folder:
        path = Path(folder, "bill.json")
        path.write_text(source.dumps(), encoding="utf-8")
        yield str(path)
