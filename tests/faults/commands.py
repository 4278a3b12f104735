"""The commands that are disturbed: their inputs, and what they write without a disturbance.

All runs have the same paths, because artefacts name their videos. The clips are those of the demo.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import objectstates

DEMO = Path(objectstates.__file__).parent / "demo" / "drawer"
SPANS = {"drawer_07": (0, 4), "drawer_08": (0, 4), "drawer_11": (0, 4), "drawer_12": (0, 4)}
"""Seconds of the demo's clips: short, since every command runs hundreds of times."""

_SECONDS = re.compile(rb"<summary>Seconds</summary>.*?</dl>|[\d.]+ MB", re.S)
"""Of a report, what differs between two runs: how long they took, and so the size of the file."""

Contents = Mapping[str, str]
"""Digests of files, by their paths within an artefact."""


@dataclass(frozen=True)
class Command:
    """One command.

    words : its arguments; ``{in}`` and ``{out}`` stand for folders. ``earlier`` are those of a run
        whose artefacts are in place before, and must survive or be replaced as a whole.
    artefacts : what it writes, as paths in ``{out}``.
    takes_cache : whether it has the option ``--cache``.
    workers : whether it starts processes.
    """

    name: str
    words: str
    earlier: str
    artefacts: tuple[str, ...]
    takes_cache: bool = False
    workers: bool = False


_INGEST = "{in}/clips.csv --object drawer --detector fewshot:{in}/drawer.npz --max-side 128"
_FEW = _INGEST.replace("clips.csv", "few.csv")
_FIT = "--no-verdict --max-passes 30"

COMMANDS = (
    Command(
        "ingest",
        f"ingest {_INGEST} --processes 2 --out {{out}}/corpus",
        f"ingest {_FEW} --processes 2 --out {{out}}/corpus",
        ("corpus",),
        takes_cache=True,
        workers=True,
    ),
    Command(
        "fit",
        f"fit {{in}}/corpus {_FIT} --out {{out}}/result",
        f"fit {{in}}/corpus {_FIT} --nu 1 --seed 1 --out {{out}}/result",
        ("result",),
    ),
    Command(
        "fit --out-of-core",
        f"fit {{in}}/corpus {_FIT} --out-of-core --engine processes --shards 2 "
        "--out {out}/result",
        f"fit {{in}}/corpus {_FIT} --nu 1 --seed 1 --out {{out}}/result",
        ("result",),
        workers=True,
    ),
    Command(
        "discover",
        f"discover {_INGEST} {_FIT} --processes 2 --out {{out}}/found",
        f"discover {_FEW} {_FIT} --processes 2 --out {{out}}/found",
        ("found/corpus", "found/result", "found/report.html"),
        takes_cache=True,
        workers=True,
    ),
    Command(
        "discover --out-of-core",
        f"discover {_INGEST} {_FIT} --out-of-core --shards 2 --processes 2 --out {{out}}/found",
        f"discover {_FEW} {_FIT} --out-of-core --shards 2 --processes 2 --out {{out}}/found",
        ("found/corpus", "found/result", "found/report.html"),
        takes_cache=True,
        workers=True,
    ),
    Command(
        "report",
        "report {in}/result --processes 2 --out {out}/report.html",
        "report {in}/other --processes 2 --out {out}/report.html",
        ("report.html",),
        workers=True,
    ),
    *(
        Command(
            f"export {kind}",
            f"export {{in}}/result --to {kind} --out {{out}}/{kind}",
            f"export {{in}}/other --to {kind} --out {{out}}/{kind}",
            (kind,),
        )
        for kind in ("csv", "coco", "crops", "cvat", "webvtt")
    ),
    Command(
        "cut",
        "cut {in}/result --out {out}/segments",
        "cut {in}/other --out {out}/segments",
        ("segments",),
    ),
    Command(
        "detector train",
        "detector train {in}/labels.json --object drawer --out {out}/model.npz",
        "detector train {in}/labels.json --object drawer --seed 1 --out {out}/model.npz",
        ("model.npz",),
    ),
)


@dataclass
class Place:
    """The folders of all runs under ``root``.

    inputs : of commands, made once. work : of one run: ``out``, ``cache`` and ``tmp``.
    """

    root: Path
    whole: dict[str, Contents] = field(default_factory=dict)  # of artefacts, by command
    earlier: dict[str, Contents] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs, self.work, self.kept = (self.root / n for n in ("in", "work", "kept"))
        self.out, self.cache, self.tmp = (self.work / n for n in ("out", "cache", "tmp"))

    def words(self, command: Command, *, earlier: bool = False) -> list[str]:
        text = command.earlier if earlier else command.words
        words = [word.format(**{"in": self.inputs, "out": self.out}) for word in text.split()]
        return words + (["--cache", str(self.cache)] if command.takes_cache else [])

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(self.tmp),
            "OBJECTSTATES_CACHE": str(self.root / "graphs"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    def start(self, words: list[str], **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [sys.executable, "-m", "objectstates", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=self.environment(),
            start_new_session=True,
            **options,
        )

    def run(self, words: list[str]) -> None:
        """An undisturbed run, which must succeed."""
        with self.start(words) as process:
            try:
                _, errors = process.communicate()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} failed undisturbed: {errors}")

    # --- before all trials ------------------------------------------------------------------------

    def prepare(self, commands: Sequence[Command]) -> None:
        """Make the inputs, and run every command undisturbed."""
        self._make_inputs()
        self.run_all(commands)

    def _make_inputs(self) -> None:
        self.inputs.mkdir(parents=True)
        shutil.copy(DEMO / "drawer.npz", self.inputs)
        for name in SPANS:
            shutil.copy(DEMO / f"{name}.mp4", self.inputs)
        rows = [f"{name}.mp4,{a},{b},{name}" for name, (a, b) in SPANS.items()]
        for file, count in (("clips.csv", 4), ("few.csv", 3)):
            text = "\n".join(["video,start,end,id", *rows[:count]])
            (self.inputs / file).write_text(text + "\n")
        _write_labels(self.inputs / "labels.json")
        self.reset()
        made = f"ingest {_INGEST} --processes 2 --out {{in}}/corpus --cache {{in}}/cache"
        fits = [f"fit {{in}}/corpus {_FIT} {more}" for more in ("", "--nu 1 --seed 1")]
        for words in (made, f"{fits[0]} --out {{in}}/result", f"{fits[1]} --out {{in}}/other"):
            self.run([word.format(**{"in": self.inputs}) for word in words.split()])

    def run_all(self, commands: Sequence[Command]) -> None:
        """Run every command undisturbed, first that of its earlier artefacts."""
        for command in commands:
            for earlier, found in ((True, self.earlier), (False, self.whole)):
                self.reset()
                begun = time.monotonic()
                self.run(self.words(command, earlier=earlier))
                self.seconds[command.name] = time.monotonic() - begun
                found[command.name] = self.contents(command)
                if earlier:
                    shutil.copytree(self.out, self.kept / command.name)
            shutil.copytree(self.cache, self.kept / command.name / "cache", dirs_exist_ok=True)

    def reset(self, command: Command | None = None, *, cache: bool = False) -> None:
        """Empty the folders of a run; then put the earlier artefacts of a command in place.

        cache : also fill the cache, as the command itself does.
        """
        for folder in (self.out, self.cache, self.tmp):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        (self.out / "mine.txt").write_text("precious")
        if command is not None:
            kept = self.kept / command.name
            ignored = shutil.ignore_patterns("cache")
            shutil.copytree(kept, self.out, ignore=ignored, dirs_exist_ok=True)
        if command is not None and cache:
            self.fill_cache(command)

    def fill_cache(self, command: Command) -> None:
        shutil.copytree(self.kept / command.name / "cache", self.cache, dirs_exist_ok=True)

    # --- what is there ----------------------------------------------------------------------------

    def contents(self, command: Command) -> Contents:
        """Digests of all files of the command's artefacts, without how long it took."""
        found = {}
        for artefact in command.artefacts:
            place = self.out / artefact
            files = sorted(place.rglob("*")) if place.is_dir() else [place]
            for file in files:
                if file.is_file():
                    found[f"{artefact}:{file.relative_to(self.out)}"] = _digest(file)
        return found

    def strangers(self, command: Command) -> list[str]:
        """Names in the folders of the run that are neither artefacts nor the user's."""
        known = {artefact.split("/")[0] for artefact in command.artefacts} | {"mine.txt"}
        places = [path for path in self.out.iterdir() if path.name not in known]
        places += self.tmp.iterdir()
        places += [path for path in self.work.rglob(".*") if path.name.endswith((".tmp", ".old"))]
        return sorted({str(path.relative_to(self.work)) for path in places})


def _digest(file: Path) -> str:
    """Of the content, without how long the run took."""
    content = file.read_bytes()
    if file.name == "result.json":
        try:
            facts = json.loads(content)
            facts.pop("seconds", None)
            facts["trace"] = [row[1:] for row in facts.get("trace", ())]  # the first is a time
            if isinstance(facts.get("checksums"), dict):
                facts["checksums"].pop("header", None)  # of this very file
            content = json.dumps(facts).encode()
        except (ValueError, TypeError, AttributeError):
            pass  # damaged: it differs anyway
    elif file.name == "report.html":
        content = _SECONDS.sub(b"", content)
    return hashlib.sha256(content).hexdigest()[:16]


def _write_labels(path: Path) -> None:
    """The demo's true boxes in some frames, as COCO."""
    images: list[dict[str, object]] = []
    notes: list[dict[str, object]] = []
    for name in SPANS:
        truth = json.loads((DEMO / f"{name}.json").read_text())
        for frame in (5, 60):
            box = truth["object"]["box"][frame]
            if box is None:
                continue
            number = len(images) + 1
            images.append({"id": number, "video": f"{name}.mp4", "time": frame / truth["fps"],
                           "width": 320, "height": 240})  # fmt: skip
            x1, y1, x2, y2 = box
            notes.append({"id": number, "image_id": number, "category_id": 1,
                          "bbox": [x1, y1, x2 - x1, y2 - y1]})  # fmt: skip
    content = {"images": images, "annotations": notes, "categories": [{"id": 1, "name": "drawer"}]}
    path.write_text(json.dumps(content))
