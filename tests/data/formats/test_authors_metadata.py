"""The authors' metadata: what is read from it, and what is refused."""

import numpy as np
import pytest
from scipy.io import savemat

from objectstates.base.errors import CorpusError
from objectstates.data.formats.authors_metadata import read_metadata
from tests.data.formats.test_authors import cell, save_hdf5
from tests.release import Piece, ReleaseClip, metadata_of

BOX = (10.0, 20.0, 40.0, 60.0)  # x1, y1, x2, y2


def piece(first, count, label, box=None):
    frames = list(range(first, first + count))
    return Piece(frames, label, np.zeros(1), [] if box is None else [box] * count)


@pytest.fixture
def clips():
    """Two clips with rates of 25 and 12.5 frames per second; the second begins at frame 101."""
    return [
        ReleaseClip("open_oyster_0002", 25.0, [piece(1, 25, 1, BOX), piece(10, 20, 0, BOX)],
                    [piece(1, 10, 0), piece(11, 10, 1)]),
        ReleaseClip("open_oyster_0031", 12.5, [piece(101, 12, 3, BOX), piece(113, 12, 2, BOX)],
                    [piece(101, 5, 1), piece(106, 5, 0)]),
    ]  # fmt: skip


def as_codes(mat):
    """Strings as MATLAB 7.3 has them: columns of the codes of their characters."""
    codes = [np.array([[ord(c) for c in name]], np.uint16) for name in mat["clipids_state"].ravel()]
    return {**mat, "clipids_state": cell(codes)}


@pytest.mark.parametrize("form", ["5", "7.3", "struct"])
def test_metadata_are_read(tmp_path, clips, form):
    path, mat = tmp_path / "open_oyster.mat", metadata_of(clips)
    if form == "7.3":
        save_hdf5(path, as_codes(mat))
    else:
        savemat(path, {"meta_data": mat} if form == "struct" else mat)
    found = read_metadata(path)
    assert found.clips == ("open_oyster_0002", "open_oyster_0031")
    assert found.rates.tolist() == [25.0, 12.5]
    assert found.tracklet_label.tolist() == [1, 0, -2, 2], "3 is ambiguous"
    assert found.chunk_label.tolist() == [0, 1, 1, 0]
    assert [found.tracklet_rows(1), found.chunk_rows(0)] == [range(2, 4), range(2)]
    assert found.boxes[2].tolist() == [list(BOX)] * 12, "from x1, x2, y1, y2"
    assert found.tracklet_frames[3].tolist() == list(range(113, 125))
    assert found.chunk_frames[1].tolist() == list(range(11, 21))
    assert found.tracklet_time[0] == pytest.approx(13 / 25)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FRAMES_state", None, "lacks FRAMES_state: is it the metadata"),
        ("clips", np.array([[3.0, 2]]), "T_state has 4 entries, not 5"),
        ("clips", np.array([[2.0]]), "clips has 1 entries, not 2"),
        ("state_GT", np.array([[1.0, 0, 4, 2]]), "state_GT must be 0 .false positive."),
        ("action_GT", np.array([[0.0, 2, 1, 0]]), "action_GT must be 0 or 1"),
        ("vids_state", np.array([[2.0, 31, 31, 31]]), "vids_state does not follow the 2 clips"),
        ("vids_action", np.array([[2.0, 31, 2, 31]]), "vids_action does not follow"),
        ("T_state", np.array([[0.5, np.nan, 1, 2]]), "T_state has values that are not finite"),
        ("T_state", np.array([[0.5, 9.0, 8.5, 9.5]]), "disagree about the frame rate"),
        ("clipids_state", cell(["a_1", "a_1"]), "different names"),
        ("clipids_state", cell(["a_1", "b"]), "'b' does not end in a number"),
        ("BOXES_state", cell([np.ones((1, 4))] * 4), "entry 1: there must be four numbers"),
        ("FRAMES_state", cell([np.ones((1, 2))] * 4), "entry 1: these are no increasing"),
        ("FRAMES_action", cell([np.ones((1, 1))] * 3), "a cell of 4 entries"),
    ],
)  # fmt: skip
def test_wrong_metadata_are_named_with_what_is_wrong(tmp_path, clips, name, value, message):
    mat = metadata_of(clips)
    mat.pop(name) if value is None else mat.update({name: value})
    path = tmp_path / "wrong.mat"
    savemat(path, mat)
    with pytest.raises(CorpusError, match=message) as caught:
        read_metadata(path)
    assert "wrong.mat" in str(caught.value)


def test_boxes_that_are_corners_are_refused(tmp_path, clips):
    """x1, y1, x2, y2 by mistake: y1 is above x2 in some."""
    mat = metadata_of(clips)
    mat["BOXES_state"][0, 0] = np.tile([60.0, 20, 70, 80], (25, 1))
    savemat(tmp_path / "x.mat", mat)
    with pytest.raises(CorpusError, match="boxes must be x1, x2, y1, y2"):
        read_metadata(tmp_path / "x.mat")
