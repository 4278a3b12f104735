"""What holds of labels, whoever found them."""

import numpy as np

from objectstates import Corpus
from objectstates.data.synthetic import synthetic_corpus


def regression_objective(corpus, model):
    """f + g + d of the labels by plain ridge regression, with no code of the solver's."""
    total = 0.0
    in_seconds = model.time_unit == "second"
    coupling = model.nu if in_seconds else model.result_.summary["coupling_per_second"]
    y = (model.labels_[:, None] == [1, 2]).astype(float)
    chosen = corpus.chunks.offsets[:-1] + model.action_chunk_
    z = np.zeros((len(corpus.chunks.start), 1))
    z[chosen] = 1
    for x, labels, ridge in (
        (corpus.tracklets.features, y, model.mu),
        (corpus.chunks.features, z, model.lam),
    ):
        n, rows = len(labels), x.astype(np.float64)
        rows, centred = rows - rows.mean(axis=0), labels - labels.mean(axis=0)
        gram = rows.T @ rows + n * ridge * np.eye(rows.shape[1])
        weights = np.linalg.solve(gram, rows.T @ centred)
        loss = np.square(centred - rows @ weights).sum() / (2 * n)
        total += loss + ridge / 2 * np.square(weights).sum()
    for n in range(len(corpus)):
        tracklets = list(corpus.tracklet_rows(n))
        late = corpus.tracklets.time[tracklets] - corpus.chunks.time[chosen[n]]
        labels = model.labels_[tracklets]
        seconds = np.maximum(late[labels == 1], 0).sum() + np.maximum(-late[labels == 2], 0).sum()
        total += coupling / len(z) * seconds
    return total


def assert_constraints_hold(corpus, labels, action_chunk, exactly_one=False):
    for n in range(len(corpus)):
        rows = np.array(corpus.tracklet_rows(n))
        used = rows[labels[rows] > 0]
        used = used[np.argsort(corpus.tracklets.start[used])]
        assert (corpus.tracklets.end[used[:-1]] <= corpus.tracklets.start[used[1:]]).all()
        assert (np.diff(labels[used]) >= 0).all()
        assert set(labels[used]) == {1, 2}
        assert not exactly_one or len(used) == 2
        assert 0 <= action_chunk[n] < len(corpus.chunk_rows(n))


def with_impossible_clips():
    """Clip 1 has tracklets that all overlap, clip 3 has none."""
    clips = list(synthetic_corpus(n_clips=6, seed=1))
    overlapping = tuple(
        type(t)(5.0, 6.0 + i, t.feature, label=t.label) for i, t in enumerate(clips[1].tracklets)
    )
    clips[1] = type(clips[1])("overlapping", overlapping, clips[1].chunks)
    clips[3] = type(clips[3])("empty", (), clips[3].chunks)
    return Corpus.from_clips(clips)
