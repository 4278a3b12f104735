import numpy as np
import pytest

from objectstates.base.errors import TruthError
from objectstates.data.formats.changeit import read_changeit


def write(folder, text, category="apple", name="x-1"):
    path = folder / "annotations" / category / f"{name}.fps1.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_every_second_has_its_label(tmp_path):
    write(tmp_path, "0,1\n1,2\n2,2\n3,3\n")
    write(tmp_path, "0,0\n1,0\n", "ball", "y")
    for folder in (tmp_path, tmp_path / "annotations"):
        first, second = read_changeit(folder)
        assert (first.category, first.video) == ("apple", "x-1")
        np.testing.assert_array_equal(first.labels, [1, 2, 2, 3])
        assert (second.category, len(second.labels)) == ("ball", 2)


@pytest.mark.parametrize("text", ["0,1\n2,1\n", "0,4\n", "0\n", "a,b\n", ""])
def test_a_damaged_file_is_named(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises(TruthError, match=path.name):
        read_changeit(tmp_path)


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(TruthError, match="is it ChangeIt's folder"):
        read_changeit(tmp_path)
