"""What ``--paper`` means for a command, and what is said where a run is not the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from objectstates.base.choices import PAPER_FULL, PAPER_INGEST, paper_fit
from objectstates.base.errors import MissingExtraError
from objectstates.cli.output import complain
from objectstates.cli.settings_file import FROM_FILE

if TYPE_CHECKING:
    import typer

_OTHERS = {
    "lite0": "features of EfficientNet-Lite0",
    "appearance": "features of the backbone of `appearance`",
}
_NETWORKS = {"resnet50": "ResNet-50", "vgg16": "VGG16's conv5"}


def follow_paper(call: typer.Context) -> None:
    """Complete the settings of a call with ``--paper``, and say what in it is not the paper's.

    The number of steps depends on the solver, which is known only once all flags are read. Raises
    if the paper's networks are wanted and their extra is not installed.
    """
    if not call.params.get("paper"):
        return
    flags = {name for name in call.params if _is_flag(call, name)}
    settings = {**paper_fit(call.params.get("solver", "")), **PAPER_INGEST}
    for name in PAPER_FULL:
        if name in settings and name in call.params and name not in flags:
            call.params[name] = settings[name]
    _check_networks(call.params)
    for note in notes(call.params, settings, flags, *call.meta.get(FROM_FILE, ("", {}))):
        complain(f"note: {note}")


def _is_flag(call: typer.Context, name: str) -> bool:
    source = call.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def notes(
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
    flags: set[str],
    file: object,
    in_file: Mapping[str, Any],
) -> Iterator[str]:
    """What is not the paper's in a run with ``--paper``.

    params : the command's settings; ``settings`` are the paper's, and ``flags`` those given as
        flags.
    in_file : what the configuration ``file`` sets.
    """
    for name, wanted in settings.items():
        if name not in params:
            continue
        if name in flags and not _same(params[name], wanted):
            yield f"`{name}` {params[name]} is not the paper's, {_meant(name, params, wanted)}"
        elif name not in flags and in_file.get(name, wanted) != wanted:
            yield (
                f"{file} sets {name} to {in_file[name]}, `paper` to {wanted}: `paper` wins; "
                "a flag wins over both"
            )
    if params.get("solver") == "block":
        yield (
            "the paper's objective is minimised clip by clip, which ends at a lower duality gap; "
            "`solver` full takes the paper's own steps"
        )
    if params.get("detector") == "motion":
        yield (
            "`detector` motion is not the paper's, an R-CNN that was trained on the object: "
            "objectstates detector train --model fasterrcnn trains one"
        )


def _same(value: object, wanted: object) -> bool:
    """Whether a setting is the paper's; a network's weights may come from a file."""
    kind, _, weights = str(value).partition(":")
    return value == wanted or (kind == wanted and kind in _NETWORKS and weights != "random")


def _meant(name: str, params: Mapping[str, Any], wanted: object) -> str:
    """The paper's value, and in words what a backbone is."""
    if name == "chunks":
        return "bags of words"
    if name not in ("appearance", "conv_words"):
        return str(wanted)
    given = str(params[name])
    return f"{_NETWORKS[str(wanted)]}: these are {_OTHERS.get(given, f'features of {given}')}"


def _check_networks(params: Mapping[str, Any]) -> None:
    """Raise if a network of the paper is wanted that cannot be run."""
    from objectstates.features.registry import check_backbone

    used = ("appearance", "conv_words") if params.get("chunks") == "paper" else ("appearance",)
    for name in used:
        spec = str(params.get(name, ""))
        if spec.split(":")[0] not in _NETWORKS:
            continue
        try:
            check_backbone(spec)
        except MissingExtraError as problem:
            raise MissingExtraError(
                f"`paper` runs ResNet-50 and VGG16, which need an extra: pip install "
                f"'objectstates[torch]' ({problem.__cause__}). Without it, `appearance` lite0 and "
                "`conv_words` lite0 are other features than the paper's"
            ) from problem
