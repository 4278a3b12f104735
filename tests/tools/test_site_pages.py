"""Links of pages become links of the site."""

import re

from tools.site_pages import PAGES, ROOT, site_links


def test_links_between_files_become_links_between_pages():
    assert site_links("[a](docs/tutorial.md)", "index.md") == "[a](tutorial.md)"
    assert site_links("[a](docs/images/x.png)", "index.md") == "[a](images/x.png)"
    assert site_links("[a](../README.md#try-it)", "tutorial.md") == "[a](index.md#try-it)"
    assert site_links("[a](../ingest.md)", "commands/fit.md") == "[a](../ingest.md)"
    assert site_links("[a](docs/glossary.md)", "contributing.md") == "[a](glossary.md)"


def test_links_elsewhere_stay():
    for link in ("[a](https://example.org/docs/x.md)", "[a](#here)", "labels[i](x)"):
        assert site_links(link, "index.md") == link


def test_every_page_of_the_documentation_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md")] + list(PAGES.values())
    missing = [page for page in pages if not re.search(rf": {re.escape(page)}$", navigation, re.M)]
    assert not missing
