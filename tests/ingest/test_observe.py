import numpy as np
import pytest

from objectstates.detect.file_boxes import BoxesDetector
from objectstates.features import torch_backbones
from objectstates.features.lite0 import Lite0
from objectstates.features.torch_backbones import TorchBackbone
from objectstates.ingest.observe import DetectionLog, ObserveSettings, _Eyes, observe
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe
from tests.ingest.test_pipeline import BOX, FPS, scene
from tests.video.test_reader import write_video


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip")
    path = write_video(folder / "a.mp4", scene(3), fps=FPS, options={"crf": "18"})
    x1, y1, x2, y2 = BOX
    rows = [f"{i + 1},1,{x1},{y1},{x2 - x1},{y2 - y1},0.8" for i in range(60)]
    (folder / "a.csv").write_text("\n".join(rows) + "\n")
    span = ClipSpan("a", path)
    return span, BoxesDetector(folder / "a.csv").for_clip(span, probe(path))


@pytest.fixture(scope="module")
def look(clip):
    backbone = Lite0()

    def call(settings=None, span=clip[0], **options):
        return observe(span, clip[1], backbone, settings or ObserveSettings(), **options)

    return call


def assert_same(one, two):
    for name, value in one.arrays().items():
        np.testing.assert_array_equal(value, getattr(two, name), err_msg=name)


def test_batches_change_nothing(look):
    assert_same(look()[0], look(ObserveSettings(batch=7))[0])


def test_maps_that_wait_on_a_device_give_the_same(clip, monkeypatch):
    """In batches of any size, and whether or not there is room for the maps on the device."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    torch.manual_seed(0)
    network = torch.nn.Conv2d(3, 8, 16, 16)
    backbone = TorchBackbone(network, network, name="tiny", stride=16, channels=8)

    def seen(batch, room):
        monkeypatch.setattr(torch_backbones, "KEPT_BYTES", room)
        return observe(*clip, backbone, ObserveSettings(words=True, batch=batch))[0]

    one = seen(1, 1 << 30)
    assert one.tracklet_feature.shape[1] == 4 * 8
    assert len(one.tracklet_feature) > 3
    cells_of_a_look = 2 * 8 * (one.conv.shape[0] // 30)
    for other in (seen(7, 1 << 30), seen(1, 0), seen(1, 10 * cells_of_a_look)):
        for name, value in one.arrays().items():
            if name != "problems":
                np.testing.assert_allclose(getattr(other, name), value, atol=1e-3, err_msg=name)


def test_kept_detections_spare_the_detector_and_change_nothing(look):
    first, log = look()
    again = DetectionLog.from_arrays(log.arrays())
    second, _ = look(known_detections=again)
    assert_same(first, second)


def test_long_clips_are_worked_on_in_parts(look, monkeypatch):
    """Maps are not kept for longer than tracks are, and what comes out is nearly the same."""
    kept = []
    settle = _Eyes._settle

    def counted(eyes, *args):
        settle(eyes, *args)
        kept.append(len(eyes.looks))

    monkeypatch.setattr(_Eyes, "_settle", counted)
    whole, _ = look()
    assert max(kept) == 30, "five a second, for six seconds"
    kept.clear()
    monkeypatch.setattr("objectstates.ingest.observe.LONGEST_TRACK", 2.0)
    parts, _ = look()
    assert max(kept) <= 5 * (2.0 + 0.6)
    np.testing.assert_array_equal(parts.chunk_span, whole.chunk_span)
    np.testing.assert_allclose(parts.chunk_feature, whole.chunk_feature, atol=0.05)
    assert (np.diff(parts.tracklet_span[:, 0]) >= 0).all()
    covered = [np.diff(seen.tracklet_span).sum() for seen in (parts, whole)]
    assert covered[0] == pytest.approx(covered[1])


def test_a_span_is_looked_at_alone(look, clip):
    seen, _ = look(span=ClipSpan("part", clip[0].video, 2.0, 4.0))
    assert seen.span.tolist() == pytest.approx([2.0, 4.0])
    assert seen.tracklet_span.min() >= 2.0
    assert seen.tracklet_span.max() <= 4.0 + 1e-6
    assert len(seen.chunk_span) == 5


def test_every_frame_is_counted(look):
    ticks = []
    seen, _ = look(tick=ticks.append)
    assert sum(ticks) == int(seen.frames[0]) == 60
