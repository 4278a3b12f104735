"""The demo: the main job on an embedded default, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.discover import certificate, progress_line
from objectstates.cli.output import make_table, number, print_table
from objectstates.errors import SettingError


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the synthetic clips.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the result to.")] = None,
) -> None:
    """Discover states and actions in synthetic clips whose truth is known, beside baselines."""
    from objectstates.baselines import METHODS, MethodSettings
    from objectstates.discovery import JointDiscovery
    from objectstates.evaluation import evaluate
    from objectstates.result import ARTEFACT
    from objectstates.synthetic import synthetic_corpus

    if seed < 0:
        raise SettingError(f"seed must be a whole number of at least 0, not {seed}")
    if out is not None:
        ARTEFACT.check_target(out)
    corpus = synthetic_corpus(n_clips=20, seed=seed, noise=1.5)
    unseen = synthetic_corpus(n_clips=20, seed=seed + 1, noise=1.5)
    print(f"{corpus}, made with seed {seed}; the labels serve to evaluate, not to learn.")
    model = JointDiscovery(seed=seed)
    with progress_line() as report:
        model.fit(corpus, callback=report)
    settings = MethodSettings(JointDiscovery(seed=seed))
    table = make_table("precision", "states", "action")
    for name, scored in (
        ("chance", METHODS["chance"].run(corpus, settings)),
        ("constraints only", METHODS["constraints"].run(corpus, settings)),
        ("joint discovery", evaluate(model.result_, corpus)),
        ("... on clips it has not seen", evaluate(model.predict(unseen), unseen)),
    ):
        table.add_row(name, number(scored.state_precision), number(scored.action_precision))
    print_table(table)
    summary = model.result_.summary
    seconds = sum(summary["seconds"].values())
    print(f"{certificate(summary)}, {seconds:.1f} s (the first run also compiles the kernels)")
    if out is not None:
        model.save(out)
        print(f"wrote {out}")
