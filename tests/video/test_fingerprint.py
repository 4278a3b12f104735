import os
import shutil

from objectstates.video.fingerprint import about_replaced, fingerprints, replaced_videos


def test_a_replaced_video_is_noticed_and_a_copy_is_the_same(tmp_path):
    """By the content: dates do not matter, nor does the place of a change."""
    first, second, folder = (tmp_path / name for name in ("a.mp4", "b.mp4", "images"))
    first.write_bytes(bytes(300_000))
    second.write_bytes(b"x")
    folder.mkdir()
    (folder / "1.png").write_bytes(b"1")
    videos = [str(path) for path in (first, second, folder)]
    recorded = fingerprints(videos)
    os.utime(first, (0, 0))
    shutil.copy(first, tmp_path / "copy.mp4")
    assert replaced_videos(recorded, [*videos, None]) == []
    assert replaced_videos(recorded, videos[:1], lambda _: tmp_path / "copy.mp4") == []
    for place in (0, 160_000, 299_999):  # of the same size
        first.write_bytes(bytes(place) + b"x" + bytes(299_999 - place))
        assert replaced_videos(recorded, videos) == [videos[0]]
    (folder / "2.png").write_bytes(b"2")
    assert replaced_videos(recorded, videos) == [videos[0], videos[2]]
    first.unlink()  # missing is not replaced
    os.mkfifo(second.with_name("pipe"))
    os.replace(second.with_name("pipe"), second)  # nor is it waited for
    assert replaced_videos(recorded, videos) == [videos[2]]
    assert replaced_videos(None, videos) == [], "an older corpus has no fingerprints"


def test_a_sentence_names_some_of_many():
    assert about_replaced([]) == []
    (line,) = about_replaced(list("abcde"))
    assert line.startswith("5 videos were replaced after being read: a, b, c and 2 more.")
