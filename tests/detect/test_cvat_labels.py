from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from objectstates.base.errors import LabelError
from objectstates.detect.cvat_labels import PER_VIDEO
from objectstates.detect.labels import read_labels
from tests.detect.pictures import labelled_folder
from tests.video.videos import gray, write_video

VIDEO = """<annotations><version>1.1</version><meta><task><source>v.mp4</source>
<labels><label><name>cup</name></label><label><name>plate</name></label></labels>
<stop_frame>{stop}</stop_frame></task></meta>
<track id="0" label="cup"><box frame="0" outside="0" xtl="4" ytl="4" xbr="24" ybr="24"/>
<box frame="20" outside="0" xtl="14" ytl="4" xbr="34" ybr="24"/>
<box frame="30" outside="1" xtl="14" ytl="4" xbr="34" ybr="24"/></track>
<track id="1" label="plate"><box frame="0" outside="0" xtl="1" ytl="1" xbr="9" ybr="9"/></track>
</annotations>"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_boxes_of_a_video_are_interpolated_and_spread_over_time(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(50))
    found = read_labels(write(tmp_path / "v.xml", VIDEO.format(stop=49)), "cup")
    assert [image.time for image in found.images] == [0.0, 0.52, 1.04]
    boxes = [image.boxes.tolist() for image in found.images]
    assert boxes == [[[4, 4, 24, 24]], [[10.5, 4, 30.5, 24]], [[14, 4, 34, 24]]]
    shown = [round(float(pixels.mean()) / 5) for _, pixels in found.load()]
    assert shown == [0, 13, 26]
    assert found.counts == {"boxes": 3, "images": 3, "videos": 1, "image_files": 0}


def test_a_long_video_gives_a_bounded_number_of_images(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(50), fps=1)
    text = VIDEO.format(stop=49).replace('frame="30" outside="1"', 'frame="49" outside="0"')
    many = read_labels(write(tmp_path / "v.xml", text), "cup")
    assert len(many.images) == 50 < PER_VIDEO


def test_videos_may_lie_elsewhere(tmp_path: Path):
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films" / "v.mp4", gray(50))
    path = write(tmp_path / "v.xml", VIDEO.format(stop=49))
    with pytest.raises(LabelError, match=r"v\.mp4.*`media`"):
        read_labels(path, "cup")
    assert len(read_labels(path, "cup", media=tmp_path / "films").images) == 3
    assert len(read_labels(tmp_path, "cup", media=tmp_path / "films").images) == 3


def test_boxes_and_polygons_of_images(tmp_path: Path):
    labelled_folder(tmp_path, 2, seed=0)
    (tmp_path / "labels.json").unlink()
    path = write(
        tmp_path / "a.xml",
        '<annotations><image id="0" name="0.png" width="160" height="120">'
        '<box label="cup" xtl="1" ytl="2" xbr="30" ybr="40"/></image>'
        '<image id="1" name="sub/1.png" width="160" height="120">'
        '<polygon label="cup" points="5,6;50,6;20,60"/></image></annotations>',
    )
    found = read_labels(path)
    assert [image.boxes.tolist() for image in found.images] == [[[1, 2, 30, 40]], [[5, 6, 50, 60]]]
    assert [pixels.shape for _, pixels in found.load()] == [(120, 160, 3)] * 2
    np.testing.assert_array_equal(found.images[0].declared, (160, 120))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotations/>', "document type"),
        ("<annotations><", r"not XML.*line 1"),
        ("<svg/>", "<svg> where CVAT has <annotations>"),
        ('<annotations><image name="x.png"/></annotations>', "'width' is missing"),
        (
            '<annotations><image name="../../etc/passwd" width="1" height="1"/></annotations>',
            "passwd, which is in none of",
        ),
        (VIDEO.format(stop=49).replace('xbr="24"', 'xbr="nan"'), "finite"),
        (VIDEO.format(stop=49).replace('xbr="24"', 'xbr="4"'), "covers nothing"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_file(tmp_path: Path, text: str, message: str):
    write_video(tmp_path / "v.mp4", gray(50))
    with pytest.raises(LabelError, match=message) as caught:
        read_labels(write(tmp_path / "a.xml", text), "cup")
    assert str(caught.value).startswith(str(tmp_path / "a.xml"))
