"""Griffe extension: docstrings as Markdown, for the API reference of the site.

Docstrings describe a parameter or a field on one line, ``name : text``, with continuation lines
indented; types are in the signature. Griffe's NumPy parser would take the text for a type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Extension = object
else:
    try:
        from griffe import Extension
    except ImportError:  # the extra docs is not installed: `to_markdown` works all the same
        Extension = object

_ITEM = re.compile(r"^(\s*)((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*) :(?: (.*))?$")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_RULE = re.compile(r"^-{3,}$")


class Markdown(Extension):
    """Rewrites every docstring as it is loaded (a Griffe extension)."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring: str) -> str:
    r"""The docstring (without common indentation) in Markdown.

    >>> print(to_markdown("Cut :class:`~a.Track`.\n\nseconds : length,\n    about."))
    Cut `Track`.
    <BLANKLINE>
    - `seconds`: length,
        about.
    """
    lines: list[str] = []
    fence: str | None = None  # that ends the example in which the line is
    in_list = False
    for line in _ROLE.sub(r"`\1`", docstring).splitlines():
        if fence is not None:
            lines += [line] if line.strip() else [fence, ""]
            fence = fence if line.strip() else None
        elif line.lstrip().startswith(">>>"):
            fence = line[: len(line) - len(line.lstrip())] + "```"
            lines += ["", f"{fence}pycon", line]
        elif item := _ITEM.match(line):
            indent, names, text = item.groups()
            names = ", ".join(f"`{name}`" for name in names.split(", "))
            lines += [] if in_list else [""]
            lines.append(f"{indent}- {names}: {text or ''}".rstrip())
            in_list = True
        elif _RULE.match(line):
            lines[-1] = f"**{lines[-1].strip()}**"
        else:
            lines.append(line[:-1] if line.endswith("::") else line)
            in_list = in_list and line.startswith(" ")
    if fence is not None:
        lines.append(fence)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
