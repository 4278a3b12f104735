"""One self-contained HTML page about a result, and its pictures."""
