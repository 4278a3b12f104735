from __future__ import annotations

import pytest

from objectstates.base.safe_xml import parse_xml


def test_entities_are_never_declared():
    bomb = '<!DOCTYPE a [<!ENTITY x "yy"><!ENTITY z "&x;&x;">]><a>&z;</a>'
    with pytest.raises(ValueError, match="document type is refused"):
        parse_xml(bomb)
    with pytest.raises(ValueError, match=r"not XML \(undefined entity"):
        parse_xml("<a>&z;</a>")
    assert parse_xml("<a>&lt;</a>").text == "<"
