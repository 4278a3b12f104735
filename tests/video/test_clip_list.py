from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from objectstates.base.errors import VideoError
from objectstates.video.clip_list import ClipSpan, find_clips


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def names(clips: list[ClipSpan], folder: Path) -> list[str]:
    return [clip.video.relative_to(folder).as_posix() for clip in clips]


def test_a_folder_is_searched_to_its_depth_in_order_of_name(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.MOV", "a.mp4", "b/1.mkv", "c/d/e.webm", "notes.txt", "b/1.json")
    clips = find_clips([tmp_path])
    assert names(clips, tmp_path) == ["a.mp4", "b/1.mkv", "b/2.MOV", "c/d/e.webm"]
    assert [clip.id for clip in clips] == ["a", "1", "2", "e"]
    assert all((clip.start, clip.end) == (None, None) for clip in clips)


def test_hidden_files_and_loops_of_links_are_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "._a.mp4", ".cache/b.mp4", "sub/c.mp4")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    assert names(find_clips([tmp_path]), tmp_path) == ["a.mp4", "sub/c.mp4"]


def test_a_folder_of_numbered_images_is_one_video(tmp_path: Path) -> None:
    touch(tmp_path, "v.1/000001.jpg", "v.1/000002.jpg", "b/f_1.png", "b/f_2.png", "b/cover.png")
    touch(tmp_path, "photos/beach.jpg", "photos/2019.jpg", "mixed/1.jpg", "mixed/2.jpg")
    touch(tmp_path, "mixed/real.mp4")
    clips = find_clips([tmp_path])
    assert names(clips, tmp_path) == ["b", "mixed/real.mp4", "v.1"]
    assert [clip.id for clip in clips] == ["b", "real", "v.1"]
    assert find_clips([tmp_path / "v.1"]) == [ClipSpan("v.1", tmp_path / "v.1")]


def test_files_keep_the_order_given_and_need_no_known_ending(tmp_path: Path) -> None:
    touch(tmp_path, "z.mp4", "a.dat")
    paths: list[str | Path] = [tmp_path / "z.mp4", str(tmp_path / "a.dat")]
    assert names(find_clips(paths), tmp_path) == ["z.mp4", "a.dat"]


def test_a_video_named_twice_is_one_clip(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "b.mp4")
    clips = find_clips([tmp_path / "b.mp4", tmp_path, tmp_path / "." / "a.mp4"])
    assert [clip.id for clip in clips] == ["b", "a"]


def test_ids_are_unique_and_tell_the_videos_apart(tmp_path: Path) -> None:
    touch(tmp_path, "door/1.mp4", "drawer/1.mp4", "x/y/1.mp4", "z/y/1.mp4", "door/2.mp4", "q.mp4")
    touch(tmp_path, "q.mov")
    clips = find_clips([tmp_path])
    ids = {path: clip.id for path, clip in zip(names(clips, tmp_path), clips, strict=True)}
    assert ids["door/1.mp4"] == "door_1"
    assert ids["drawer/1.mp4"] == "drawer_1"
    assert ids["door/2.mp4"] == "2"
    assert (ids["x/y/1.mp4"], ids["z/y/1.mp4"]) == ("y_1", "y_1-2")
    assert len(set(ids.values())) == len(ids)
    assert find_clips([tmp_path]) == clips


@pytest.mark.parametrize("name", ["no.mp4", "no", "no.csv"])
def test_what_does_not_exist_is_an_error_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(VideoError, match=f"{name}: this does not exist"):
        find_clips([tmp_path / name])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_a_name_that_is_no_text_has_an_id_that_can_be_printed(tmp_path: Path) -> None:
    names = [os.fsdecode(name) for name in (b"caf\xe9.mp4", b"\xffx/caf\xe9.mp4")]
    touch(tmp_path, *names)
    found = find_clips([tmp_path])
    assert sorted(span.id for span in found) == ["%FFx_caf%E9", f"{tmp_path.name}_caf%E9"]
    assert {span.video for span in found} == {tmp_path / name for name in names}
    listed = tmp_path / "list.csv"
    listed.write_text("video\ncaf%E9.mp4\n")  # as `retrieve` writes it
    assert find_clips([listed])[0].video == tmp_path / names[0]


def test_a_folder_without_videos_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "notes.txt")
    with pytest.raises(VideoError, match=r"no videos.*\.mp4"):
        find_clips([tmp_path])


def test_a_list_gives_spans_of_videos_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "clips.csv"
    path.write_text(
        "\ufeffvideo,start,end,id\r\n"
        "été 1.mp4,1.5,20,\r\n"
        "\r\n"
        '"a, b.mp4",,,second\r\n'
        "été 1.mp4, 30 ,40.25\r\n"
        "/data/c.mp4,5\r\n",
        encoding="utf-8",
    )
    expected = [
        ClipSpan("été 1", tmp_path / "été 1.mp4", 1.5, 20.0),
        ClipSpan("second", tmp_path / "a, b.mp4"),
        ClipSpan("été 1-2", tmp_path / "été 1.mp4", 30.0, 40.25),
        ClipSpan("c", Path("/data/c.mp4"), 5.0),
    ]
    assert find_clips([], csv=path) == expected
    assert find_clips([path]) == expected


def test_a_list_and_videos_can_be_given_together(tmp_path: Path) -> None:
    touch(tmp_path, "v/a.mp4")
    (tmp_path / "clips.csv").write_text("id,video\na,other.mp4\n")
    clips = find_clips([tmp_path / "v"], csv=tmp_path / "clips.csv")
    assert [clip.id for clip in clips] == ["a-2", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the header must be video,start,end,id"),
        ("a.mp4,1,2\n", "line 1: the header must be video,start,end,id"),
        ("video;start;end\na.mp4;1;2\n", "line 1: the header must be"),
        ("video,strat\na.mp4,1\n", "line 1: the header must be .* not 'video,strat'"),
        ("video,start\n", "this lists no clips"),
        ("video,start\na.mp4,1\n\nb.mp4,0:30\n", "line 4: start is '0:30', not a number of sec"),
        ("video,start\na.mp4,-1\n", "line 2: start is '-1'"),
        ("video,end\na.mp4,nan\n", "line 2: end is 'nan'"),
        ("video,start,end\na.mp4,5,5\n", "line 2: the span from 5 to 5 s is empty"),
        ("video,start\n,1\n", "line 2: the video is missing"),
        ("video,id\na, b.mp4,x\n", "line 2: 3 cells under 2 columns .*quotes"),
        ("video,id\na.mp4,x\nb.mp4,y\nc.mp4,x\n", "line 4: the id 'x' is already used in line 2"),
        ('video,id\n"a.mp4"b,x\n', "line 2: .*correct this line"),
        ("video,id\na.mp4,x\n\xff\xfe.mp4,y\n", "line 3: not in UTF-8"),
    ],
)
def test_a_bad_line_gives_an_error_with_file_and_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "my clips.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(VideoError, match=f"my clips.csv(, |: ){message}"):
        find_clips([], csv=path)


def test_two_lists_may_not_give_one_id_twice(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("video,id\nv.mp4,x\n")
    with pytest.raises(VideoError, match="the id 'x' is given to two clips"):
        find_clips([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_the_score_of_a_clip_is_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4")
    (tmp_path / "list.csv").write_text("video,start,end,id,score\na.mp4,1,2,x,0.5\n")
    assert find_clips(csv=tmp_path / "list.csv") == [ClipSpan("x", tmp_path / "a.mp4", 1.0, 2.0)]
