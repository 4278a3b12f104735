import json
import re
from contextlib import suppress

import numpy as np
import pytest

from objectstates.base.errors import CorpusError, ResultError
from objectstates.data.corpus import Corpus
from objectstates.data.corpus_io import StoredFeatures
from objectstates.data.result import Result
from objectstates.data.synthetic import synthetic_corpus
from tests.faults.samples import write_artefacts
from tests.results import remove_checksums


@pytest.fixture
def folder(tmp_path):
    corpus = synthetic_corpus(3, tracklets_per_clip=300, chunks_per_clip=5, state_size=64)
    corpus.save(tmp_path / "c")
    return tmp_path / "c"


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def _same_json(found, original):
    with suppress(ValueError):
        return json.loads(found) == json.loads(original)
    return False


def test_a_flipped_bit_anywhere_is_refused(folder):
    for path in sorted(folder.iterdir()):
        original = path.read_bytes()
        for at in np.linspace(0, len(original) - 1, 12).astype(int).tolist():
            flip(path, at)
            if path.suffix == ".json" and _same_json(path.read_bytes(), original):
                Corpus.load(folder)  # spaces mean nothing
            else:
                with pytest.raises(CorpusError, match=re.escape(str(folder))):
                    Corpus.load(folder)
            path.write_bytes(original)
    assert len(Corpus.load(folder)) == 3


def test_damaged_features_are_noticed_when_they_are_read_and_not_before(folder):
    path = folder / "tracklets.parquet"
    features = Corpus.load(folder).tracklets.features
    at = path.read_bytes().index(features[-1].tobytes())
    flip(path, at)
    assert len(Corpus.load(folder, features=False)) == 3
    stored = StoredFeatures(folder, "tracklets")
    np.testing.assert_array_equal(stored.read(0, 10), features[:10])
    with pytest.raises(CorpusError, match=r"tracklets\.parquet is damaged"):
        stored.read(890, 900)
    with pytest.raises(CorpusError, match=r"tracklets\.parquet is damaged"):
        Corpus.load(folder)


def test_a_corpus_without_checksums_is_read(folder):
    expected = Corpus.load(folder)
    found = Corpus.load(remove_checksums(folder))
    np.testing.assert_array_equal(found.tracklets.features, expected.tracklets.features)


@pytest.mark.filterwarnings("ignore:.*cannot be labelled")
def test_a_damaged_result_is_refused_and_an_older_one_read(tmp_path):
    write_artefacts(tmp_path)
    folder = tmp_path / "result"
    expected = Result.load(folder).clips
    for name in ("clips.parquet", "classifiers.npz", "actions.parquet"):
        path = folder / name
        original = path.read_bytes()
        flip(path, len(original) // 2)
        with pytest.raises(ResultError, match=f"{name} is damaged"):
            Result.load(folder)
        path.write_bytes(original)
    header = folder / "result.json"
    header.write_text(header.read_text().replace('"passes": ', '"passes": 1'))
    with pytest.raises(ResultError, match=r"result\.json is damaged"):
        Result.load(folder)
    assert Result.load(remove_checksums(folder)).clips == expected


def test_information_of_a_corpus_has_names(folder):
    header = json.loads((remove_checksums(folder) / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps({**header, "info": 3}))
    with pytest.raises(CorpusError, match=r"corpus\.json: info is no object"):
        Corpus.load(folder)
