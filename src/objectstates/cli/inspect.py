"""The command that summarises a corpus or a result, and the reading of corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.base.errors import CorpusError
from objectstates.cli.options import AsJson, flag, result_folder
from objectstates.cli.output import make_table, print_table, show
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
    trace: Annotated[bool, flag("Also print the objective and gap after each pass.")] = False,
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
    path = result_folder(path)
    if (path / ARTEFACT.header).is_file():
        result = Result.load(path)
        facts = inspection.describe_result(result)
        if not json:
            print_verdict(result)
            passes = facts.pop("trace", [])
            facts = {k: v for k, v in facts.items() if k not in inspection.VERDICT_KEYS}
            if trace:
                _print_trace(passes)
    else:
        facts = inspection.describe_corpus(read_corpus(path))
    show(facts, json)


def _print_trace(passes: list[list[float]]) -> None:
    """A row per pass; the rows are those of ``trace`` in result.json."""
    table = make_table("pass", "seconds", "objective", "gap", "rounded")
    for number, row in enumerate(passes, start=1):
        table.add_row(str(number), f"{row[0]:.2f}", *(f"{value:.4e}" for value in row[1:4]))
    print_table(table)


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
