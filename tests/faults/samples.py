"""Small valid files of every kind that the package reads, to be mutated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.video.videos import gray, write_video

SRT = """1
00:00:01,000 --> 00:00:04,000
open the <i>drawer</i> slowly

2
00:00:05,500 --> 00:00:07,250
then close it again
"""
VTT = """WEBVTT

00:00:01.000 --> 00:00:04.000 align:start
open<00:00:01.500><c> the</c><00:00:02.000><c> drawer</c>

00:00:05.500 --> 00:00:07.250
then close it
"""
ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:04.00,Default,,0,0,0,,{\\an8}open the drawer
Dialogue: 0,0:00:05.00,0:00:07.00,Default,,0,0,0,,then close it
"""
TTML = """<?xml version="1.0" encoding="utf-8"?>
<tt xmlns="http://www.w3.org/ns/ttml"><body><div>
<p begin="00:00:01.000" end="00:00:04.000">open the drawer</p>
<p begin="00:00:05.000" end="00:00:07.000">then<br/>close it</p>
</div></body></tt>
"""
JSON3 = {
    "events": [
        {
            "tStartMs": 1000,
            "dDurationMs": 3000,
            "segs": [{"utf8": "open"}, {"utf8": " the drawer", "tOffsetMs": 400}],
        },
        {"tStartMs": 5000, "dDurationMs": 2000, "segs": [{"utf8": "close it"}]},
    ]
}
TEXT = "0:01 open the drawer\n[0:05 - 0:07] then close it\n12.5\t14\tdone\n"

COCO = {
    "images": [
        {"id": 1, "file_name": "a_000001.png", "width": 32, "height": 24},
        {"id": 2, "file_name": "a_000002.png", "width": 32, "height": 24},
        {"id": 3, "video": "v.mp4", "time": 0.2, "width": 32, "height": 32},
    ],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 10, 12], "score": 0.9},
        {"id": 2, "image_id": 2, "category_id": 1, "bbox": [3, 2, 10, 12], "iscrowd": 0},
        {"id": 3, "image_id": 3, "category_id": 1, "bbox": [3, 2, 10, 12]},
    ],
    "categories": [{"id": 1, "name": "cup"}],
    "info": {"fps": 10},
}
LABELME = {
    "imagePath": "a_000001.png",
    "imageWidth": 32,
    "imageHeight": 24,
    "shapes": [
        {"label": "cup", "shape_type": "rectangle", "points": [[1, 2], [11, 14]]},
        {"label": "cup", "shape_type": "circle", "points": [[10, 10], [12, 10]]},
        {"label": "cup", "shape_type": "polygon", "points": [[1, 2], [11, 14], [4, 20]]},
    ],
}
CVAT_IMAGES = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version>
<image id="0" name="a_000001.png" width="32" height="24">
<box label="cup" xtl="1.0" ytl="2.0" xbr="11.0" ybr="14.0" rotation="10"></box>
<polygon label="cup" points="1.0,2.0;11.0,14.0;4.0,20.0"></polygon></image>
</annotations>
"""
CVAT_VIDEO = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><stop_frame>9</stop_frame>
<original_size><width>32</width><height>32</height></original_size>
<labels><label><name>cup</name></label></labels><source>v.mp4</source></task></meta>
<track id="0" label="cup">
<box frame="0" xtl="1.0" ytl="2.0" xbr="11.0" ybr="14.0" outside="0"></box>
<box frame="4" xtl="5.0" ytl="2.0" xbr="15.0" ybr="14.0" outside="0"></box>
<box frame="7" xtl="5.0" ytl="2.0" xbr="15.0" ybr="14.0" outside="1"></box></track>
</annotations>
"""
MOT = "frame,id,x,y,w,h,conf,class\n1,1,1,2,10,12,0.9,1\n2,1,3,2,10,12,-1,1\n3,2,3.5,2,9,9,1,2\n"

TRUTH = {
    "action_interval_s": [1.0, 2.0],
    "fps": 10,
    "n_frames": 4,
    "object": {"box": [[1, 2, 11, 14], None, [1, 2, 11, 14], [1, 2, 11, 14]]},
    "part": {"box": [[1, 2, 5, 9], [1, 2, 5, 9], None, [1, 2, 5, 9]]},
    "progress": [0.0, 0.2, 0.8, 1.0],
}
ANNOTATIONS = [
    {
        "file": "v.mp4",
        "action_interval_s": [1.0, 2.0],
        "fps": 10,
        "frame_before": 2,
        "frame_after": 30,
        "object_box_before": [1, 2, 11, 14],
        "object_box_after": None,
    },
    {
        "file": "w.mp4",
        "actions": [{"step": 1, "interval_s": [1.0, 2.0]}, {"step": 2, "interval_s": None}],
        "fps": 10,
        "frame_before": 2,
        "frame_after": 30,
        "object_box_before": [1, 2, 11, 14],
        "object_box_after": [1, 2, 11, 14],
    },
]
TRUTH_CSV = "clip,action_start,action_end,action\na,1.0,2.5,1\na,3,4,2\nb,0.5,2,1\n"
CHANGEIT = "0,0\n1,1\n2,2\n3,3\n"
HOWTOCHANGE = (
    "video_name,video_id,start_time,duration,initial_state,transitioning_state,end_state,osc,"
    'is_novel_osc\na,b,1.0,20.0,"[[0, 3]]","[[3, 5.5]]","[[6, 9], [10, 12]]",rolling_pasta,True\n'
)
CORRECTIONS = (
    "clip,kind,start,end,value\na,action,4.2,5.0,\nb,exclude,,,\nc,state,1,2,open\nd,confirm,,,\n"
    "e,not_object,,,3\n"
)
FOUND = {
    "clip": "a",
    "fps": 10.0,
    "action": [1.0, 2.0],
    "frames": [10, 20],
    "tracklets": [{"index": 0, "state": 1, "start": 0.0, "end": 1.0}],
}
LABELSTUDIO = [
    {
        "data": {
            "names": {"state_1": "closed", "action": "opening", "state_2": "open"},
            "found": [{**FOUND, "segments": [["closed", 1, 9]], "span": [1, 40]}],
        },
        "annotations": [
            {
                "was_cancelled": False,
                "result": [
                    {
                        "type": "timelinelabels",
                        "meta": {"text": ["a"]},
                        "value": {
                            "timelinelabels": ["opening"],
                            "ranges": [{"start": 12, "end": 19}],
                        },
                    },
                    {
                        "type": "videorectangle",
                        "meta": {"text": ["a", "tracklet 0"]},
                        "value": {"labels": ["open"], "sequence": [{"frame": 1}]},
                    },
                ],
            }
        ],
    }
]
_BOX = '<box frame="{}" xtl="1" ytl="2" xbr="9" ybr="9" outside="{}">{}</box>'
_ACTION = '<attribute name="found">{}</attribute><attribute name="clip">a</attribute>'.format(
    json.dumps(FOUND).replace('"', "&quot;")
)
_TRACKLET = (
    '<attribute name="tracklet">0</attribute><attribute name="clip">a</attribute>'
    '<attribute name="state">2</attribute>'
)
CORRECTED_CVAT = (
    "<annotations><meta><task><stop_frame>40</stop_frame></task></meta>"
    f'<track id="0" label="opening">{_BOX.format(12, 0, _ACTION)}{_BOX.format(22, 1, _ACTION)}'
    f'</track><track id="1" label="cup">{_BOX.format(0, 0, _TRACKLET)}</track></annotations>'
)
CLIPS = "video,start,end,id\nv.mp4,0.1,0.5,one\nv.mp4,0.5,,two\nw.mp4,,,\n"
SETTINGS = 'seed = 3\n\n[ingest]\nobject = "cup"\ndetector = "motion"\n\n[fit]\nnu = 1.5\n'


def write_pictures(folder: Path) -> None:
    """What label and box files are about: two images and a video."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in (1, 2):
        cv2.imwrite(str(folder / f"a_{number:06d}.png"), np.full((24, 32, 3), 60, np.uint8))
    write_video(folder / "v.mp4", gray(10, 32, 32), fps=10)


def write_json(path: Path, tree: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))


def write_artefacts(folder: Path) -> None:
    """A corpus and the result of a fit to it."""
    from objectstates import JointDiscovery
    from objectstates.data.synthetic import synthetic_corpus

    corpus = synthetic_corpus(
        3, tracklets_per_clip=4, chunks_per_clip=5, state_size=4, action_size=4
    )
    corpus.save(folder / "corpus")
    JointDiscovery(max_passes=5, verdict=False).fit(corpus).result_.save(folder / "result")


def write_fewshot(path: Path) -> None:
    """A few-shot detector with random weights."""
    from objectstates.detect.fewshot import Calibration, FewShotDetector, Head
    from objectstates.detect.proposals import GRID
    from objectstates.features.lite0 import FINE_STRIDES, Lite0

    channels = sum(Lite0.CHANNELS[stride] for stride in FINE_STRIDES)
    random = np.random.default_rng(0)
    weights = random.standard_normal((GRID**2, channels))
    head = Head(weights, 0.1, np.zeros((GRID**2 * channels, 4)), np.zeros(4))
    shapes = np.array([[20.0, 30.0], [40.0, 20.0]])
    FewShotDetector("cup", 160, shapes, head, Calibration(1.0, 0.5, 0.0), {"images": 3}).save(path)


def write_onnx(path: Path) -> None:
    """A detector with one constant box."""
    from objectstates.base.onnx_file import FLOAT
    from objectstates.base.onnx_utils import GraphBuilder

    graph = GraphBuilder()
    boxes = graph.constant("b", np.array([[1, 2, 11, 14]], np.float32))
    scores = graph.constant("s", np.array([0.9], np.float32))
    graph.add("Identity", boxes, output="boxes")
    graph.add("Identity", scores, output="scores")
    graph.add("ReduceMean", "images", output="mean", keepdims=0)
    content = graph.model(
        "tiny",
        {"images": (FLOAT, (1, 3, 32, 32))},
        {
            "boxes": (FLOAT, (1, 4)),
            "scores": (FLOAT, (1,)),
            "mean": (FLOAT, ()),
        },
    )
    path.write_bytes(content)


def write_mat(folder: Path) -> None:
    """The authors' schema, one clip, in MATLAB 5."""
    from scipy.io import savemat

    def cell(*items: Any) -> Any:
        array = np.empty((1, len(items)), dtype=object)
        for i, item in enumerate(items):
            array[0, i] = item
        return array

    inner = cell(*(np.array([[x]]) for x in (-1.0, 0.0, 1.0)))
    content = {
        "X_action": np.ones((2, 2)),
        "X_state": np.ones((2, 2)),
        "T_action": np.array([[0.2], [0.6]]),
        "T_state": np.array([[0.5], [2.5]]),
        "clips_action": np.array([[2.0]]),
        "clips_state": np.array([[2.0]]),
        "ptrs_tracks": cell(inner),
        "Z_GT": np.array([[0.0], [1.0]]),
        "Y_GT": np.eye(2),
    }
    savemat(folder / "features.mat", content)


def write_lerobot(folder: Path) -> None:
    """What two datasets say about themselves, v2.1 and v3.0, and their signals."""
    features = {
        "observation.images.top": {"dtype": "video", "shape": [32, 32, 3]},
        "observation.state": {"dtype": "float32", "shape": [2], "names": ["a", "gripper"]},
        "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}},
    }
    record = pa.table(
        {
            "timestamp": pa.array([0.0, 0.1, 0.2], pa.float32()),
            "episode_index": pa.array([0, 0, 0], pa.int64()),
            "observation.state": pa.array([[0.0, 1.0]] * 3, pa.list_(pa.float32())),
            "action": pa.array([[0.0, 1.0]] * 3, pa.list_(pa.float32(), 2)),
        }
    )
    for name, version in (("two", "v2.1"), ("three", "v3.0")):
        info = {"codebase_version": version, "fps": 10, "robot_type": "arm", "features": features}
        write_json(folder / name / "meta" / "info.json", info)
        place = "episode_000000" if name == "two" else "file-000"
        path = folder / name / "data" / "chunk-000" / f"{place}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(record, path)
    meta = folder / "two" / "meta"
    rows = [{"episode_index": n, "length": 3, "tasks": ["open the drawer"]} for n in range(2)]
    (meta / "episodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (meta / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "open the drawer"}))
    meta = folder / "three" / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    camera = "videos/observation.images.top"
    columns: dict[str, list[Any]] = {
        "episode_index": [0, 1],
        "length": [3, 3],
        "tasks": [["open the drawer"]] * 2,
        "data/chunk_index": [0, 0],
        "data/file_index": [0, 0],
        f"{camera}/chunk_index": [0, 0],
        f"{camera}/file_index": [0, 0],
        f"{camera}/from_timestamp": [0.0, 0.3],
        f"{camera}/to_timestamp": [0.3, 0.6],
    }
    pq.write_table(pa.table(columns), meta / "episodes" / "chunk-000" / "file-000.parquet")
    tasks = pa.table({"task_index": [0], "__index_level_0__": ["open the drawer"]})
    pq.write_table(tasks, meta / "tasks.parquet")
