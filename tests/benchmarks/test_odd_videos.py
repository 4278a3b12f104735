import sys

import pytest

from benchmarks import odd_videos
from objectstates.video.reader import probe


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('n 7')", "7 frames"),
        ("print('n 1'); print('odd', file=sys.stderr)", "1 frame, 1 line of warnings"),
        ("sys.exit('no video')", "refused in 1 line"),
        ("1 / 0", "**traceback**: ZeroDivisionError: division by zero"),
        ("os.kill(os.getpid(), 11)", "**dies of signal 11**"),
        ("time.sleep(60)", "**hangs** (over 1 s)"),
    ],
)
def test_what_a_tool_did_is_told_from_its_end(code, said, monkeypatch):
    monkeypatch.setattr(odd_videos, "SECONDS", 1 if "sleep" in code else 60)
    command = [sys.executable, "-c", f"import os, sys, time; {code}"]
    assert odd_videos.outcome(command, lambda text: text.split()[1]) == said


def test_the_videos_are_as_odd_as_their_names(tmp_path):
    turned = odd_videos.write(tmp_path / "turned.mp4")
    odd_videos.rotate(turned)
    assert probe(turned).rotation == 90
    gap = odd_videos.write(tmp_path / "gap.mp4", times=odd_videos.gap_of(60))
    assert probe(gap).duration == pytest.approx(62, abs=0.1)
    assert odd_videos.write(tmp_path / "none.mkv", count=0).stat().st_size > 0
