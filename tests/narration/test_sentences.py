import pytest

from objectstates.base.errors import NarrationError
from objectstates.narration.sentences import Sentences, load_action, read_sentences


def test_own_sentences_from_files_and_articles(tmp_path):
    (tmp_path / "one.txt").write_text("# mine\nOpen the jar.\n\ntwist the lid off\n")
    assert read_sentences(tmp_path / "one.txt") == ["Open the jar.", "twist the lid off"]
    folder = tmp_path / "articles" / "jars"
    folder.mkdir(parents=True)
    (folder / "how.md").write_text("# How to\n1. Hold the jar. Twist the lid!\n- Enjoy it\n---\n")
    assert read_sentences(folder.parent) == ["Hold the jar.", "Twist the lid!", "Enjoy it"]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(NarrationError, match="open-oyster"):
        load_action("fly a kite")
    with pytest.raises(NarrationError, match=r"nothing\.txt"):
        read_sentences(tmp_path / "nothing.txt")
    (tmp_path / "blank.txt").write_text("\n...\n")
    with pytest.raises(NarrationError, match="no sentences"):
        read_sentences(tmp_path / "blank.txt")
    with pytest.raises(NarrationError, match="positive"):
        Sentences((), ("a",))
