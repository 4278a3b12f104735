"""Write a page per command, from its ``--help``: ``python -m tools.command_pages``.

A test compares the pages with the commands. Examples are those in ``EXAMPLES``; a test runs them,
like every command in the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from objectstates.cli import app
from objectstates.cli.settings_file import describe

OUT = Path(__file__).parents[1] / "docs" / "commands"

EXAMPLES = {
    "discover": [
        "objectstates discover my_videos/ --object drawer --detector fewshot:drawer.npz "
        "--out found",
        "objectstates discover my_videos/ --detector motion --out by_motion  # no detector at all",
        "objectstates discover my_dataset --camera front --out by_camera  # a LeRobot dataset",
    ],
    "ingest": [
        "objectstates ingest my_videos/ --object drawer --detector fewshot:drawer.npz --out corpus",
    ],
    "fit": [
        "objectstates fit my_corpus --out result --restarts 2",
        "objectstates fit my_corpus --out result --out-of-core --shards 2",
    ],
    "predict": [
        "objectstates ingest more_videos/ --like my_corpus --out more",
        "objectstates predict my_result more --out more_result",
    ],
    "occurrences": [
        "objectstates ingest more_videos/ --like my_corpus --out long",
        "objectstates occurrences my_result long --out long_result",
    ],
    "inspect": [
        "objectstates inspect my_corpus",
        "objectstates inspect my_result --json",
        "objectstates inspect my_dataset  # a LeRobot dataset",
    ],
    "report": ["objectstates report my_result --out report.html"],
    "export": [
        "objectstates export my_result --to csv --out tables",
        "objectstates export my_result --to webvtt --out subtitles",
    ],
    "review": ["objectstates review found  # needs found, a folder that discover wrote"],
    "cut": [
        "objectstates cut my_result --out segments",
        "objectstates cut my_result --out trimmed --trim-idle --crf 18",
    ],
    "demo": ["objectstates demo --no-open"],
    "label": ["objectstates label my_videos/ --object drawer  # needs a browser"],
    "detector train": ["objectstates detector train labels.json --out other.npz"],
    "detector evaluate": ["objectstates detector evaluate drawer.npz other_labels.json"],
    "config init": ["objectstates config init settings.toml"],
}
"""Run by a test in a folder with videos, a dataset, labels, a detector, a corpus and a result."""


def commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every command by its name, those of groups with the group's name before theirs."""
    for command in app.registered_commands:
        assert command.callback is not None
        yield command.name or command.callback.__name__, command.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            assert command.callback is not None
            yield f"{group.name} {command.name or command.callback.__name__}", command.callback


def page(name: str, command: Callable[..., Any]) -> str:
    """The page of a command, in Markdown."""
    lines = [f"# objectstates {name}", "", cleandoc(command.__doc__ or ""), ""]
    parameters = list(_parameters(command))
    arguments = [p for p, info in parameters if isinstance(info, ArgumentInfo)]
    words = [f"[{p.name.upper()}]" if _optional(p) else p.name.upper() for p in arguments]
    lines += ["```", " ".join(["objectstates", name, *words, "[OPTIONS]"]), "```", ""]
    if name in EXAMPLES:
        lines += ["```sh", *EXAMPLES[name], "```", ""]
    panels: dict[str, list[str]] = {}
    for parameter, info in parameters:
        heading = info.rich_help_panel or (
            "Arguments" if isinstance(info, ArgumentInfo) else "Options"
        )
        panels.setdefault(heading, []).append(_row(parameter, info))
    for heading, rows in panels.items():
        lines += [f"## {heading}", "", "| | | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameters(
    command: Callable[..., Any],
) -> Iterator[tuple[Parameter, ArgumentInfo | OptionInfo]]:
    for parameter in signature(command, eval_str=True).parameters.values():
        if get_origin(parameter.annotation) is Annotated:
            yield parameter, get_args(parameter.annotation)[1]


def _optional(parameter: Parameter) -> bool:
    return parameter.default not in (Parameter.empty, ...)


def _row(parameter: Parameter, info: ArgumentInfo | OptionInfo) -> str:
    setting = describe(parameter)
    if isinstance(info, ArgumentInfo):
        name = parameter.name.upper()
    else:
        name = _flags(f"--{setting.key.replace('_', '-')}", info)
    choices = f" One of {', '.join(f'`{c}`' for c in setting.choices)}." if setting.choices else ""
    if not _optional(parameter):
        default = "required"
    elif parameter.default is None or parameter.default is False:
        default = ""
    else:
        default = f"`{parameter.default}`"
    return f"| {name} | {setting.help.replace('|', chr(92) + '|')}{choices} | {default} |"


def _flags(name: str, info: OptionInfo) -> str:
    """The flag, and the one that negates it where there is one."""
    given = (info.default, *(info.param_decls or ()))  # typer takes the first name as the default
    both = (flags for flags in given if isinstance(flags, str) and "/" in flags)
    return ", ".join(f"`{flag}`" for flag in next(both, name).split("/"))


def index(names: list[tuple[str, Callable[..., Any]]]) -> str:
    """The page that lists all others."""
    lines = ["# Commands", "", "| command | |", "|---|---|"]
    for name, command in names:
        summary = cleandoc(command.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        lines.append(f"| [{name}]({_file(name)}) | {summary} |")
    lines += [
        "",
        "All end with code 0, or with 2 and one line on stderr after a mistake of yours. "
        "`--json` prints for scripts, `--quiet` only errors and warnings, `--verbose` every step "
        "of the progress. `objectstates --install-completion` lets the shell complete commands and "
        "options.",
        "",
    ]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """All pages by the name of their file."""
    names = list(commands())
    found = {_file(name): page(name, command) for name, command in names}
    return {"README.md": index(names), **found}


def _file(name: str) -> str:
    return f"{name.replace(' ', '-')}.md"


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (OUT / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(pages())} pages to {OUT}")


if __name__ == "__main__":
    main()
