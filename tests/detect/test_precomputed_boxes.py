from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from objectstates.base.errors import DetectorError, SettingError
from objectstates.detect.precomputed_boxes import BoxesDetector
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo, read_frames

FPS = 25.0


def info(path: str = "videos/clip.mp4", fps: float = FPS) -> VideoInfo:
    return VideoInfo(Path(path), 640, 480, 4.0, fps)


def frame(at: float, scale: float = 1.0) -> Frame:
    shape = round(480 / scale), round(640 / scale), 3
    return Frame(at, np.zeros(shape, np.uint8), (scale, scale))


def boxes_at(
    detector: BoxesDetector, times: Sequence[float], video: VideoInfo | None = None
) -> list[list[list[float]]]:
    video = video or info()
    clip = detector.for_clip(ClipSpan("clip", video.path), video)
    return [found.boxes.tolist() for found in clip.detect([frame(t) for t in times])]


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def coco(*images: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One box in each image, 10 pixels wide and high, its left side the image's number."""
    return {
        "images": [{"id": i, **image} for i, image in enumerate(images)],
        "annotations": [
            {"image_id": i, "category_id": 1, "bbox": [i, 20, 10, 10]} for i in range(len(images))
        ],
        "categories": [{"id": 1, "name": "drawer"}, {"id": 2, "name": "hand"}],
        **more,
    }


def box(x: float) -> list[list[float]]:
    return [[x, 20, x + 10, 30]]


# Where and when a box is


@pytest.mark.parametrize(
    "image",
    [
        {"file_name": "clip_000012.jpg"},
        {"file_name": "somewhere/else/clip/000012.png"},
        {"file_name": "clip.mp4/frame_12.jpg"},
        {"file_name": "clip/clip_12.jpg"},
        {"file_name": "clip-frame-12.jpg"},
        {"file_name": "other.jpg", "video": "videos/clip.mp4", "frame": 12},
        {"file_name": "000099.jpg", "video_id": 7, "frame_id": 12},
        {"file_name": "clip_99.jpg", "time": 12 / FPS},
        {"file_name": "12.jpg"},  # named as the JSON file
    ],
)
def test_coco_images_are_found_by_name_and_moment(tmp_path: Path, image: dict[str, Any]) -> None:
    data = coco({"file_name": "zzz/7.jpg"}, image, videos=[{"id": 7, "name": "clip.mp4"}])
    detector = BoxesDetector(write(tmp_path / "clip.json", data))
    times = [11 / FPS, 12 / FPS, 13 / FPS]
    assert boxes_at(detector, times) == [[], box(1), []]


def test_moments_go_to_the_frame_within_half_a_frame(tmp_path: Path) -> None:
    data = coco({"video": "clip", "time": 1.0})
    detector = BoxesDetector(write(tmp_path / "a.json", data))
    assert boxes_at(detector, [0.98, 1.019, 1.021, 0.979]) == [box(0), box(0), [], []]


def test_the_frame_rate_is_the_files_before_the_videos(tmp_path: Path) -> None:
    images: list[dict[str, Any]] = [
        {"video_id": 1, "frame": 5},
        {"video": "clip", "frame": 10},
    ]
    rates = {"videos": [{"id": 1, "name": "clip", "fps": 5}], "info": {"fps": 2.5}}
    detector = BoxesDetector(write(tmp_path / "a.json", coco(*images, **rates)))
    assert boxes_at(detector, [0.2, 1.0, 4.0]) == [[], box(0), box(1)]
    assert boxes_at(detector, [0.2, 1.0, 4.0], info(fps=50)) == [[], box(0), box(1)]
    del rates["info"]
    detector = BoxesDetector(write(tmp_path / "a.json", coco(*images, **rates)))
    assert boxes_at(detector, [0.2, 1.0, 4.0], info(fps=50)) == [box(1), box(0), []]


def test_a_frame_between_two_moments_gets_one_of_them(tmp_path: Path) -> None:
    """Boxes at 100 per second in a video of 25: never two of the same thing in a frame."""
    images = [{"video": "clip", "time": i / 100} for i in range(100)]
    detector = BoxesDetector(write(tmp_path / "a.json", coco(*images)))
    assert boxes_at(detector, [i / FPS for i in range(25)]) == [box(4 * i) for i in range(25)]


def test_boxes_follow_the_size_of_frames_and_of_annotated_images(tmp_path: Path) -> None:
    data = coco({"video": "clip", "frame": 0}, {"video": "clip", "frame": 1})
    data["images"][1] |= {"width": 1280, "height": 960}
    data["annotations"][0]["bbox"] = [100, 40, 60, 80]
    data["annotations"][1]["bbox"] = [200, 80, 120, 160]
    clip = BoxesDetector(write(tmp_path / "a.json", data)).for_clip(
        ClipSpan("", info().path), info()
    )
    for at in (0, 1 / FPS):
        (full, half) = clip.detect([frame(at), frame(at, 2.0)])
        assert full.boxes.tolist() == [[100, 40, 160, 120]]
        assert half.boxes.tolist() == [[50, 20, 80, 60]]
    data["images"][1] |= {"width": 480, "height": 640}
    detector = BoxesDetector(write(tmp_path / "a.json", data))
    with pytest.raises(DetectorError, match="480 x 640 pixels, the upright video has 640 x 480"):
        detector.for_clip(ClipSpan("", info().path), info())


def test_a_decoded_and_downscaled_video_gets_its_boxes(tmp_path: Path) -> None:
    """A white square moves over black; the boxes say where, and the pixels agree."""
    path = tmp_path / "Küche 1.mp4"
    rows = []
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for i in range(30):
            image = np.zeros((240, 320, 3), np.uint8)
            image[80:140, 8 * i : 8 * i + 60] = 255
            rows.append(f"{i + 1},1,{8 * i},80,60,60,1,-1,-1,-1")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    detector = BoxesDetector(write(tmp_path / "mot" / "Küche 1.txt", "\n".join(rows)))
    seen = 0
    with read_frames(path, 0.3, 0.9, fps=10, max_side=160) as reading:
        clip = detector.for_clip(ClipSpan("k", path, 0.3, 0.9), reading.info)
        for shown in reading:
            (found,) = clip.detect([shown])
            ((x1, y1, x2, y2),) = np.round(found.boxes).astype(int)
            inside = shown.image[y1:y2, x1:x2]
            assert inside.mean() > 240
            assert inside.sum() > 0.97 * shown.image.sum()
            seen += 1
    assert seen == 6


def test_images_of_a_folder_are_found_by_their_number(tmp_path: Path) -> None:
    folder = tmp_path / "clip"
    for number in (5, 6, 8):
        write(folder / f"{number:06}.jpg", "")
    data = coco({"file_name": "clip/000005.jpg"}, {"file_name": "clip/000008.jpg"})
    detector = BoxesDetector(write(tmp_path / "a.json", data))
    found = boxes_at(detector, [0, 1 / FPS, 3 / FPS], info(str(folder)))
    assert found == [box(0), [], box(1)]


# Which boxes


def test_the_object_is_picked_by_name(tmp_path: Path) -> None:
    data = coco({"video": "clip", "frame": 0}, {"video": "clip", "frame": 0})
    data["annotations"][1]["category_id"] = 2
    path = write(tmp_path / "a.json", data)
    assert boxes_at(BoxesDetector(path, "Drawer"), [0]) == [box(0)]
    assert boxes_at(BoxesDetector(path, "hand"), [0]) == [box(1)]
    assert boxes_at(BoxesDetector(path), [0]) == [[*box(0), *box(1)]]
    with pytest.raises(SettingError, match=r"'door'; `object` may be drawer, hand"):
        BoxesDetector(path, "door")


def test_scores_order_and_filter(tmp_path: Path) -> None:
    data = coco(*({"video": "clip", "frame": 0} for _ in range(3)))
    for annotation, score in zip(data["annotations"], (0.5, 0.39, 0.9), strict=True):
        annotation["score"] = score
    path = write(tmp_path / "a.json", data)
    assert boxes_at(BoxesDetector(path), [0]) == [[*box(2), *box(0)]]
    assert boxes_at(BoxesDetector(path, threshold=0.6), [0]) == [box(2)]


def test_results_alone_need_names_of_images(tmp_path: Path) -> None:
    result = {"image_id": "clip_000002", "category_id": 3, "bbox": [0, 20, 10, 10], "score": 0.7}
    path = write(tmp_path / "a.json", [result])
    assert boxes_at(BoxesDetector(path, "drawer"), [2 / FPS]) == [box(0)]
    write(path, [result | {"image_id": 2}])
    with pytest.raises(DetectorError, match="does not name its images"):
        BoxesDetector(path)


def test_videos_of_one_name_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    data = coco({"video": "a/000.mp4", "frame": 0}, {"video": "b/000.mp4", "frame": 0})
    detector = BoxesDetector(write(tmp_path / "x.json", data))
    assert boxes_at(detector, [0], info("/data/b/000.mp4")) == [box(1)]
    with pytest.raises(DetectorError, match="may name this by any of a/000, b/000"):
        boxes_at(detector, [0], info("/data/c/000.mp4"))
    lone = BoxesDetector(write(tmp_path / "x.json", coco({"video": "000", "frame": 0})))
    clips = [ClipSpan("1", Path("a/000.mp4")), ClipSpan("2", Path("b/000.mp4"))]
    with pytest.raises(DetectorError, match="'000' may be any of"):
        lone.check(clips)
    lone.check([clips[0], ClipSpan("3", clips[0].video, 1.0)])


def test_a_file_about_other_videos_is_refused_at_once(tmp_path: Path) -> None:
    detector = BoxesDetector(write(tmp_path / "a.json", coco({"file_name": "lid_01.jpg"})))
    with pytest.raises(DetectorError, match=r"boxes are of lid, of no video given: clip\.mp4"):
        detector.check([ClipSpan("", info().path)])
    with pytest.raises(DetectorError, match="has no boxes of this video, only of lid"):
        detector.for_clip(ClipSpan("", info().path), info())


def test_a_video_without_boxes_is_no_error(tmp_path: Path) -> None:
    data = coco({"file_name": "clip_01.jpg"}) | {"annotations": []}
    assert boxes_at(BoxesDetector(write(tmp_path / "a.json", data), "drawer"), [0.04]) == [[]]


def test_the_fingerprint_of_a_clip_follows_its_own_boxes_only(tmp_path: Path) -> None:
    data = coco({"video": "clip", "frame": 0}, {"video": "other", "frame": 0})

    def prints() -> tuple[str, str]:
        detector = BoxesDetector(write(tmp_path / "a.json", data))
        clip = detector.for_clip(ClipSpan("", info().path), info())
        return detector.fingerprint, clip.fingerprint

    first = prints()
    assert prints() == first
    data["annotations"][1]["bbox"][0] += 1
    second = prints()
    assert second[0] != first[0]
    assert second[1] == first[1]
    data["annotations"][0]["bbox"][0] += 1
    assert prints()[1] != first[1]


# MOT


def test_mot_counts_frames_from_one_and_needs_no_confidence(tmp_path: Path) -> None:
    text = "frame,id,x,y,w,h\n1,7,0,20,10,10\n3,7,2,20,10,10,-1,-1,-1,-1\n4,7,3,20,10,10,0.1\n"
    detector = BoxesDetector(write(tmp_path / "clip.csv", text), "drawer")
    assert boxes_at(detector, [i / FPS for i in range(4)]) == [box(0), [], box(2), []]


def test_a_folder_holds_one_mot_file_per_video(tmp_path: Path) -> None:
    for i, name in enumerate(("clip", "other", "third")):
        write(tmp_path / f"{name}.txt", f"1,1,{i},20,10,10,1,{1 + i % 2},1\n")
    write(tmp_path / "labels.txt", "drawer\nhand\n")
    assert boxes_at(BoxesDetector(tmp_path, "drawer"), [0]) == [box(0)]
    assert boxes_at(BoxesDetector(tmp_path, "drawer"), [0], info("third.mov")) == [box(2)]
    assert boxes_at(BoxesDetector(tmp_path, "drawer"), [0], info("other.mov")) == [[]]
    with pytest.raises(SettingError, match="may be drawer, hand"):
        BoxesDetector(tmp_path, "door")


# CVAT


def cvat(*boxes: str, meta: str = "<source>clip.mp4</source>", label: str = "drawer") -> str:
    return (
        f"<?xml version='1.0' encoding='utf-8'?><annotations><meta><task>{meta}</task></meta>"
        f"<track id='0' label='{label}'>{''.join(boxes)}</track></annotations>"
    )


def key(at: int, x: float, outside: int = 0, more: str = "") -> str:
    return (
        f"<box frame='{at}' outside='{outside}' occluded='0' keyframe='1' "
        f"xtl='{x}' ytl='20' xbr='{x + 10}' ybr='30' {more}/>"
    )


def test_cvat_tracks_are_interpolated_and_end_where_outside(tmp_path: Path) -> None:
    text = cvat(key(2, 0), key(6, 40), key(7, 40, 1), key(9, 60), key(11, 64))
    detector = BoxesDetector(write(tmp_path / "any.xml", text), "drawer")
    left = [f[0][0] if f else None for f in boxes_at(detector, [i / FPS for i in range(14)])]
    assert left == [None, None, 0, 10, 20, 30, 40, None, None, 60, 62, 64, None, None]


def test_the_last_cvat_box_stays_until_the_task_stops(tmp_path: Path) -> None:
    meta = "<source>clip.mp4</source><stop_frame>4</stop_frame>"
    for last, expected in ((0, [0, 1, 1, 1, None]), (1, [0, None, None, None, None])):
        detector = BoxesDetector(
            write(tmp_path / "any.xml", cvat(key(1, 0), key(2, 1, last), meta=meta))
        )
        found = boxes_at(detector, [i / FPS for i in range(1, 6)])
        assert [f[0][0] if f else None for f in found] == expected


def test_a_cvat_task_that_never_stops_is_refused(tmp_path: Path) -> None:
    meta = "<source>clip.mp4</source><stop_frame>9999999</stop_frame>"
    path = write(tmp_path / "any.xml", cvat(key(1, 0), meta=meta))
    with pytest.raises(DetectorError, match=r"any\.xml: .*more than 1000000 boxes.*stop_frame"):
        BoxesDetector(path)


@pytest.mark.parametrize("number", ["inf", "nan", "1e400", str(10**400)])
def test_mot_numbers_that_are_none_are_refused(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "clip.csv", f"1,1,1,2,10,12,0.9,{number}\n{number},1,1,2,3,4,1,1\n")
    with pytest.raises(DetectorError, match=r"clip\.csv: .*line [12] is not frame"):
        BoxesDetector(path)


def test_a_turned_cvat_box_becomes_its_hull(tmp_path: Path) -> None:
    text = cvat(key(0, 100, more="rotation='45'"))
    ((found,),) = boxes_at(BoxesDetector(write(tmp_path / "clip.xml", text)), [0])
    half = math.sqrt(2) * 5
    np.testing.assert_allclose(found, [105 - half, 25 - half, 105 + half, 25 + half], rtol=1e-6)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused_before_they_are_expanded(tmp_path: Path, encoding: str) -> None:
    entities = "<!ENTITY a 'ha'><!ENTITY b '&a;&a;'><!ENTITY f SYSTEM 'file:///etc/passwd'>"
    meta = "<source>&f;&b;</source>"
    text = f"<!DOCTYPE annotations [{entities}]>" + cvat(key(0, 0), meta=meta)
    path = tmp_path / "clip.xml"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(DetectorError, match=r"clip\.xml"):
        BoxesDetector(path)


# Files that are not what they should be


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", "{", "cannot be read as boxes"),
        ("a.json", "[" * 100_000, "a.json"),
        ("a.json", "{}", "images and annotations"),
        ("a.json", coco({"file_name": "clip.jpg"}), "no frame, no time and no number"),
        ("a.json", coco({"video": "clip", "frame": float("inf")}), "must be finite"),
        ("a.json", coco({"video": "c", "frame": 0, "width": 0, "height": 9}), "above 0"),
        ("a.json", coco({"file_name": "c_1.jpg"}, info={"fps": -3}), "above 0"),
        ("a.json", coco({"file_name": "c_1.jpg"}) | {"images": []}, "not among the images"),
        ("a.json", {"images": [{"id": [], "file_name": "c_1"}], "annotations": []}, "unhashable"),
        ("a.json", {"images": [7], "annotations": []}, "a.json"),
        ("a.csv", "1,2,3\n", "line 1 is not frame,id,x,y,w,h"),
        ("a.csv", "1,1,0,0,5,5,1\n2,1,0,0,5,nan,1\n", "line 2"),
        ("a.csv", "1,1,0,0,5,5,87\n", "scores from 0 to 1"),
        ("a.xml", "<annotations><image/></annotations>", "CVAT for video"),
        ("a.xml", "<annotations>", "not XML"),
        ("a.xml", cvat(key(0, 0), key(10**9, 0)), "frames 0 to 1000000000"),
        ("a.xml", cvat("<box frame='0'/>"), "'xtl' is missing"),
        ("a.pkl", "", "boxes are read from .json, .csv, .txt, .xml"),
    ],
)
def test_bad_files_are_named_with_what_is_wrong(
    tmp_path: Path, name: str, content: Any, complaint: str
) -> None:
    path = write(tmp_path / name, content)
    tracemalloc.start()
    with pytest.raises(DetectorError) as caught:
        BoxesDetector(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert name in str(caught.value)
    assert complaint in str(caught.value)
    assert peak < 50e6, "bytes: a billion frames in a small file are not expanded"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DetectorError, match=r"none\.json: No such file"):
        BoxesDetector(tmp_path / "none.json")
    with pytest.raises(DetectorError, match="no boxes in this folder"):
        BoxesDetector(tmp_path)


def test_frames_without_a_clip_are_refused(tmp_path: Path) -> None:
    detector = BoxesDetector(write(tmp_path / "a.json", coco({"file_name": "clip_1.jpg"})))
    with pytest.raises(SettingError, match="for_clip"):
        detector.detect([frame(0)])
