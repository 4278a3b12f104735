"""The command that summarises a corpus or a result, and the reading of corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.base.errors import CorpusError
from objectstates.cli.options import AsJson
from objectstates.cli.output import show
from objectstates.cli.verdict import print_verdict

if TYPE_CHECKING:
    from objectstates.data.corpus import Corpus


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            help="A corpus folder, a .mat, a result, the folder of discover, or a LeRobot dataset."
        ),
    ],
    json: AsJson = False,
) -> None:
    """Summarise a corpus, a result or a LeRobot dataset, and list what it lacks."""
    from objectstates.app import inspection
    from objectstates.data.result import ARTEFACT, Result
    from objectstates.robots.lerobot_dataset import read_dataset
    from objectstates.robots.lerobot_files import is_dataset

    if is_dataset(path):
        show(inspection.describe_dataset(read_dataset(path)), json)
        return
    if (path / "result" / ARTEFACT.header).is_file():
        path = path / "result"  # of a folder that discover wrote
    if (path / ARTEFACT.header).is_file():
        result = Result.load(path)
        facts = inspection.describe_result(result)
        if not json:
            print_verdict(result)
            facts = {k: v for k, v in facts.items() if k not in inspection.VERDICT_KEYS}
    else:
        facts = inspection.describe_corpus(read_corpus(path))
    show(facts, json)


def read_corpus(source: Path, *, features: bool = True) -> Corpus:
    """A corpus folder, or features of the authors' release, with what lies beside them."""
    from objectstates.data.corpus import Corpus
    from objectstates.data.formats.authors_release import read_release

    if source.is_dir():
        return Corpus.load(source, features=features)
    if not source.exists():
        raise CorpusError(f"{source} does not exist")
    if not features:
        raise CorpusError(f"{source} is no corpus folder, which `out_of_core` needs")
    if source.suffix.lower() == ".mat":
        return read_release(source)
    raise CorpusError(f"{source} is neither a corpus folder nor a .mat file")
