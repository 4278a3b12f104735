"""Docstrings become Markdown."""

from tools.site_docstrings import to_markdown


def test_parameters_become_a_list():
    text = to_markdown("Cut.\n\nParameters\n----------\na, b : lengths,\n    in s.\nc : count.")
    assert text == "Cut.\n\n**Parameters**\n\n- `a`, `b`: lengths,\n    in s.\n- `c`: count."


def test_examples_become_code():
    text = to_markdown("Add.\n\n>>> 1 + 1\n2\n\nMore.")
    assert text == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."


def test_references_become_names():
    assert to_markdown("See :meth:`~objectstates.a.B.fit` and :class:`C`.") == "See `fit` and `C`."
