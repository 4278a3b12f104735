import contextlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates import Box, ChangeProfile, Chunk, Clip, Corpus, Tracklet, TrackletLabel
from objectstates.base.errors import CorpusError
from objectstates.data.corpus_io import FeaturePieces, write_with_features
from objectstates.data.synthetic import synthetic_corpus
from tests.results import remove_checksums


def columns(**changes):
    """Two clips: two and three tracklets, two and one chunks."""
    rng = np.random.default_rng(0)
    return {
        "clip_ids": ["a", "b"],
        "tracklets_per_clip": [2, 3],
        "tracklet_start": [0.0, 1.0, 0.0, 0.0, 2.0],
        "tracklet_end": [1.0, 2.0, 1.0, 3.0, 3.0],
        "tracklet_features": rng.standard_normal((5, 4)),
        "chunks_per_clip": [2, 1],
        "chunk_start": [0.0, 0.4, 0.0],
        "chunk_end": [0.4, 0.8, 0.4],
        "chunk_features": rng.standard_normal((3, 6)),
        **changes,
    }


def profile(**changes):
    """Five bins from 10 s on, and a picture of two by three pixels."""
    curve = np.array([0.0, 0.25, 0.5, 0.0, 0.0], np.float32)
    where = np.array([[0, 10, 255], [0, 0, 128]], np.uint8)
    return replace(ChangeProfile(10.0, 0.4, curve, where, 106.5), **changes)


def plain_clips():
    feature = np.arange(4, dtype=np.float32)
    boxes = (Box(0.0, 1, 2, 3, 4), Box(0.5, 2, 3, 4, 5))
    tracklets = (
        Tracklet(0.0, 1.0, feature, score=0.5, boxes=boxes, label=TrackletLabel.STATE_1),
        Tracklet(1.0, 2.0, -feature, time=1.25, allowed=(False, True)),
    )
    chunks = (Chunk(0.0, 0.4, np.ones(2, np.float32), label=True, allowed=False),)
    first = Clip("first", tracklets, chunks, "some/video.mp4", 10.0, 12.0, profile())
    return [first, Clip("no tracklets", (), chunks)]


def comparable(change):
    if change is None:
        return None
    arrays = (change.curve, change.where, change.local)
    numbers = change.start, change.step, change.scale
    return *numbers, *(x if x is None else (x.dtype, x.shape, x.tobytes()) for x in arrays)


def assert_same(one: Corpus, two: Corpus):
    assert one.clip_ids == two.clip_ids
    assert one.videos == two.videos
    assert one.spans == two.spans
    assert one.info == two.info
    assert list(map(comparable, one.changes)) == list(map(comparable, two.changes))
    for table in ("tracklets", "chunks"):
        for name, column in vars(getattr(one, table)).items():
            other = getattr(getattr(two, table), name)
            assert column.dtype == other.dtype, (table, name)
            np.testing.assert_array_equal(column, other)


# --- making and keeping -------------------------------------------------------------------------


def test_arrays_become_clips():
    corpus = Corpus.from_arrays(**columns())
    assert len(corpus) == 2
    clip = corpus[1]
    assert clip.id == "b"
    assert [(t.start, t.end, t.time) for t in clip.tracklets] == [
        (0, 1, 0.5),
        (0, 3, 1.5),
        (2, 3, 2.5),
    ]
    assert clip.tracklets[0].score == 1
    assert clip.tracklets[0].label is None
    assert corpus.tracklets.features.dtype == np.float32
    assert corpus[-1].id == "b"
    with pytest.raises(IndexError):
        corpus[2]


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


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (np.zeros(4, np.float32), r"local must be float32 of shape \(5,\), as the curve"),
        (np.zeros(5), "local must be float32"),
        (np.full(5, -1, np.float32), "local must have finite values of 0 or more"),
    ],
)
def test_local_curves_are_checked(local, message):
    first, second = plain_clips()
    with pytest.raises(CorpusError, match=message):
        Corpus.from_clips([replace(first, change=profile(local=local)), second])


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


def test_select_keeps_the_clips_asked_for():
    corpus = Corpus.from_clips([plain_clips()[0], replace(plain_clips()[0], id="second")])
    assert corpus.select(np.array([False, True])).clip_ids == corpus.select([-1]).clip_ids
    chosen = corpus.select([1, 0])
    assert chosen.clip_ids == ("second", "first")
    for mine, theirs in ((chosen[0], corpus[1]), (chosen[1], corpus[0])):
        assert mine.tracklets[0].boxes == theirs.tracklets[0].boxes
        np.testing.assert_array_equal(mine.tracklets[1].feature, theirs.tracklets[1].feature)


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


# --- validation ---------------------------------------------------------------------------------

nan_features = np.ones((5, 4))
nan_features[3, 2] = np.nan


def floats(values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tracklet_start": [1.0, 0.0, 0, 0, 2], "tracklet_end": [2.0, 1.0, 1, 3, 3]},
         "clip 'a', tracklet 1: start 0 lies before the previous tracklet's: sort"),
        ({"tracklet_end": [1.0, 0.5, 1, 3, 3]},
         "clip 'a', tracklet 1: end 0.5 must lie after the start"),
        ({"tracklet_end": [1.0, 1.0, 1, 3, 3]}, "must lie after the start"),
        ({"chunk_end": [0.4, 0.8, -1]}, "clip 'b', chunk 0: end -1 must lie after the start"),
        ({"chunk_start": [0.4, 0.0, 0.0], "chunk_end": [0.8, 0.4, 0.4]}, "clip 'a', chunk 1.*sort"),
        ({"tracklet_start": [0, np.nan, 0, 0, 2]}, "tracklet 1: start nan must be finite"),
        ({"tracklet_time": [0, 1, 2, 3, np.inf]}, "time inf must be finite"),
        ({"tracklet_features": nan_features}, "clip 'b', tracklet 1: feature has values .*NaN"),
        ({"tracklet_features": np.full((5, 4), 1e300)}, "not finite"),
        ({"chunks_per_clip": [3, 0]}, "clip 'b' has no chunk"),
        ({"tracklet_end": [1.0, 2.0]}, "end has 2 rows, but the clips have 5 tracklets"),
        ({"tracklet_features": np.ones((4, 4))}, "features has 4 rows"),
        ({"tracklets_per_clip": [2, 2]}, "start has 5 rows, but the clips have 4"),
        ({"chunks_per_clip": [3]}, "2 clips, `chunks_per_clip` for 1"),
        ({"chunks_per_clip": [1.5, 1.5]}, "integers"),
        ({"tracklets_per_clip": [6, -1]}, "integers"),
        ({"clip_ids": ["a", "a"]}, "clip id 'a' occurs more than once"),
        ({"clip_ids": ["a"]}, "given for 2 of 1 clips|one video"),
        ({"clip_ids": ["a", ""]}, "non-empty"),
        ({"tracklet_score": [0, 0.5, 1, 1.5, 0]}, "score 1.5 must lie between 0 and 1"),
        ({"tracklet_score": [0, 0.5, 1, np.nan, 0]}, "score nan"),
        ({"tracklet_label": [0, 1, 2, 3, 9]}, "from 0 to 8"),
        ({"chunk_label": [0, 1, -2]}, "from 0 to 8"),
        ({"tracklet_allowed": np.ones((5, 3))}, "one action less than states"),
        ({"tracklet_allowed": np.ones(5)}, "one column per state"),
        ({"tracklet_features": np.ones(5)}, "must be a matrix"),
        ({"tracklet_features": [["x"] * 4] * 5}, "matrix of numbers"),
        ({"tracklet_start": ["x"] * 5}, "must be numbers"),
        ({"tracklets_per_clip": [], "chunks_per_clip": [], "clip_ids": []}, "no clips"),
        ({"changes": [None]}, "`changes` has 1 change profiles for 2 clips"),
        ({"changes": [None, profile(start=np.nan)]}, "clip 'b', change profile: start nan"),
        ({"changes": [None, profile(step=0.0)]}, "step 0 must be a number of seconds above 0"),
        ({"changes": [None, profile(curve=np.ones(3))]}, "curve must be float32 .* not float64"),
        ({"changes": [None, profile(curve=floats([0, -1]))]}, "finite values of 0 or more"),
        ({"changes": [None, profile(curve=floats([np.inf]))]}, "finite values of 0 or more"),
        ({"changes": [None, profile(curve=floats([]))]}, r"not float32 of \(0,\)"),
        ({"changes": [None, profile(where=np.ones((2, 3)))]}, "where must be uint8"),
        ({"changes": [None, profile(where=np.ones(3, np.uint8))]}, r"of shape \(h, w\)"),
        ({"changes": [None, profile(where=np.ones((2, 41), np.uint8))]}, "41 pixels wide"),
    ],
)  # fmt: skip
def test_bad_arrays_give_one_clear_error(changes, message):
    with pytest.raises(CorpusError, match=message) as caught:
        Corpus.from_arrays(**columns(**changes))
    assert "\n" not in str(caught.value)


def test_features_of_clips_must_agree_in_size():
    clip = plain_clips()[0]
    other = replace(clip, id="x", chunks=(replace(clip.chunks[0], feature=np.ones(3)),))
    with pytest.raises(CorpusError, match="chunk features differ in shape"):
        Corpus.from_clips([clip, other])


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
