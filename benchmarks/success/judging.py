"""Judge mixed corpora: fit, and compare what is said about every clip with how it was made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.success.mixing import Mixed
from benchmarks.trust.footage import Source
from objectstates import JointDiscovery
from objectstates.data.result import Result
from objectstates.data.success import LIKELY, UNLIKELY
from objectstates.discovery.progress import WEIGHTS, learn


@dataclass(frozen=True)
class Row:
    """One clip of one corpus.

    late : whether it starts shortly before its action.
    progress_error : mean absolute difference from the true progress; None where that is unknown.
    step_error : that of a step in the middle of the clip.
    """

    manipulation: str
    kind: str
    fold: int
    clip: str
    failed: bool
    reached: str
    chance: float
    evidence: dict[str, float]
    late: bool = False
    progress_error: float | None = None
    step_error: float | None = None


def judged(mixed: Mixed, source: Source) -> list[Row]:
    """Fit the corpus, without the verdict, which progress does not depend on."""
    fitted = JointDiscovery(verdict=False).fit(mixed.corpus).result_
    kept = set(fitted.clips)
    clips = np.array([n for n, clip in enumerate(mixed.corpus.clip_ids) if clip in kept])
    corpus, failed = mixed.corpus.select(clips), mixed.failed[clips]
    learned = learn(corpus, fitted)
    found = replace(fitted, progress=learned.progress, reached_chance=learned.chance)
    rows = []
    for n, clip in enumerate(found.clips):
        errors = (None, None) if failed[n] else progress_errors(found, n, source)
        own = {name: round(float(values[n]), 4) for name, values in learned.evidence.items()}
        chance = round(float(learned.chance[n]), 4)
        said = found.reached[n], chance, own, bool(mixed.late[clips[n]])
        rows.append(Row(mixed.name, mixed.kind, mixed.fold, clip, bool(failed[n]), *said, *errors))
    return rows


def progress_errors(found: Result, n: int, source: Source) -> tuple[float | None, float | None]:
    """Of the progress of clip n, and of a step in its middle; simulated clips only."""
    clip = next(c for c in source.clips if c.id == found.clips[n])
    path = clip.video.with_suffix(".json")
    if not path.exists() or found.progress is None:
        return None, None
    content = json.loads(path.read_text())
    rows = list(found.corpus.chunk_rows(n))
    times = found.corpus.chunks.time[rows]
    frames = np.clip((times * content["fps"]).astype(int), 0, content["n_frames"] - 1)
    true = np.clip(np.array(content["progress"])[frames], 0, 1)
    step = (times >= times.mean()).astype(float)
    error = float(np.abs(found.progress[rows] - true).mean())
    return round(error, 4), round(float(np.abs(step - true).mean()), 4)


def table(rows: Sequence[Row]) -> str:
    """Precision and recall of *not reached*, per manipulation and kind, and together."""
    lines = [
        "| manipulation | failures | clips | failed | said no | precision | recall "
        "| false of late; of others | unsure | progress error | of a step |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = sorted({(row.manipulation, row.kind) for row in rows})
    for name, kind in groups:
        lines.append(
            _line(name, kind, [r for r in rows if (r.manipulation, r.kind) == (name, kind)])
        )
    for kind in sorted({row.kind for row in rows}):
        lines.append(_line("**all**", kind, [row for row in rows if row.kind == kind]))
    return "\n".join(lines) if rows else "none"


def _line(name: str, kind: str, rows: Sequence[Row]) -> str:
    failed = np.array([row.failed for row in rows])
    no = np.array([row.reached == "no" for row in rows])
    unsure = np.mean([row.reached == "unsure" for row in rows])
    hits = int((failed & no).sum())
    precision = _share(hits, int(no.sum())) if failed.any() else "-"
    recall = _share(hits, int(failed.sum()))
    late, reached = np.array([row.late for row in rows]), ~failed
    alarms = "; ".join(f"{(no & own).sum()}/{own.sum()}" for own in (late, reached & ~late))
    errors = [_mean([row.progress_error for row in rows]), _mean([row.step_error for row in rows])]
    return (
        f"| {name} | {kind} | {len(rows)} | {failed.sum()} | {no.sum()} | {precision} | {recall} "
        f"| {alarms} | {unsure:.2f} | {errors[0]} | {errors[1]} |"
    )


def _share(hits: int, of: int) -> str:
    """With 95 % bounds by Wilson's formula, as if all were independent."""
    if not of:
        return "-"
    z = 1.96
    middle = (hits + z**2 / 2) / (of + z**2)
    half = z / (of + z**2) * np.sqrt(hits * (of - hits) / of + z**2 / 4)
    return f"{hits / of:.2f} ({middle - half:.2f}-{middle + half:.2f})"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f}" if known else "-"


def estimate(rows: Sequence[Row], real: Sequence[str] = ()) -> str:
    """Weights on all rows; and precision and recall where each manipulation is left out.

    real : manipulations of real clips; they count as much as all simulated ones.
    """
    names = sorted({row.manipulation for row in rows})
    lines = [_weights(rows, real)]
    hits = said = failed = 0
    for name in names:
        model = _fitted([row for row in rows if row.manipulation != name], real)
        own = [row for row in rows if row.manipulation == name]
        no = model.predict_proba(_matrix(own))[:, 1] <= UNLIKELY
        truth = np.array([row.failed for row in own])
        lines.append(f"{name}: {(no & truth).sum()} of {no.sum()} said, {truth.sum()} failed")
        hits, said = hits + int((no & truth).sum()), said + int(no.sum())
        failed += int(truth.sum())
    lines.append(
        f"together: precision {hits / max(said, 1):.2f}, recall {hits / max(failed, 1):.2f}"
    )
    return "\n\n".join(lines)


def _matrix(rows: Sequence[Row]) -> np.ndarray:
    return np.array([[row.evidence[name] for name in WEIGHTS] for row in rows])


def _fitted(rows: Sequence[Row], real: Sequence[str]) -> LogisticRegression:
    """Real and simulated manipulations count the same, and so do those of either kind."""
    clips = Counter(row.manipulation for row in rows)
    kinds = Counter(name in real for name in clips)
    weights = [1 / clips[row.manipulation] / kinds[row.manipulation in real] for row in rows]
    reached = [not row.failed for row in rows]
    scaled = np.array(weights) * len(rows) / sum(weights)
    return LogisticRegression(C=20, max_iter=1000).fit(_matrix(rows), reached, scaled)


def _weights(rows: Sequence[Row], real: Sequence[str]) -> str:
    model = _fitted(rows, real)
    named = {name: round(float(w), 2) for name, w in zip(WEIGHTS, model.coef_[0], strict=True)}
    bounds = f"no up to {UNLIKELY}, yes from {LIKELY}"
    return f"bias {model.intercept_[0]:.2f}, weights {named}; {bounds}"
