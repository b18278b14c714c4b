"""The pytest plugin: the fixture ``assert_no_regression``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagetoll.comparison import Diff


@pytest.fixture(name="assert_no_regression", scope="session")
def _assert_no_regression() -> Callable[..., Diff]:
    """``assert_no_regression(base, new, tolerance=0.5)``: fails where a page costs more than in the base's bill."""
    from pagetoll.testing import assert_no_regression

    return assert_no_regression
