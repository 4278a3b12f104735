"""Where the observations of clips are put: the cache, or a spare folder for one run.

All observations go through files, so that no process holds more than one segment. A cache that
cannot be written costs a later run its time, and nothing else: what it has no room for is put on
the disk of the corpus, where as much must be written anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from objectstates.base.cache import ArrayCache, Entry
from objectstates.base.errors import CorpusError, StorageError
from objectstates.base.storage import make_folder, scratch_folder

Arrays = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Observed:
    """Key of an observation, and what it was made with.

    fingerprints : of the detector and the backbone.
    spare : whether it is in the spare folder; ``reason`` tells why the cache could not be written.
    empty : why a segment has no frame; nothing is stored of it then.
    """

    key: str
    frames: int
    from_cache: bool
    fingerprints: tuple[str, str]
    spare: bool = False
    reason: str = ""
    empty: str = ""


@dataclass(frozen=True)
class ObservationStores:
    """The cache, and a spare folder.

    cache : has no folder if none is wanted, or none can be made: then ``unmade`` tells why.
    spare : on the disk of the corpus; None if workers are on other machines.
    """

    cache: ArrayCache
    spare: ArrayCache | None
    unmade: str = ""

    @property
    def scratch(self) -> Path | None:
        """The folder for temporary files."""
        return self.cache.folder if self.spare is None else self.spare.folder

    def entry(self, observed: Observed) -> Entry:
        return self._store(observed).entry(observed.key)

    def arrays(self, observed: Observed) -> dict[str, Any]:
        """All arrays of an entry."""
        store = self._store(observed)
        if (arrays := store.get(observed.key)) is None:
            raise StorageError(f"{store.folder}: an entry was removed or damaged: run again")
        return arrays

    def _store(self, observed: Observed) -> ArrayCache:
        return self.spare if observed.spare and self.spare is not None else self.cache

    def put(self, key: str, arrays: Arrays, further: Mapping[str, Arrays]) -> tuple[bool, str]:
        """Store an observation, and ``further`` entries in the cache alone.

        Returns `Observed.spare` and `Observed.reason`.
        """
        reason = ""
        if self.cache.folder is not None:
            try:
                for name, content in further.items():
                    self.cache.put(name, content)
                self.cache.put(key, arrays)
                return False, ""
            except OSError as problem:
                reason = problem.strerror or str(problem)
        place = self.scratch
        try:
            if self.spare is not None:
                self.spare.put(key, arrays)
                return True, reason
        except OSError as problem:
            reason = problem.strerror or str(problem)
        raise StorageError(
            f"no room for observations in {place} ({reason}): make some, and repeat the command"
        )

    def warnings(self, done: Sequence[Observed]) -> list[str]:
        """That the cache could not be written, and what it means."""
        if self.unmade:
            return [f"nothing is kept for later runs: {self.unmade}"]
        reasons = [observed.reason for observed in done if observed.reason]
        if not reasons:
            return []
        return [
            f"`cache`: {self.cache.folder} cannot be written ({reasons[0]}): {len(reasons)} of "
            f"{len(done)} observations are not kept for later runs"
        ]


@contextmanager
def open_stores(path: Path, cache: Path | None, *, shared: bool) -> Iterator[ObservationStores]:
    """The cache, and a spare folder beside the corpus ``path`` until the end of the context.

    shared : workers are on other machines, which must all see the cache.
    """
    if shared and cache is not None:
        yield ObservationStores(ArrayCache(make_folder(cache, "cache")), None)
        return
    folder, unmade = None, ""
    try:
        folder = None if cache is None else make_folder(cache, "cache")
    except StorageError as problem:
        unmade = str(problem)
    place = path.resolve()
    with ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            spare = stack.enter_context(scratch_folder(place.parent, place.name))
        except OSError as problem:
            raise CorpusError(f"cannot write {path}: {problem.strerror or problem}") from problem
        yield ObservationStores(ArrayCache(folder), ArrayCache(spare), unmade)
