"""The whole road: raw videos with sound, in which people say what they do, to a report."""

import json
import shutil
import subprocess
import wave
from fractions import Fraction

import av
import numpy as np
import pytest

from objectstates import Result

RATE = 22050
SAID_AT = 4.0  # seconds; the deed comes two seconds after
SPOKEN = (
    "Hello my friends. Now we put the new wheel on the car.",
    "It is cold today. Put the new wheel on the car.",
    "Good morning. Then I put the new wheel on the hub of the car.",
    "Thank you for watching. My family went to the sea last summer.",
)


def say(sentence, folder):
    path = folder / "said.wav"
    subprocess.run(["espeak-ng", "-s", "140", "-w", str(path), sentence], check=True)
    with wave.open(str(path)) as file:
        assert file.getframerate() == RATE
        return np.frombuffer(file.readframes(file.getnframes()), np.int16)


def pictures(seed, seconds=24, fps=10):
    """A box on a noisy wall that is lifted after ten seconds, over two of them."""
    rng = np.random.default_rng(seed)
    wall = rng.integers(60, 120, (96, 128, 3), np.uint8)
    for i in range(seconds * fps):
        up = int(30 * np.clip(i / fps - 10, 0, 2) / 2)
        image = wall.copy()
        image[60 - up : 84 - up, 48:80] = (220, 60 + 5 * up, 40)
        yield image


def write_narrated(path, sound, seed):
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=10, options={"crf": "18"})
        video.width, video.height, video.pix_fmt = 128, 96, "yuv420p"
        audio = container.add_stream("aac", rate=RATE, layout="mono")
        for image in pictures(seed):
            container.mux(video.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(video.encode())
        silence = np.zeros(round(SAID_AT * RATE), np.int16)
        samples = np.concatenate([silence, sound, silence])
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), 0
        container.mux(audio.encode(frame))
        container.mux(audio.encode())


@pytest.fixture
def videos(tmp_path):
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not here: nothing is spoken aloud")
    pytest.importorskip("moonshine_voice", reason="the extra asr is not installed")
    folder = tmp_path / "videos"
    folder.mkdir()
    for seed, sentence in enumerate(SPOKEN):
        write_narrated(folder / f"video{seed}.mp4", say(sentence, tmp_path), seed)
    return folder


def test_from_raw_videos_with_sound_to_a_report(run, videos, tmp_path):
    code, out, _ = run("transcribe", videos, "--json")
    assert code == 0
    assert len(json.loads(out)["written"]) == len(SPOKEN)
    clips = tmp_path / "clips.csv"
    found = ("retrieve", videos, "--action", "put-wheel", "--top", "3", "--out", clips)
    assert run(*found)[0] == 0
    folder = tmp_path / "found"
    code, out, err = run(
        "discover", "--clips", clips, "--object", "wheel", "--detector", "motion",
        "--reject", "auto", "--processes", "1", "--out", folder, "--json",
    )  # fmt: skip
    assert code == 0, err
    result = Result.load(folder / "result")
    assert sorted(result.clips) == ["video0", "video1", "video2"]  # not the one about the sea
    middle = (result.action_span[:, 0] + result.action_span[:, 1]) / 2
    assert ((middle > 9) & (middle < 13)).sum() >= 2  # in seconds of the video
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(clip in page for clip in result.clips)
    assert json.loads(out)["set_aside"] == []  # too few clips to set one aside
