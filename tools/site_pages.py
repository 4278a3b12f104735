"""MkDocs hook: pages that lie outside ``docs/`` become pages of the site, with working links.

Links are written relative to the file in the repository, so that they work where the repository is
browsed. This hook rewrites them for the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/simulated/README.md": "simulated.md",
}
"""Path in the repository -> path in the site."""

_LINK = re.compile(r"\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")


def on_config(config: Any, **_: Any) -> Any:
    """List the pages of all commands in the navigation, in the order of their index."""
    index = (ROOT / "docs/commands/README.md").read_text(encoding="utf-8")
    pages = [
        {name: f"commands/{file}"}
        for name, file in re.findall(r"\[([^]]+)\]\(([\w-]+\.md)\)", index)
    ]
    for entry in config.nav or []:
        if entry == {"Commands": "commands/README.md"}:
            entry["Commands"] = ["commands/README.md", *pages]
    return config


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add `PAGES` to the site."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found, unused-ignore]

    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page."""
    return site_links(markdown, page.file.src_uri)


def site_links(markdown: str, page: str) -> str:
    """Links between files of the repository as links between pages of the site.

    page : path of the page in the site, such as ``commands/fit.md``.
    """
    sources = {target: source for source, target in PAGES.items()}
    source = sources.get(page, f"docs/{page}")

    def rewrite(link: re.Match[str]) -> str:
        target, anchor = link.groups()
        if ":" in target:  # http:, https:, mailto:
            return link.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = PAGES.get(path, path.removeprefix("docs/"))
        return f"]({posixpath.relpath(path, posixpath.dirname(page) or '.')}{anchor})"

    return _LINK.sub(rewrite, markdown)
