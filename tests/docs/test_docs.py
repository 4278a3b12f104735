"""Every command and every Python example of the documentation runs, in order, page by page.

A page starts in a folder of its own, with the files that it speaks of: ``my_videos/``,
``more_videos/``, ``labels.json``, ``other_labels.json`` and ``truth.csv``; the pages in `FURTHER`
also with ``drawer.npz``, ``my_corpus/`` and ``my_result/``. What is left out, visibly:

* commands in `NOT_RUN`, for the reasons given there;
* what says ``# needs`` something, in a line of the shell or anywhere in a block of Python.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from objectstates import JointDiscovery
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import find_clips

ROOT = Path(__file__).parents[2]
CLIPS = ROOT / "src" / "objectstates" / "demo"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FURTHER = ("commands/", "evaluation", "export", "report", "scale")
NOT_RUN = {"make": "works in an environment of its own", "pip": "installs"}
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of the blocks to run."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def shell_lines(text: str) -> list[list[str]]:
    """The words of every command that is to be run."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if "# needs" not in line]
    return [words for words in commands if words and words[0] not in NOT_RUN]


def labels(folder: Path, clips: list[str], times: list[float]) -> dict:
    """COCO labels of moments of the demo's clips, from their truth."""
    moments = [(clip, time) for clip in clips for time in times]
    annotations = []
    for number, (clip, time) in enumerate(moments):
        truth = json.loads((CLIPS / f"{clip}.json").read_text())
        x1, y1, x2, y2 = truth["object"]["box"][round(time * truth["fps"])]
        box = [x1, y1, x2 - x1, y2 - y1]
        annotations.append({"id": number, "image_id": number, "category_id": 1, "bbox": box})
    return {
        "images": [
            {"id": number, "video": f"{folder.name}/{clip}.mp4", "time": time}
            for number, (clip, time) in enumerate(moments)
        ],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "drawer"}],
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Shared by all pages: what one has seen of a clip need not be seen again by the next."""
    folder = tmp_path_factory.getbasetemp() / "graphs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OBJECTSTATES_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, cache):
    """A folder with all that pages speak of."""
    root = tmp_path_factory.mktemp("prepared")
    names = {"my_videos": ("drawer_06", "drawer_07", "drawer_13"), "more_videos": ("drawer_16",)}
    truth = ["clip,action_start,action_end"]
    for folder, clips in names.items():
        (root / folder).mkdir()
        for clip in clips:
            shutil.copy(CLIPS / f"{clip}.mp4", root / folder)
            start, end = json.loads((CLIPS / f"{clip}.json").read_text())["action_interval_s"]
            truth.append(f"{clip},{start},{end}")
    (root / "truth.csv").write_text("\n".join(truth) + "\n")
    mine, more = root / "my_videos", root / "more_videos"
    (root / "labels.json").write_text(json.dumps(labels(mine, ["drawer_06", "drawer_07"], [0, 6])))
    (root / "other_labels.json").write_text(json.dumps(labels(more, ["drawer_16"], [1, 5])))
    shutil.copy(CLIPS / "drawer.npz", root)
    settings = IngestSettings(detector=f"fewshot:{root / 'drawer.npz'}", object_name="drawer")
    corpus, _ = ingest(find_clips([mine]), settings, cache=cache / "ingest")
    corpus.save(root / "my_corpus")
    JointDiscovery().fit(corpus).save(root / "my_result")
    return root


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_says_can_be_done(page, prepared, tmp_path, monkeypatch, run):
    further = any(str(page.relative_to(ROOT)).startswith(f"docs/{start}") for start in FURTHER)
    for entry in prepared.iterdir():
        if further or entry.name not in ("drawer.npz", "my_corpus", "my_result"):
            (shutil.copytree if entry.is_dir() else shutil.copy)(entry, tmp_path / entry.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language == "python":
            if "# needs" not in text:
                exec(compile(text, str(page), "exec"), names)
            continue
        for words in shell_lines(text):
            assert words[0] == "objectstates", f"{words[0]} is neither ours nor in NOT_RUN"
            code, _, err = run(*words[1:])
            assert code == 0, f"{shlex.join(words)}: {err}"


def test_commands_are_found_and_left_out_only_by_the_rule():
    found = [line for page in PAGES for lang, text in blocks(page) if lang == "sh"
             for line in shell_lines(text)]  # fmt: skip
    assert {"discover", "ingest", "fit", "predict", "inspect", "report", "export", "demo"} <= {
        words[1] for words in found
    }
    text = "make demo\npip install .\nobjectstates a \\\n  b # c\nobjectstates d # needs much\n"
    assert shell_lines(text) == [["objectstates", "a", "b"]]


def test_pages_of_commands_say_what_help_says():
    from tools.command_pages import OUT, pages

    written = {path.name: path.read_text(encoding="utf-8") for path in OUT.glob("*.md")}
    assert written == pages(), "run python -m tools.command_pages"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"
