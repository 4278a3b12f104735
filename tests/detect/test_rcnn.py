"""The file of a trained Faster R-CNN, and the detector it becomes."""

from __future__ import annotations

import numpy as np
import pytest

from objectstates.base.errors import DetectorError, MissingExtraError, SettingError
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.rcnn import RcnnModel, build, load, load_weights, read_model
from objectstates.detect.registry import load_detector
from objectstates.video.reader import Frame
from tests.detect import torchvision_here

SIDE = 96


@pytest.fixture(scope="module")
def model():
    import torch

    torch.manual_seed(0)
    network = build("mobilenet", SIDE)
    return RcnnModel("board", "mobilenet", SIDE, {"boxes": 3}, "random", network)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "board.pt"
    model.save(path)
    return path


def frames(count=2):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 60, 80, 3), dtype=np.uint8)
    return [Frame(i / 25, image) for i, image in enumerate(images)]


@torchvision_here.missing
def test_without_torchvision_the_extra_is_named(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    with pytest.raises(MissingExtraError, match=r"objectstates\[torch\]"):
        build("resnet50", 96)


def test_what_there_is_no_file_of_is_said(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    with pytest.raises(DetectorError, match="does not exist"):
        load(tmp_path / "no.pt")
    (tmp_path / "a.pt").write_bytes(b"something else")
    with pytest.raises(DetectorError, match=r"not a detector of `fasterrcnn`"):
        load(tmp_path / "a.pt")
    with pytest.raises(SettingError, match="resnet50 or mobilenet"):
        build("vgg", 96)


@torchvision_here.needed
def test_what_is_saved_is_read_again(model, saved):
    again = read_model(saved)
    for name in ("object", "backbone", "side", "trained_on", "weights_from"):
        assert getattr(again, name) == getattr(model, name)
    weights = again.network.state_dict()
    for name, value in model.network.state_dict().items():
        assert (weights[name] == value).all()


@torchvision_here.needed
def test_it_is_a_detector_by_its_file(saved):
    detector = load_detector(f"fasterrcnn:{saved}", DetectorOptions(threshold=0.0))
    found = detector.detect(frames())
    assert len(found) == 2
    for one in found:
        assert len(one) > 0
        assert (np.diff(one.scores) <= 0).all()
        assert (one.boxes[:, :2] >= 0).all()
        assert (one.boxes[:, 2:] <= [80, 60]).all()
    strict = load_detector(f"fasterrcnn:{saved}", DetectorOptions(threshold=0.99))
    assert strict.fingerprint != detector.fingerprint
    assert sum(map(len, strict.detect(frames()))) == 0
    assert load(saved).with_threshold(0.0).fingerprint == detector.fingerprint


@torchvision_here.needed
def test_frames_do_not_depend_on_their_neighbours(saved):
    detector = load(saved, DetectorOptions(threshold=0.0))
    both = detector.detect(frames())
    alone = [detector.detect([frame])[0] for frame in frames()]
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_allclose(one.boxes, other.boxes, atol=1e-3)


@torchvision_here.needed
def test_weights_of_a_whole_network_or_its_backbone_are_taken(model, saved, tmp_path):
    import torch

    body = {
        name.removeprefix("backbone.body."): value
        for name, value in model.network.state_dict().items()
        if name.startswith("backbone.body.")
    }
    torch.save(body, tmp_path / "body.pth")
    for path, all_of_it in ((saved, True), (tmp_path / "body.pth", False)):
        torch.manual_seed(1)
        network = build("mobilenet", SIDE)
        load_weights(network, "mobilenet", str(path))
        now, then = network.state_dict(), model.network.state_dict()
        assert (now["backbone.body.0.0.weight"] == then["backbone.body.0.0.weight"]).all()
        head = "roi_heads.box_head.fc6.weight"
        assert bool((now[head] == then[head]).all()) == all_of_it


@torchvision_here.needed
def test_other_weights_are_refused(saved, tmp_path):
    import torch

    network = build("mobilenet", SIDE)
    torch.save({"a": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(DetectorError, match="is it of another one"):
        load_weights(network, "mobilenet", str(tmp_path / "other.pth"))
    with pytest.raises(DetectorError, match="cannot be read"):
        load_weights(network, "mobilenet", str(tmp_path / "no.pth"))
