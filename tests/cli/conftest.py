"""What tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """The graph of the backbone is shared by all tests, and with those of ingest."""
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path_factory.getbasetemp() / "graphs"))


def shown_pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that will be opened in the browser of a pretended desktop."""
    shown: list[str] = []

    def show(address: str) -> bool:
        shown.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", show)
    monkeypatch.setenv("DISPLAY", ":0")
    return shown
