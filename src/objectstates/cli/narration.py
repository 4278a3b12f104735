"""The commands that use speech: transcribe, retrieve."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import TextMethod
from objectstates.base.errors import NarrationError, SettingError, VideoError
from objectstates.cli.options import AsJson, EngineOption, RayAddress, cluster_address, flag
from objectstates.cli.output import complain, show
from objectstates.cli.progress import status_line

if TYPE_CHECKING:
    from objectstates.narration.sentences import Sentences
    from objectstates.narration.windows import Scorer


def transcribe(
    videos: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    out: Annotated[
        Path | None, flag("Folder for the .vtt files; default: beside each video.")
    ] = None,
    engine: Annotated[
        str, flag("Speech recogniser: moonshine (English, built in) or whisper.")
    ] = "moonshine",
    model: Annotated[
        str | None, flag("Folder of the model, or for whisper a size such as small.")
    ] = None,
    language: Annotated[str, flag("Code of the spoken language.")] = "en",
    force: Annotated[bool, flag("Replace existing subtitles.", "--force")] = False,
    json: AsJson = False,
) -> None:
    """Transcribe the speech of videos as WebVTT subtitles."""
    from objectstates.narration.speech import make_recogniser
    from objectstates.narration.speech import transcribe as recognise
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
            with status_line(f"listening to {video.name}") as update:
                cues = list(
                    recognise(
                        video,
                        recogniser,
                        problems=problems,
                        progress=lambda seconds: update(f"{video.name}: {seconds:.0f} s"),  # noqa: B023
                    )
                )
            write_webvtt(target, cues)
            written.append(str(target))
        except (NarrationError, VideoError) as problem:
            skipped.append(str(problem))
        for message in problems:
            complain(f"warning: {message}")
    for message in skipped:
        complain(f"warning: left out {message}")
    if skipped and not written and not kept:
        raise NarrationError("nothing was transcribed: no video has speech that can be recognised")
    show({"written": written, "kept": kept, "left_out": skipped}, json)


def _targets(videos: list[Path], out: Path | None) -> dict[Path, Path]:
    """The subtitle file of each video; two videos must not have the same one."""
    targets: dict[Path, Path] = {}
    for video in videos:
        target = (out or video.parent) / f"{video.stem}.vtt"
        if target in targets:
            raise NarrationError(
                f"{targets[target]} and {video} would both be written to {target}: rename one"
            )
        targets[target] = video
    return targets


# long: half of it declares the options
def retrieve(
    narrations: Annotated[list[Path], typer.Argument(help="Subtitle files, or folders of them.")],
    out: Annotated[Path, flag("The list of clips to write (CSV).")],
    action: Annotated[
        str | None, flag("An action with built-in sentences, such as put-wheel.")
    ] = None,
    positive: Annotated[
        Path | None, flag("Sentences that name the action, one per line; a file or a folder.")
    ] = None,
    negative: Annotated[Path | None, flag("Sentences that do not name the action.")] = None,
    phrase: Annotated[str | None, flag('The action in words, such as "remove the tire".')] = None,
    method: Annotated[
        TextMethod,
        flag("Classify by TF-IDF of words (the paper's method), or by sentence embeddings."),
    ] = "tfidf",
    model: Annotated[Path | None, flag("Folder of a sentence-embedding model.")] = None,
    videos: Annotated[
        Path | None, flag("Folder of the videos; default: beside the narrations.")
    ] = None,
    top: Annotated[int, flag("Number of clips to keep.")] = 20,
    per_video: Annotated[int, flag("Largest number of clips per video.")] = 1,
    before: Annotated[float, flag("Seconds of the clip before the sentence.")] = 5.0,
    after: Annotated[float, flag("Seconds of the clip after it.")] = 15.0,
    page: Annotated[Path | None, flag("Also write an HTML page with the narrations.")] = None,
    processes: Annotated[int, flag("Number of worker processes.")] = 1,
    engine: EngineOption = "local",
    ray_address: RayAddress = "auto",
    json: AsJson = False,
) -> None:
    """Find clips of an action in long videos by their narration."""
    from objectstates.base.targets import check_file, starts_with
    from objectstates.narration.heatmap_page import PAGE_START
    from objectstates.narration.retrieval import (
        LIST_HEADER,
        Search,
        retrieve_from_files,
        write_clips,
    )
    from objectstates.narration.subtitles import find_narrations

    inputs = [*narrations, positive, negative, model]
    check_file(out, inputs, starts_with(LIST_HEADER), NarrationError)
    if page is not None:
        check_file(page, [*inputs, out], starts_with(PAGE_START), NarrationError)
    sentences = _sentences(action, positive, negative, phrase)
    scorer, facts = _scorer(sentences, phrase, method, model)
    if videos is not None and not videos.is_dir():
        raise NarrationError(f"{videos} is no folder: --videos names the folder of the videos")
    files = find_narrations(narrations)
    clips, problems = retrieve_from_files(
        files,
        Search(scorer, top, per_video, before, after),
        videos=videos,
        processes=processes,
        ray_address=cluster_address(engine, ray_address),
    )
    for message in problems:
        complain(f"warning: left out {message}")
    if not clips:
        raise NarrationError("none of the narrations could be read: nothing was written")
    unmatched = sum(clip.narration.video is None for clip in clips)
    if unmatched:
        complain(
            f"warning: {unmatched} clips are of narrations without a video beside them; "
            "they are listed by name (--videos names the folder of the videos)"
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
    """The training sentences; None if only a phrase is given."""
    from objectstates.narration.sentences import Sentences, load_action, read_sentences

    own = positive is not None or negative is not None
    if sum((action is not None, own, phrase is not None)) != 1:
        raise SettingError("give one of --action, --positive with --negative, or --phrase")
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
    """The scorer, and its cross-validated accuracy."""
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
