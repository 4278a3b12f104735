"""Every parser of the package, with valid files for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults import samples


@dataclass(frozen=True)
class Parser:
    """What is read, and which of its files are mutated.

    prepare : writes the valid files into a folder. ``read`` : parses what is in the folder.
    files : relative paths, each mutated in some cases.
    share : of all cases, relative to others.
    sealed : whether checksums guard the content: a mutated file is refused, or reads the same.
    """

    name: str
    prepare: Callable[[Path], None]
    read: Callable[[Path], Any]
    files: tuple[str, ...]
    share: float = 1.0
    sealed: Callable[[Any], str] | None = None


def _text(name: str, content: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(content, encoding="utf-8")

    return write


def _json(name: str, tree: Any) -> Callable[[Path], None]:
    return lambda folder: samples.write_json(folder / name, tree)


def _file(read: Callable[[Path], Any], name: str) -> Callable[[Path], Any]:
    """Reads the file of this name in a folder."""
    return lambda folder: read(folder / name)


def _with_pictures(write: Callable[[Path], None]) -> Callable[[Path], None]:
    def both(folder: Path) -> None:
        samples.write_pictures(folder)
        write(folder)

    return both


def _yolo(folder: Path) -> None:
    samples.write_pictures(folder)
    (folder / "data.yaml").write_text("path: .\nnames: [cup, 'plate']\nnc: 2\n")
    (folder / "a_000001.txt").write_text("0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.2 0.1 0.3 0.4\n")
    (folder / "a_000002.txt").write_text("0 0.5 0.5 0.2 0.2 0.9\n")


def _changeit(folder: Path) -> None:
    (folder / "apple").mkdir()
    (folder / "apple" / "v.fps1.csv").write_text(samples.CHANGEIT)


def _unsealed(folder: Path) -> None:
    samples.write_artefacts(folder)
    for path in (
        folder / "corpus" / "corpus.json",
        folder / "result" / "result.json",
        folder / "result" / "corpus" / "corpus.json",
    ):
        header = json.loads(path.read_text())
        del header["checksums"]
        path.write_text(json.dumps(header))


def _corpus_content(corpus: Any) -> str:
    tables = [*vars(corpus.tracklets).values(), *vars(corpus.chunks).values()]
    plain = [corpus.clip_ids, corpus.videos, corpus.spans, corpus.info]
    return repr([*plain, *(table.tolist() for table in tables)])


def _result_content(result: Any) -> str:
    arrays = [result.state, result.state_scores, *vars(result.actions).values()]
    for classifier in result.classifiers.values():
        arrays += [classifier.weights, classifier.bias, classifier.scale]
    plain = [result.settings, result.summary, result.skipped, result.names]
    return repr([*plain, *(a.tolist() for a in arrays)]) + _corpus_content(result.corpus)


def _read_labels(path: Path) -> Any:
    from objectstates.detect.labels import read_labels

    return list(read_labels(path, "cup").load())


def _read_boxes(path: Path) -> Any:
    from objectstates.detect.precomputed_boxes import BoxesDetector
    from objectstates.video.clip_list import ClipSpan
    from objectstates.video.reader import VideoInfo

    video = path.with_name("v.mp4")
    detector = BoxesDetector(path)
    return detector.for_clip(ClipSpan("v", video), VideoInfo(video, 32, 32, 1.0, 10.0))


def _read_corpus(folder: Path) -> Any:
    from objectstates.app.inspection import describe_corpus
    from objectstates.data.corpus import Corpus

    corpus = Corpus.load(folder / "corpus")
    describe_corpus(corpus)
    return corpus


def _read_result(folder: Path) -> Any:
    """Also what commands read of the summary and the settings."""
    from objectstates import JointDiscovery
    from objectstates.app.inspection import describe_clips, describe_result
    from objectstates.data.result import Result

    result = Result.load(folder / "result")
    describe_result(result)
    describe_clips(result)
    repr(result)
    JointDiscovery.load(folder / "result")
    return result


def _read_onnx(path: Path) -> Any:
    from objectstates.detect.detections import DetectorOptions
    from objectstates.detect.onnx_models import OnnxDetector
    from objectstates.video.reader import Frame

    frame = Frame(0.0, np.zeros((24, 32, 3), np.uint8))
    return OnnxDetector(path, DetectorOptions()).detect([frame])


def _read_lerobot(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from objectstates.app.inspection import describe_dataset
        from objectstates.robots.lerobot_dataset import read_dataset
        from objectstates.robots.signals import chosen_signals, read_signals

        dataset = read_dataset(folder / name)
        describe_dataset(dataset)
        if dataset.cameras:
            clips = dataset.clips(dataset.cameras[:1])
            keys = chosen_signals(dataset, "auto")
            if clips and clips[0].episode is not None and keys:
                read_signals(clips[0].episode, keys)
        return dataset

    return read


def _parsers_of_text() -> Iterator[Parser]:
    from objectstates.cli import app
    from objectstates.cli.settings_file import read_configuration
    from objectstates.data.corrections import read_corrections
    from objectstates.data.formats.changeit import read_changeit
    from objectstates.data.formats.howtochange import read_howtochange
    from objectstates.data.formats.truth_files import read_truth
    from objectstates.narration.sentences import read_sentences
    from objectstates.narration.subtitles import read_narration
    from objectstates.video.clip_list import find_clips

    assert app is not None  # the commands declare the settings
    subtitles = {"s.srt": samples.SRT, "s.vtt": samples.VTT, "s.ass": samples.ASS}
    subtitles |= {"s.ttml": samples.TTML, "s.txt": samples.TEXT}
    for name, content in subtitles.items():
        read = _file(read_narration, name)
        yield Parser(f"subtitles {name[2:]}", _text(name, content), read, (name,), 1.5)
    yield Parser(
        "subtitles json3",
        _json("s.json3", samples.JSON3),
        _file(read_narration, "s.json3"),
        ("s.json3",),
        2,
    )
    yield Parser(
        "sentences", _text("s.txt", samples.TEXT), _file(read_sentences, "s.txt"), ("s.txt",)
    )
    for kind, name, write in (
        ("coco", "l.json", _json("l.json", samples.COCO)),
        ("labelme", "l.json", _json("l.json", samples.LABELME)),
        ("cvat images", "l.xml", _text("l.xml", samples.CVAT_IMAGES)),
        ("cvat video", "l.xml", _text("l.xml", samples.CVAT_VIDEO)),
    ):
        read = _file(_read_labels, name)
        yield Parser(f"labels {kind}", _with_pictures(write), read, (name,), 2.5)
    files = ("data.yaml", "a_000001.txt", "a_000002.txt")
    yield Parser("labels yolo", _yolo, _read_labels, files, 2.5)
    for kind, name, write in (
        ("coco", "b.json", _json("b.json", samples.COCO)),
        ("mot", "v.csv", _text("v.csv", samples.MOT)),
        ("cvat", "b.xml", _text("b.xml", samples.CVAT_VIDEO)),
    ):
        read = _file(_read_boxes, name)
        yield Parser(f"boxes {kind}", write, read, (name,), 3)
    yield Parser(
        "truth folder",
        _json("t/v.json", samples.TRUTH),
        _file(read_truth, "t"),
        ("t/v.json",),
        3,
    )
    for kind, name, write in (
        ("annotations", "annotations.json", _json("annotations.json", samples.ANNOTATIONS)),
        ("csv", "t.csv", _text("t.csv", samples.TRUTH_CSV)),
    ):
        read = _file(read_truth, name)
        yield Parser(f"truth {kind}", write, read, (name,), 2)
    yield Parser("truth changeit", _changeit, read_changeit, ("apple/v.fps1.csv",))
    yield Parser(
        "truth howtochange",
        _text("h.csv", samples.HOWTOCHANGE),
        lambda f: [clip.seconds() for clip in read_howtochange(f / "h.csv")],
        ("h.csv",),
    )
    for kind, name, write in (
        ("csv", "c.csv", _text("c.csv", samples.CORRECTIONS)),
        ("cvat", "c.xml", _text("c.xml", samples.CORRECTED_CVAT)),
        ("labelstudio", "c.json", _json("c.json", samples.LABELSTUDIO)),
    ):
        read = _file(read_corrections, name)
        yield Parser(f"corrections {kind}", write, read, (name,), 2)
    yield Parser(
        "clip list",
        _text("l.csv", samples.CLIPS),
        lambda f: find_clips([f / "l.csv"]),
        ("l.csv",),
        2,
    )
    yield Parser(
        "settings",
        _text("s.toml", samples.SETTINGS),
        lambda f: read_configuration(f / "s.toml", "discover"),
        ("s.toml",),
        2,
    )


def _parsers_of_binary() -> Iterator[Parser]:
    from objectstates.data.formats.authors import read_authors
    from objectstates.data.formats.mat_file import read_mat
    from objectstates.detect.fewshot import load

    tables = tuple(f"corpus/{name}.parquet" for name in ("clips", "tracklets", "chunks"))
    own = ("clips", "actions", "tracklets", "chunks")
    of_result = ("result/result.json", *(f"result/{name}.parquet" for name in own))
    of_result += ("result/classifiers.npz", "result/corpus/corpus.json")
    of_corpus, sealed = ("corpus/corpus.json", *tables), samples.write_artefacts
    yield Parser("corpus", _unsealed, _read_corpus, of_corpus, 0.4)
    yield Parser("corpus with checksums", sealed, _read_corpus, of_corpus, 0.4, _corpus_content)
    yield Parser("result", _unsealed, _read_result, of_result, 0.3)
    yield Parser("result with checksums", sealed, _read_result, of_result, 0.3, _result_content)
    yield Parser("result.json", _unsealed, _read_result, ("result/result.json",), 0.4)
    yield Parser(
        "npz few-shot",
        lambda f: samples.write_fewshot(f / "d.npz"),
        _file(load, "d.npz"),
        ("d.npz",),
        0.5,
    )
    yield Parser(
        "onnx",
        lambda f: samples.write_onnx(f / "d.onnx"),
        _file(_read_onnx, "d.onnx"),
        ("d.onnx",),
        1,
    )
    for name, write, reader, share in (
        ("mat", samples.write_mat, read_authors, 0.1),
        ("mat 7.3", samples.write_mat73, read_authors, 0.05),
        ("mat 7.3 structs", samples.write_mat73, read_mat, 0.05),
    ):
        yield Parser(name, write, _file(reader, "features.mat"), ("features.mat",), share)
    yield Parser(
        "lerobot v2",
        samples.write_lerobot,
        _read_lerobot("two"),
        (
            *("two/meta/info.json", "two/meta/episodes.jsonl", "two/meta/tasks.jsonl"),
            "two/data/chunk-000/episode_000000.parquet",
        ),
        2,
    )
    yield Parser(
        "lerobot v3",
        samples.write_lerobot,
        _read_lerobot("three"),
        (
            *("three/meta/info.json", "three/meta/episodes/chunk-000/file-000.parquet"),
            *("three/meta/tasks.parquet", "three/data/chunk-000/file-000.parquet"),
        ),
        2,
    )


def all_parsers() -> list[Parser]:
    """Every parser, with the import of its libraries."""
    return [*_parsers_of_text(), *_parsers_of_binary()]
