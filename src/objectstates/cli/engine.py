"""Options that say where work runs, the same for all commands that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from objectstates.base.choices import Engine

EngineOption = Annotated[
    Engine,
    typer.Option(
        help="Where work runs: here, or on a Ray cluster. Of a fit, local are threads, not "
        "processes."
    ),
]
RayAddress = Annotated[
    str, typer.Option(help="With Ray: the cluster, as ray names it; local starts one here.")
]


def ray_from(options: Mapping[str, Any]) -> str | None:
    """The address of the Ray cluster to use, if any."""
    return str(options["ray_address"]) if options["engine"] == "ray" else None
