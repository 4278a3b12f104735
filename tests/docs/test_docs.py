"""Every command and every Python example of the documentation runs, in order, page by page.

Each page runs in its own folder, with the files that the pages mention: ``my_videos/``,
``more_videos/``, ``my_dataset/``, ``labels.json``, ``other_labels.json`` and ``truth.csv``. The
pages in `FITTED` also get ``drawer.npz``, ``my_corpus/`` and ``my_result/``; those in `OUT_OF_CORE`
get a ``my_corpus/`` of few features. Not run are

* commands in `NOT_RUN`, for the reasons given there;
* shell lines and Python blocks with a comment ``# needs ...``.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from objectstates import JointDiscovery
from objectstates.base.cache import cache_folder
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import find_clips
from tests.robots.datasets import CAMERA, WRIST, write_dataset

ROOT = Path(__file__).parents[2]
CLIPS = ROOT / "src" / "objectstates" / "demo" / "drawer"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SIMULATED = ROOT / "benchmarks" / "simulated" / "README.md"  # its commands need a simulator
FITTED = ("commands/", "cut", "evaluation", "export", "occurrences", "report", "scale")
MADE = ("drawer.npz", "my_corpus", "my_result", "few_features")
NOT_RUN = {"make": "creates an environment", "pip": "installs packages"}
OUT_OF_CORE = ("docs/scale.md", "docs/commands/fit.md")
FEW = 300  # features; out of core, thousands take many seconds to whiten
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks to run."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def shell_lines(text: str) -> list[list[str]]:
    """The words of every command to run."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if "# needs" not in line]
    return [words for words in commands if words and words[0] not in NOT_RUN]


def labels(folder: Path, clips: list[str], times: list[float]) -> dict[str, object]:
    """COCO labels of the demo's clips at some times (s), from their truth."""
    frames = [(clip, time) for clip in clips for time in times]
    annotations = []
    for number, (clip, time) in enumerate(frames):
        truth = json.loads((CLIPS / f"{clip}.json").read_text())
        x1, y1, x2, y2 = truth["object"]["box"][round(time * truth["fps"])]
        box = [x1, y1, x2 - x1, y2 - y1]
        annotations.append({"id": number, "image_id": number, "category_id": 1, "bbox": box})
    return {
        "images": [
            {"id": number, "video": f"{folder.name}/{clip}.mp4", "time": time}
            for number, (clip, time) in enumerate(frames)
        ],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "drawer"}],
    }


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the files that the pages mention."""
    root = tmp_path_factory.mktemp("prepared")
    names = {"my_videos": ("drawer_06", "drawer_07"), "more_videos": ("drawer_16",)}
    truth = ["clip,action_start,action_end"]
    for folder, clips in names.items():
        (root / folder).mkdir()
        for clip in clips:
            shutil.copy(CLIPS / f"{clip}.mp4", root / folder)
            start, end = json.loads((CLIPS / f"{clip}.json").read_text())["action_interval_s"]
            truth.append(f"{clip},{start},{end}")
    write_dataset(root / "my_dataset", cameras=(CAMERA, WRIST))
    (root / "truth.csv").write_text("\n".join(truth) + "\n")
    mine, more = root / "my_videos", root / "more_videos"
    (root / "labels.json").write_text(json.dumps(labels(mine, ["drawer_06", "drawer_07"], [0, 6])))
    (root / "other_labels.json").write_text(json.dumps(labels(more, ["drawer_16"], [1, 5])))
    shutil.copy(CLIPS / "drawer.npz", root)
    settings = IngestSettings(detector=f"fewshot:{root / 'drawer.npz'}", object_name="drawer")
    corpus, _ = ingest(find_clips([mine]), settings, cache=cache_folder() / "ingest")
    corpus.save(root / "my_corpus")
    JointDiscovery().fit(corpus).save(root / "my_result")
    few = {name: getattr(corpus, name).features[:, :FEW] for name in ("tracklets", "chunks")}
    corpus.with_features(**few).save(root / "few_features")
    return root


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_examples_of_a_page_run(page, prepared, tmp_path, monkeypatch, run):
    name = str(page.relative_to(ROOT))
    fitted = any(name.startswith(f"docs/{start}") for start in FITTED)
    for entry in prepared.iterdir():
        if fitted or entry.name not in MADE:
            (shutil.copytree if entry.is_dir() else shutil.copy)(entry, tmp_path / entry.name)
    if name in OUT_OF_CORE:
        shutil.rmtree(tmp_path / "my_corpus")
        (tmp_path / "few_features").rename(tmp_path / "my_corpus")
    # Processes take longer to start than to ingest so few clips.
    monkeypatch.setattr("objectstates.app.discover.default_processes", lambda: 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            if "# needs" not in text:
                exec(compile(text, str(page), "exec"), names)
            continue
        for words in shell_lines(text):
            assert words[0] == "objectstates", f"{words[0]} is neither objectstates nor in NOT_RUN"
            code, _, err = run(*words[1:])
            assert code == 0, f"{shlex.join(words)}: {err}"


def test_only_commands_that_need_something_are_left_out():
    found = [line for page in PAGES for lang, text in blocks(page) if lang == "sh"
             for line in shell_lines(text)]  # fmt: skip
    assert {"discover", "ingest", "fit", "predict", "inspect", "report", "export", "demo"} <= {
        words[1] for words in found
    }
    text = "make demo\npip install .\nobjectstates a \\\n  b # c\nobjectstates d # needs much\n"
    assert shell_lines(text) == [["objectstates", "a", "b"]]


def test_command_pages_agree_with_help():
    from tools.command_pages import OUT, pages

    written = {path.name: path.read_text(encoding="utf-8") for path in OUT.glob("*.md")}
    assert written == pages(), "run python -m tools.command_pages"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", [*PAGES, SIMULATED], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not anchor or anchor[1:] in anchors(path), target + anchor


def test_files_that_the_contributors_guide_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w.]+/[\w./]*\.(?:py|md|toml))`", text)
    assert len(paths) > 20
    places = (ROOT, ROOT / "src" / "objectstates")
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []
