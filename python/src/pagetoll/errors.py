"""What can go wrong, apart from bad Python."""


class PagetollError(Exception):
    """Any error of this package."""


class BillError(PagetollError):
    """A file is not what it should be. Says which file, which field, what was found and what was expected."""


class ProgramMissing(PagetollError):
    """The program ``pagetoll`` was not found. Says how to install it."""


class ProgramFailed(PagetollError):
    """The program ended without a result.

    ``exit`` is its exit code: 2 bad usage or input, 3 the machine lacks something or a guest failed,
    128 + N after signal N. ``stderr`` is what it said.
    """

    def __init__(self, command: str, exit: int, stderr: str) -> None:  # noqa: A002 (the protocol's own name)
        self.command = command
        self.exit = exit
        self.stderr = stderr
        super().__init__(f"{command}: exit code {exit}: {stderr.strip() or 'nothing on stderr'}")


class PackageMissing(PagetollError, ImportError):
    """An optional package is not installed. Says how to install it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'pagetoll[{extra}]'")
