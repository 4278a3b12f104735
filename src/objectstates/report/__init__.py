"""The report: one self-contained HTML page about a result.

`page.write_report` writes it. Its headline and all other text about the whole result come from
``headline.py`` (`headline`), the fixed text from ``assets/page.html.j2``. `clip_view` is also
what the terminal table and the exports show of a clip.
"""
