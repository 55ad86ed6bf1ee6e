"""What is said of things that break their contract."""

from __future__ import annotations

import pytest


def told(broken, claim, *, kind):
    """Expect that a check names the thing, and the claim that does not hold."""
    return pytest.raises(
        AssertionError, match=f"(?s)the {kind} {broken.__name__} breaks its contract:.*{claim}"
    )
