"""Whether torchvision can be imported, which a wheel that does not match torch cannot."""

from __future__ import annotations

import pytest


def reason() -> str | None:
    """Why it cannot be imported; None if it can."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError, OSError) as problem:
        return f"torchvision does not import here: {problem}"
    return None


needed = pytest.mark.skipif(reason() is not None, reason=reason() or "")
missing = pytest.mark.skipif(reason() is None, reason="torchvision is installed here")
