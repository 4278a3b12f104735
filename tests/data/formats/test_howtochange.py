import pytest

from objectstates.base.errors import TruthError
from objectstates.data.formats.howtochange import read_howtochange

HEADER = (
    "video_name,video_id,start_time,duration,initial_state,transitioning_state,end_state,osc,"
    "is_novel_osc\n"
)
ROW = (
    'v_st5.0_dur6.0,v,5.0,6.0,"[[0, 1.2], [2, 3]]","[[1.2, 2.0], [3, 4]]","[[4, 6]]",'
    "rolling_pasta,False\n"
)


def write(folder, *rows, header=HEADER):
    path = folder / "eval.csv"
    path.write_text(header + "".join(rows))
    return path


def test_intervals_and_their_seconds(tmp_path):
    (clip,) = read_howtochange(write(tmp_path, ROW))
    assert list(clip.first_state) == [(0, 1.2), (2, 3)]
    assert list(clip.action) == [(1.2, 2.0), (3, 4)]
    assert [clip.start, clip.duration, clip.novel] == [5, 6, False]
    seconds = clip.seconds()
    assert seconds.category == "rolling_pasta"
    assert seconds.labels.tolist() == [1, 2, 1, 2, 3, 3]


@pytest.mark.parametrize(
    "cell", ["\"__import__('os')\"", '"[[2, 1]]"', '"[1]"', "None", '"[[0, 1"', '"[[0, nan]]"']
)
def test_a_bad_interval_is_named_and_never_run(tmp_path, cell):
    path = write(tmp_path, ROW, ROW.replace('"[[4, 6]]"', cell))
    with pytest.raises(TruthError, match="line 3"):
        read_howtochange(path)


def test_another_file_is_refused(tmp_path):
    with pytest.raises(TruthError, match="lacks the columns"):
        read_howtochange(write(tmp_path, header="a,b\n"))
    with pytest.raises(TruthError, match="nowhere"):
        read_howtochange(tmp_path / "nowhere")


@pytest.mark.reference
def test_the_published_list_reads_whole(shared):
    clips = read_howtochange(shared / "data" / "howtochange" / "howtochange_eval.csv")
    assert len(clips) == 5423
    assert sum(clip.novel for clip in clips) == 701
    assert len({clip.category for clip in clips}) == 409
    assert all(len(clip.seconds().labels) for clip in clips)
