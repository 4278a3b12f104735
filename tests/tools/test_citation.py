"""CITATION.cff has the form that GitHub and Zenodo read, and agrees with pyproject.toml."""

import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_required_fields_are_present(citation):
    assert citation["cff-version"] == "1.2.0"
    for entry in (citation, citation["preferred-citation"]):
        assert entry["title"]
        assert entry["authors"]
        for author in entry["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    assert isinstance(citation["message"], str)


def test_the_software_is_the_one_that_is_built(citation):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["title"] == project["name"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_the_paper_is_preferred(citation):
    paper = citation["preferred-citation"]
    assert paper["type"] == "conference-paper"
    assert paper["title"] == "Joint Discovery of Object States and Manipulation Actions"
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Alayrac", "Sivic", "Laptev", "Lacoste-Julien"]
    assert paper["year"] == 2017
