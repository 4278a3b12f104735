import subprocess
import sys

import pytest

from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture
def corpus(tmp_path):
    place = tmp_path / "é\u4e2d"
    synthetic_corpus(2, state_size=4, action_size=4).save(place)
    return place


def run(arguments, **options):
    command = [sys.executable, "-m", "objectstates", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


def test_a_closed_output_is_no_traceback(corpus):
    line = f'"{sys.executable}" -m objectstates inspect "{corpus}"'
    for closing in (">&-", ">&- 2>&-", "2>&-"):
        done = subprocess.run(
            ["bash", "-c", f"{line} {closing}"], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr


def test_a_terminal_of_few_characters_gets_escapes(corpus):
    import os

    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run(["fit", corpus, "--out", corpus.parent / "ü", "--no-verdict"], env=ascii_only)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"\\xfc" in done.stdout
    done = run(["inspect", corpus.parent / "fehlt ü"], env=ascii_only)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
