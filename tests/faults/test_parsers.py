"""A short selection of the mutations, and random content for every parser.

The long one is ``python -m tests.faults.parsers``.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from objectstates.base.errors import ObjectStatesError
from tests.faults.parser_table import Parser, all_parsers
from tests.faults.parsers import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")

SLOW = ("mat", "mat 7.3", "mat 7.3 structs", "npz few-shot", "onnx", "labels cvat video")


def parsers() -> list[Parser]:
    return [parser for parser in all_parsers() if parser.name not in SLOW]


def test_mutated_files_are_read_or_refused_in_a_line(capsys):
    found = run(cases=400, seed=7)
    capsys.readouterr()
    assert [what for counts in found.values() for what in counts.failures] == []
    assert all(counts.outcomes["refused"] for counts in found.values() if len(counts.failures) > 5)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_any_content_is_read_or_refused(tmp_path_factory, data):
    parser = data.draw(st.sampled_from(_TEXT), label="parser")
    folder = _folder(tmp_path_factory, parser)
    name = data.draw(st.sampled_from(parser.files), label="file")
    text = st.text(alphabet=_SIGNS, max_size=200).map(str.encode)
    content = data.draw(st.one_of(st.binary(max_size=200), text), label="content")
    original = (folder / name).read_bytes()
    message = str(folder)
    try:
        (folder / name).write_bytes(content)
        parser.read(folder)
    except ObjectStatesError as problem:
        message = str(problem)
    finally:
        (folder / name).write_bytes(original)
    assert str(folder) in message or name.split("/")[-1] in message


_TEXT = [parser for parser in parsers() if "checksums" not in parser.name and parser.share >= 1]
_SIGNS = "abc019 .,:;-+eE<>[]{}\"'\\/\n\t\r\0#&=é\u2028"
_FOLDERS: dict[str, Path] = {}


def _folder(factory, parser):
    """The valid files of a parser, written once."""
    if parser.name not in _FOLDERS:
        _FOLDERS[parser.name] = factory.mktemp("valid")
        parser.prepare(_FOLDERS[parser.name])
    return _FOLDERS[parser.name]
