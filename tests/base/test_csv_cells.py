import pytest

from objectstates.base.csv_cells import FORMULA, escaped, unescaped


@pytest.mark.parametrize("text", ["", "drawer", "a=b", "'", "''x", *(f"{x}1" for x in FORMULA)])
def test_no_cell_is_a_formula_and_the_text_comes_back(text):
    assert not escaped(text).startswith(tuple(set(FORMULA) - {"'"}))
    assert unescaped(escaped(text)) == text
