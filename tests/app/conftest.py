"""Tests of whole jobs share a cache of the backbone's graph with those of commands."""

from tests.cli.conftest import own_cache  # noqa: F401  (a fixture)
