"""The process that trains detectors for the page, one request after another.

Requests and answers are lines of JSON on stdin and stdout. The process ends when stdin does: so it
never outlives a server that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from objectstates.detect.labels import Labels

Answer = Callable[[dict[str, Any]], None]


def main() -> None:
    """Serve requests until stdin ends."""
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # the page comes first

    def answer(message: dict[str, Any]) -> None:
        try:
            out.write(json.dumps(message) + "\n")
            out.flush()
        except BrokenPipeError:  # the server has died
            os._exit(0)

    while True:
        serve(json.loads(requests.get()), answer)


def _read(requests: queue.Queue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)  # also out of a training that nobody waits for


def serve(request: dict[str, Any], answer: Answer) -> None:
    """Train on a label file, then tell the recall on held-out clips.

    request : ``labels`` and ``out``, paths; ``final``, whether the detector is to be kept;
        ``id``, repeated in each answer.
    """
    from objectstates.base.cache import content_digest
    from objectstates.base.errors import ObjectStatesError
    from objectstates.detect.fewshot_training import Recipe, train
    from objectstates.detect.labels import read_labels
    from objectstates.web.label.held_out import QUICK, held_out_recall

    def tell(kind: str, **facts: Any) -> None:
        answer({"id": request["id"], "kind": kind, **facts})

    try:
        digest = content_digest(Path(request["labels"]))
        labels = _present(read_labels(request["labels"]))
        by_hand = _by_hand(Path(request["labels"]))
        detector = train(
            labels,
            recipe=Recipe() if request["final"] else QUICK,
            progress=lambda done, total: tell(
                "progress", stage="train", **_even(done, total, len(labels.images))
            ),
        )
        detector.save(request["out"])
        tell("trained", counts=labels.counts)
        found = held_out_recall(
            labels,
            by_hand,
            fold_done=lambda done, n: tell("progress", stage="recall", done=done, total=n),
        )
        recall = None if found is None else found.to_json()
        tell("recall", recall=recall, counts=labels.counts, digest=digest)
    except ObjectStatesError as problem:
        tell("failed", error=str(problem))
    except Exception as problem:
        tell("failed", error=f"{type(problem).__name__}: {problem}")
        raise


def _even(done: int, total: int, images: int) -> dict[str, int]:
    """Progress in units of about the same time.

    The first ``images`` steps read an image each. Each of those after them fits a head, which takes
    about as long as reading all images.
    """
    read = min(done, images)
    return {"done": read + (done - read) * images, "total": images + (total - images) * images}


def _present(labels: Labels) -> Labels:
    """The labels of videos that are there: those of removed ones wait in the file."""
    images = tuple(image for image in labels.images if image.source.exists())
    return replace(labels, images=images) if images else labels


def _by_hand(path: Path) -> dict[str, bool]:
    """By the name that `read_labels` gives an image, whether a person looked at it."""
    content = json.loads(path.read_text(encoding="utf-8"))
    followed = {a["image_id"] for a in content["annotations"] if a.get("how") == "followed"}
    return {
        f"{image['video']} at {image['time']:.2f} s": image["id"] not in followed
        for image in content["images"]
    }


if __name__ == "__main__":
    main()
