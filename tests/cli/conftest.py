"""Fixtures of tests of commands."""

from __future__ import annotations

import pytest


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are opened in the browser of a pretended desktop."""
    addresses: list[str] = []

    def show(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", show)
    monkeypatch.setenv("DISPLAY", ":0")
    return addresses
