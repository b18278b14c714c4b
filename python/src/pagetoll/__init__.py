"""Reads, compares and sweeps the bills of pagetoll: what each page of memory costs a virtual machine.

``read`` gives a ``Bill``, or the ``Bills`` of a folder or store; ``bill``, ``diff`` and ``sweep`` run the program.
No bill is computed here: that is the program's work.
"""

from pagetoll.bills import Bill, Check, Provenance, Row, RowKey, Toll
from pagetoll.commands import bill, diff, sweep
from pagetoll.comparison import Change, Diff, Finding
from pagetoll.errors import BillError, PackageMissing, PagetollError, ProgramFailed, ProgramMissing
from pagetoll.files import Bills, CorruptBill, Failure, read
from pagetoll.testing import assert_no_regression

__all__ = [
    "Bill",
    "BillError",
    "Bills",
    "Change",
    "Check",
    "CorruptBill",
    "Diff",
    "Failure",
    "Finding",
    "PackageMissing",
    "PagetollError",
    "ProgramFailed",
    "ProgramMissing",
    "Provenance",
    "Row",
    "RowKey",
    "Toll",
    "assert_no_regression",
    "bill",
    "diff",
    "read",
    "sweep",
]
