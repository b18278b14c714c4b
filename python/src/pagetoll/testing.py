"""An assertion for tests of what a page costs."""

from __future__ import annotations

from pagetoll.commands import Source, diff
from pagetoll.comparison import Diff


def assert_no_regression(base: Source, new: Source, tolerance: float = 0.5, *, allow_missing: bool = False) -> Diff:
    """Fails where ``pagetoll diff`` would fail a gate: see ``docs/ci.md``.

    ``base`` and ``new`` are bills or files of one route, ``tolerance`` is in per cent, for exact counts. The message
    has the verdict, each finding, and the rows and tolls that moved. Returns the comparison. Raises
    ``AssertionError``, and what ``diff`` raises for bills that cannot be compared.
    """
    __tracebackhide__ = True
    found = diff(base, new, tolerance, allow_missing=allow_missing)
    if found.findings:
        raise AssertionError(found.report())
    return found
