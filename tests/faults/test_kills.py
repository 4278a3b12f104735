"""A short selection of disturbed runs; ``python -m tests.faults.kills`` has them all."""

from __future__ import annotations

import sys
from random import Random

import pytest

from objectstates.data.synthetic import synthetic_corpus
from tests.faults.commands import Command, Place
from tests.faults.disturbances import DISTURBANCES, Disturbance, Ended
from tests.faults.kills import torture, trial

FIT = Command(
    "fit --out-of-core",
    "fit {in}/corpus --no-verdict --out-of-core --shards 2 --out {out}/result",
    "fit {in}/corpus --no-verdict --out-of-core --nu 1 --out {out}/result",
    ("result",),
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("faults"))
    synthetic_corpus(n_clips=8).save(place.inputs / "corpus")
    place.run_all([FIT])
    return place


def test_a_disturbed_fit_loses_nothing_and_can_be_repeated(place: Place) -> None:
    chosen = [d for d in DISTURBANCES if d.name in ("SIGKILL", "file size limit")]
    tally = torture(place, [FIT], chosen, minutes=5, seed=1, most=2)
    assert tally.total["trials"] == 2
    assert not tally.faults, tally.table()


def test_what_goes_wrong_is_found(place: Place) -> None:
    """The harness itself: damage, and files that are left, do not pass unseen."""

    def spoil(place: Place, command: Command, rng: Random) -> Ended:
        (place.out / "result").mkdir(exist_ok=True)
        (place.out / "result" / "result.json").write_text("{}")
        (place.out / "mine.txt").write_text("gone")
        (place.tmp / "left").touch()
        return Ended([-11], "Traceback (most recent call last)\n  oops", hung=False, orphans=1)

    faults = trial(place, FIT, Disturbance("spoiled", spoil), seed=0)
    kinds = {kind for kind, _ in faults}
    assert kinds >= {"tracebacks", "crashes", "orphans", "lost"}
    assert kinds & {"leftovers", "lost"}
