"""A corpus as a folder: written, read, replaced, damaged."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates import ChangeProfile, Corpus, TrackletLabel
from objectstates.base.errors import CorpusError
from objectstates.data.corpus_io import FeaturePieces, write_with_features
from objectstates.data.synthetic import synthetic_corpus
from tests.data.corpora import assert_same, columns, comparable, plain_clips
from tests.results import remove_checksums


def test_clips_survive_the_round_trip_through_a_corpus_and_a_folder(tmp_path):
    corpus = Corpus.from_clips(plain_clips(), info={"fps": 25})
    corpus.save(tmp_path / "corpus")
    again = Corpus.load(tmp_path / "corpus")
    assert_same(corpus, again)
    clip, original = again[0], plain_clips()[0]
    assert (clip.video, clip.start, clip.end) == ("some/video.mp4", 10.0, 12.0)
    assert clip.tracklets[0].boxes == original.tracklets[0].boxes
    assert clip.tracklets[0].label is TrackletLabel.STATE_1
    assert clip.tracklets[1].time == 1.25
    assert clip.tracklets[1].allowed == (False, True)
    assert clip.chunks[0].label == 1
    assert clip.chunks[0].allowed is False
    assert again[1].tracklets == ()


profiles = st.builds(
    ChangeProfile,
    start=st.floats(-1e6, 1e6),
    step=st.floats(1e-3, 1e3),
    curve=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8).map(
        lambda values: np.array(values, np.float32)
    ),
    where=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(0, 255)).map(
        lambda size: np.arange(size[0] * size[1], dtype=np.int64).reshape(size[:2]) + size[2]
    ).map(lambda pixels: (pixels % 256).astype(np.uint8)),
)  # fmt: skip
profiles |= profiles.map(lambda known: replace(known, scale=8.0))
profiles |= profiles.map(lambda known: replace(known, local=known.curve[::-1]))
profiles |= profiles.map(lambda known: replace(known, motion=known.curve[::-1]))


@given(changes=st.lists(st.none() | profiles, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_change_profiles_survive_all_that_is_done_with_a_corpus(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("changes") / "c"
    clips = [replace(plain_clips()[0], id=str(n), change=c) for n, c in enumerate(changes)]
    corpus = Corpus.from_clips(clips)
    corpus.save(folder)
    expected = list(map(comparable, changes))
    bare = corpus.without_features()
    again = Corpus.load(folder, features=False)
    for kept in (corpus, bare, again, Corpus.from_clips(list(bare))):
        assert list(map(comparable, kept.changes)) == expected
    turned = again.select(range(len(changes))[::-1])
    assert list(map(comparable, turned.changes)) == expected[::-1]
    assert [comparable(clip.change) for clip in turned] == expected[::-1]
    has_columns = "change" in pq.read_schema(folder / "clips.parquet").names
    assert has_columns == any(change is not None for change in changes)


def test_change_profiles_are_plain_parquet_for_others(tmp_path):
    Corpus.from_clips(plain_clips()).save(tmp_path / "c")
    first, second = pq.read_table(tmp_path / "c" / "clips.parquet").to_pylist()
    assert (first["change_start"], first["change_step"]) == (10.0, 0.4)
    assert first["change"] == [0.0, 0.25, 0.5, 0.0, 0.0]
    assert first["change_where"] == [0, 10, 255, 0, 0, 128]
    assert first["change_where_width"] == 3
    assert first["change_where_scale"] == 106.5
    assert {second[name] for name in second if name.startswith("change")} == {None}


@pytest.mark.parametrize("size", [1, 7, 20])
def test_folder_holds_the_same_corpus(tmp_path, size):
    corpus = synthetic_corpus(n_clips=size, seed=size)
    corpus.save(tmp_path / "c")
    assert_same(corpus, Corpus.load(tmp_path / "c"))


def test_same_corpus_same_bytes(tmp_path):
    for name in ("one", "two"):
        synthetic_corpus(n_clips=3).save(tmp_path / name)
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@given(
    cuts=st.lists(st.integers(0, 700), max_size=8).map(sorted),
    size=st.sampled_from([0, 3, 9000]),
)
@settings(max_examples=20, deadline=None)
def test_features_in_pieces_give_the_same_bytes(tmp_path_factory, cuts, size):
    folder = tmp_path_factory.mktemp("pieces")
    corpus = synthetic_corpus(n_clips=10, tracklets_per_clip=7, chunks_per_clip=30, action_size=5)
    rows = np.random.default_rng(0).standard_normal((70, size)).astype(np.float32)
    corpus = corpus.with_features(tracklets=rows)
    corpus.save(folder / "whole")
    pieces = [
        FeaturePieces(f.shape[1], iter(np.split(f, [cut for cut in cuts if cut <= len(f)])))
        for f in (corpus.tracklets.features, corpus.chunks.features)
    ]
    write_with_features(corpus.without_features(), folder / "pieces", *pieces)
    for path in (folder / "whole").iterdir():
        assert path.read_bytes() == (folder / "pieces" / path.name).read_bytes(), path.name
    assert_same(Corpus.load(folder / "pieces"), corpus)


@pytest.mark.parametrize(
    ("row", "message"), [(np.full((1, 4), np.nan), "'b', tracklet 2: feature"), ([], "4 features")]
)
def test_features_in_pieces_are_checked(tmp_path, row, message):
    corpus = Corpus.from_arrays(**columns())
    pieces = [np.ones((4, 4)), np.reshape(row, (-1, 4))]
    chunks = FeaturePieces(6, [corpus.chunks.features])
    with pytest.raises(CorpusError, match=message):
        write_with_features(corpus, tmp_path / "c", FeaturePieces(4, pieces), chunks)
    assert list(tmp_path.iterdir()) == []


def test_without_a_tracklet_the_size_of_features_is_kept(tmp_path):
    empty: dict[str, list[float]] = {name: [] for name in ("tracklet_start", "tracklet_end")}
    features = np.empty((0, 4))
    corpus = Corpus.from_arrays(
        **columns(tracklets_per_clip=[0, 0], tracklet_features=features, **empty)
    )
    corpus.save(tmp_path / "c")
    assert Corpus.load(tmp_path / "c").tracklets.features.shape == (0, 4)


def test_tables_are_plain_parquet_for_others(tmp_path):
    corpus = synthetic_corpus(n_clips=3)
    corpus.save(tmp_path / "c")
    table = pq.read_table(tmp_path / "c" / "tracklets.parquet")
    feature = table.schema.field("feature").type
    assert pa.types.is_fixed_size_list(feature)
    assert feature.value_type == pa.float32()
    assert feature.list_size == corpus.tracklets.features.shape[1]
    values = table["feature"].combine_chunks().flatten().to_numpy()
    np.testing.assert_array_equal(values, corpus.tracklets.features.ravel())


def test_optional_columns_may_be_missing(tmp_path):
    corpus = Corpus.from_arrays(**columns())
    corpus.save(tmp_path / "c")
    remove_checksums(tmp_path / "c")
    for name in ("tracklets", "chunks"):
        path = tmp_path / "c" / f"{name}.parquet"
        pq.write_table(pq.read_table(path).select(["clip", "start", "end", "feature"]), path)
    assert_same(corpus, Corpus.load(tmp_path / "c"))


def test_an_earlier_corpus_is_replaced_but_no_other_folder(tmp_path):
    synthetic_corpus(n_clips=2).save(tmp_path / "c")
    synthetic_corpus(n_clips=3).save(tmp_path / "c")
    assert len(Corpus.load(tmp_path / "c")) == 3
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("dear")
    with pytest.raises(CorpusError, match="holds something else"):
        synthetic_corpus(n_clips=2).save(tmp_path / "photos")
    assert (tmp_path / "photos" / "me.jpg").read_text() == "dear"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "photos"]
    (tmp_path / "c" / "notes.txt").write_text("mine")  # ours, and something of the user's
    with pytest.raises(CorpusError, match="holds something else"):
        synthetic_corpus(n_clips=2).save(tmp_path / "c")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "corpus.json").write_text('{"words": 3}')  # another corpus altogether
    with pytest.raises(CorpusError, match="holds something else"):
        synthetic_corpus(n_clips=2).save(tmp_path / "other")


def test_a_link_is_followed(tmp_path):
    synthetic_corpus(n_clips=2).save(tmp_path / "c")
    (tmp_path / "link").symlink_to("c")
    synthetic_corpus(n_clips=3).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(Corpus.load(tmp_path / "c")) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "link"]


def test_tables_rewritten_by_other_tools_are_read(tmp_path):
    """Some tools write empty lists of boxes as lists of the null type."""
    corpus = Corpus.from_arrays(**columns())
    corpus.save(tmp_path / "c")
    empty = pa.array([[]] * 5, pa.list_(pa.null()))
    rewrite(tmp_path / "c", "tracklets", lambda t: t.set_column(
        t.schema.names.index("boxes"), "boxes", empty))  # fmt: skip
    assert_same(corpus, Corpus.load(tmp_path / "c"))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("label", [0, 1, 9, 0, 0], "from 0 to 8"),
        ("label", [0, 1, 1.5, 0, 0], "from 0 to 8"),
        ("allowed_1", [0, 1, 7, 0, 0], "true or false"),
        ("boxes", ["a", "b", "c", "d", "e"], "boxes must be lists"),
    ],
)
def test_columns_are_checked_on_disk_as_in_memory(tmp_path, column, values, message):
    Corpus.from_arrays(**columns()).save(tmp_path / "c")
    rewrite(tmp_path / "c", "tracklets", lambda t: t.set_column(
        t.schema.names.index(column), column, pa.array(values)))  # fmt: skip
    with pytest.raises(CorpusError, match=message):
        Corpus.load(tmp_path / "c")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("change", [None, None], "clip 'first' has some of the columns change"),
        ("change_step", [0.4, 0.4], "clip 'no tracklets' has some of the columns change"),
        ("change", [[0.1, None], None], "curve must have finite values"),
        ("change", ["a", None], "column change must be lists of float"),
        ("change_where", [[0, 1, 999], None], "column change_where must be lists of uint8"),
        ("change_where_width", [4, None], "6 pixels of change_where.* change_where_width 4"),
        ("change_where_width", [0, None], "change_where_width 0"),
        ("change_where_scale", [-1.0, None], "scale -1 must be a number of pixels of 0 or more"),
    ],
)
def test_change_profiles_are_checked_on_disk_as_in_memory(tmp_path, column, values, message):
    Corpus.from_clips(plain_clips()).save(tmp_path / "c")
    rewrite(tmp_path / "c", "clips", lambda t: t.set_column(
        t.schema.names.index(column), column, pa.array(values)))  # fmt: skip
    with pytest.raises(CorpusError, match=message) as caught:
        Corpus.load(tmp_path / "c")
    assert str(tmp_path) in str(caught.value)


def test_a_label_that_is_not_a_number_is_unknown(tmp_path):
    Corpus.from_arrays(**columns()).save(tmp_path / "c")
    labels = pa.array([1.0, float("nan"), None, 2.0, 3.0])
    rewrite(tmp_path / "c", "tracklets", lambda t: t.set_column(
        t.schema.names.index("label"), "label", labels))  # fmt: skip
    assert Corpus.load(tmp_path / "c").tracklets.label.tolist() == [1, -1, -1, 2, 3]


def test_damaged_bytes_never_show_a_traceback(tmp_path):
    Corpus.from_arrays(**columns()).save(tmp_path / "c")
    rng = np.random.default_rng(0)
    for path in sorted((tmp_path / "c").iterdir()):
        whole = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(whole)
            for at in rng.integers(0, len(whole), 3):
                damaged[at] = rng.integers(256)
            path.write_bytes(damaged)
            with contextlib.suppress(CorpusError):  # the only error there may be
                Corpus.load(tmp_path / "c")
        path.write_bytes(whole)
    assert len(Corpus.load(tmp_path / "c")) == 2


def test_info_must_be_plain(tmp_path):
    corpus = Corpus.from_arrays(**columns(info={"when": object()}))
    with pytest.raises(CorpusError, match="plain JSON"):
        corpus.save(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_crash_while_writing_leaves_the_earlier_corpus(tmp_path, monkeypatch):
    synthetic_corpus(n_clips=2).save(tmp_path / "c")

    def full_disk(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(CorpusError, match="no space"):
        synthetic_corpus(n_clips=3).save(tmp_path / "c")
    monkeypatch.undo()
    assert len(Corpus.load(tmp_path / "c")) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def damage_version(folder):
    header = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps({**header, "format_version": 99}))


def damage_json(folder):
    (folder / "corpus.json").write_text("{half")


def damage_parquet(folder):
    remove_checksums(folder)
    path = folder / "tracklets.parquet"
    path.write_bytes(path.read_bytes()[:1000])


def remove_table(folder):
    (folder / "chunks.parquet").unlink()


def rewrite(folder, name, change):
    remove_checksums(folder)
    table = pq.read_table(folder / f"{name}.parquet")
    pq.write_table(change(table), folder / f"{name}.parquet")


def drop_feature(folder):
    rewrite(folder, "chunks", lambda t: t.drop_columns("feature"))


def ragged_feature(folder):
    ragged = pa.array([[1.0] * (i + 1) for i in range(5)], pa.list_(pa.float32()))
    rewrite(
        folder,
        "tracklets",
        lambda t: t.set_column(t.schema.names.index("feature"), "feature", ragged),
    )


def unknown_clip(folder):
    clips = pa.array(["a", "a", "b", "b", "z"])
    rewrite(folder, "tracklets", lambda t: t.set_column(0, "clip", clips))


def not_contiguous(folder):
    clips = pa.array(["a", "b", "a", "b", "b"])
    rewrite(folder, "tracklets", lambda t: t.set_column(0, "clip", clips))


def null_start(folder):
    values = pa.array([0.0, None, 0, 0, 2])
    rewrite(folder, "tracklets", lambda t: t.set_column(1, "start", values))


def text_for_numbers(folder):
    values = pa.array(["zero", "one", "two", "three", "four"])
    rewrite(folder, "tracklets", lambda t: t.set_column(1, "start", values))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_version, "corpus.json has format version 99"),
        (damage_json, "corpus.json cannot be read"),
        (damage_parquet, "tracklets.parquet cannot be read as Parquet"),
        (remove_table, "chunks.parquet is missing"),
        (drop_feature, "no column 'feature'"),
        (ragged_feature, "lists of float32 numbers, all of one size"),
        (unknown_clip, "clip 'z' is not in clips.parquet"),
        (not_contiguous, "contiguous per clip"),
        (null_start, "column start has rows without a value"),
        (text_for_numbers, "column start must be numbers"),
    ],
)
def test_damaged_folder_gives_an_error_that_names_the_file(tmp_path, damage, message):
    folder = tmp_path / "c"
    Corpus.from_arrays(**columns()).save(folder)
    damage(folder)
    with pytest.raises(CorpusError, match=message):
        Corpus.load(folder)


def test_no_folder_no_corpus(tmp_path):
    with pytest.raises(CorpusError, match=r"no corpus\.json"):
        Corpus.load(tmp_path)
