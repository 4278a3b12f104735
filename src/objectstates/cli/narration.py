"""Commands about what is said in videos: transcribe, and retrieve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import TextMethod
from objectstates.base.errors import NarrationError, SettingError, VideoError
from objectstates.cli.engine import EngineOption, RayAddress
from objectstates.cli.output import complain, printable, show

if TYPE_CHECKING:
    from objectstates.narration.sentences import Sentences
    from objectstates.narration.windows import Scorer


def transcribe(
    videos: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the .vtt files; default: beside each video.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="moonshine (English, built in) or whisper.")
    ] = "moonshine",
    model: Annotated[
        str | None, typer.Option(help="A folder, or for whisper a size such as small.")
    ] = None,
    language: Annotated[str, typer.Option(help="Code of the language spoken.")] = "en",
    force: Annotated[bool, typer.Option("--force", help="Replace subtitles that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write down what is said in videos, as WebVTT subtitles."""
    from objectstates.narration.speech import make_recogniser
    from objectstates.narration.speech import transcribe as listen
    from objectstates.narration.subtitles import write_webvtt
    from objectstates.video.clip_list import find_clips

    targets = _targets([span.video for span in find_clips(videos)], out)
    recogniser = make_recogniser(engine, model, language)
    written: list[str] = []
    kept: list[str] = []
    skipped: list[str] = []
    for target, video in targets.items():
        if target.exists() and not force:
            kept.append(str(target))
            continue
        problems: list[str] = []
        try:
            with _listening(video) as watch:
                cues = list(listen(video, recogniser, problems=problems, progress=watch))
            write_webvtt(target, cues)
            written.append(str(target))
        except (NarrationError, VideoError) as problem:
            skipped.append(str(problem))
        for message in problems:
            complain(f"warning: {message}")
    for message in skipped:
        complain(f"warning: left out {message}")
    if skipped and not written and not kept:
        raise NarrationError("nothing was written down: no video has speech that can be heard")
    show({"written": written, "kept": kept, "left_out": skipped}, json)


def _targets(videos: list[Path], out: Path | None) -> dict[Path, Path]:
    """Where the words of each video go; two videos must not go to the same place."""
    targets: dict[Path, Path] = {}
    for video in videos:
        target = (out or video.parent) / f"{video.stem}.vtt"
        if target in targets:
            raise NarrationError(
                f"{targets[target]} and {video} would both be written to {target}: rename one"
            )
        targets[target] = video
    return targets


@contextmanager
def _listening(video: Path) -> Iterator[Callable[[float], None]]:
    """How far a video has been heard, on stderr; nothing without a terminal."""
    from rich.console import Console

    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield lambda _seconds: None
        return
    with console.status(printable(f"listening to {video.name}")) as status:
        yield lambda seconds: status.update(printable(f"{video.name}: heard {seconds:.0f} s"))


def retrieve(
    narrations: Annotated[list[Path], typer.Argument(help="Subtitle files, or folders of them.")],
    out: Annotated[Path, typer.Option(help="The list of clips to write (CSV).")],
    action: Annotated[
        str | None, typer.Option(help="An action that we have sentences for.")
    ] = None,
    positive: Annotated[
        Path | None, typer.Option(help="Sentences that name the action, one a line, or a folder.")
    ] = None,
    negative: Annotated[Path | None, typer.Option(help="Sentences that do not.")] = None,
    phrase: Annotated[
        str | None, typer.Option(help='The action in words, such as "remove the tire".')
    ] = None,
    method: Annotated[
        TextMethod, typer.Option(help="Classify by words (the paper's), or by their meaning.")
    ] = "tfidf",
    model: Annotated[Path | None, typer.Option(help="Folder of a language model.")] = None,
    videos: Annotated[
        Path | None, typer.Option(help="Where the videos are; default: beside the narrations.")
    ] = None,
    top: Annotated[int, typer.Option(help="Keep this many clips.")] = 20,
    per_video: Annotated[int, typer.Option(help="Clips of one video at most.")] = 1,
    before: Annotated[float, typer.Option(help="Seconds before what is said.")] = 5.0,
    after: Annotated[float, typer.Option(help="Seconds after it.")] = 15.0,
    page: Annotated[Path | None, typer.Option(help="Also show the narrations (HTML).")] = None,
    processes: Annotated[int, typer.Option(help="How many narrations to search at a time.")] = 1,
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Find the clips of an action in long videos by what is said in them."""
    from objectstates.narration.retrieval import Search, retrieve_from_files, write_clips
    from objectstates.narration.subtitles import find_narrations

    sentences = _sentences(action, positive, negative, phrase)
    scorer, facts = _scorer(sentences, phrase, method, model)
    if videos is not None and not videos.is_dir():
        raise NarrationError(f"{videos} is no folder: --videos is where the videos are")
    files = find_narrations(narrations)
    clips, problems = retrieve_from_files(
        files,
        Search(scorer, top, per_video, before, after),
        videos=videos,
        processes=processes,
        ray_address=ray_address if engine == "ray" else None,
    )
    for message in problems:
        complain(f"warning: left out {message}")
    if not clips:
        raise NarrationError("none of the narrations could be read: nothing was written")
    lonely = sum(clip.narration.video is None for clip in clips)
    if lonely:
        complain(
            f"warning: {lonely} clips are of narrations without a video beside them; "
            "they are listed by name (--videos FOLDER tells where the videos are)"
        )
    write_clips(out, clips)
    if page is not None:
        from objectstates.narration.heatmap_page import write_page

        write_page(
            page, clips, scorer, f"Where they say: {phrase or action or positive}".replace("_", " ")
        )
    show(
        {
            "narrations": len(files) - len(problems),
            **facts,
            "clips": [f"{c.score:.3f} {c.narration.name} {c.time:.0f} s: {c.said}" for c in clips],
            "written_to": [str(path) for path in (out, page) if path is not None],
        },
        json,
    )


def _sentences(
    action: str | None, positive: Path | None, negative: Path | None, phrase: str | None
) -> Sentences | None:
    """What to learn from; None where only a phrase is given."""
    from objectstates.narration.sentences import Sentences, load_action, read_sentences

    own = positive is not None or negative is not None
    if sum((action is not None, own, phrase is not None)) != 1:
        raise SettingError(
            "say what to look for in one way: --action, --positive with --negative, or --phrase"
        )
    if action is not None:
        return load_action(action).sentences
    if phrase is not None:
        return None
    if positive is None or negative is None:
        raise SettingError("--positive and --negative belong together: give both")
    return Sentences(tuple(read_sentences(positive)), tuple(read_sentences(negative)))


def _scorer(
    sentences: Sentences | None, phrase: str | None, method: TextMethod, model: Path | None
) -> tuple[Scorer, dict[str, Any]]:
    """The scorer, and how well it tells sentences apart that it has not seen."""
    from objectstates.narration.text_classifier import SentenceClassifier, TfidfSvm, cross_validate

    if sentences is not None and method == "tfidf":
        classifier: SentenceClassifier = TfidfSvm()
    else:
        from objectstates.narration.embeddings import EmbeddingSvm, PhraseMatcher
        from objectstates.narration.sentence_encoder import SentenceEncoder

        encoder = SentenceEncoder(model)
        if sentences is None:
            return PhraseMatcher(encoder, phrase or ""), {}
        classifier = EmbeddingSvm(encoder)
    if min(len(sentences.positive), len(sentences.negative)) < 2:
        return classifier.fit(sentences), {}
    return classifier, {"cross_validation": asdict(cross_validate(classifier, sentences))}
