import json
import zlib
from typing import Any

import pytest

from objectstates.base.checksums import (
    check_file,
    checked_header,
    file_checksum,
    with_checksums,
)
from objectstates.base.errors import CorpusError


def test_a_checksum_is_of_the_spans_asked_for(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    assert file_checksum(path) == f"{zlib.crc32(b'0123456789'):08x}"
    assert file_checksum(path, [(0, 2), (8, 10)]) == f"{zlib.crc32(b'0189'):08x}"


def test_a_changed_or_missing_file_is_named(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"content")
    expected = file_checksum(path)
    check_file(path, expected, CorpusError)
    check_file(path, None, CorpusError)  # not known
    path.write_bytes(b"c0ntent")
    with pytest.raises(CorpusError, match=r"table is damaged \(its checksum is wrong\)"):
        check_file(path, expected, CorpusError)
    path.unlink()
    with pytest.raises(CorpusError, match="table is missing"):
        check_file(path, expected, CorpusError)


def test_any_changed_value_of_a_header_is_noticed(tmp_path):
    facts: dict[Any, Any] = {"a": 0.1, "b": {"c": [1, None, "é"]}, 3: True}
    header = {"format_version": 2, **with_checksums(2, facts, {"t": "00"}, CorpusError)}
    stored = json.loads(json.dumps(header))
    rest, files = checked_header(tmp_path / "h.json", stored, CorpusError)
    assert files == {"t": "00"}
    assert rest == {"format_version": 2, "a": 0.1, "b": {"c": [1, None, "é"]}, "3": True}
    for damaged in (
        {**stored, "a": 0.2},
        {**stored, "new": 1},
        {**stored, "checksums": {**stored["checksums"], "t": "01"}},
        {**stored, "checksums": {"t": "00"}},
        {**stored, "checksums": 3},
    ):
        with pytest.raises(CorpusError, match=r"h\.json is damaged"):
            checked_header(tmp_path / "h.json", damaged, CorpusError)
    del stored["checksums"]  # as other programs write it
    assert checked_header(tmp_path / "h.json", stored, CorpusError) == (stored, {})


def test_a_header_that_is_no_json_is_refused():
    with pytest.raises(CorpusError, match="plain JSON only"):
        with_checksums(1, {"a": object()}, {}, CorpusError)
