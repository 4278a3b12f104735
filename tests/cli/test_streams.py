import io
import subprocess
import sys

import pytest

from objectstates.cli.output import complain
from objectstates.cli.streams import make_streams_usable


@pytest.mark.skipif(sys.platform == "win32", reason="the shell of Unix")
@pytest.mark.parametrize("closing", [">&-", ">&- 2>&-"])
def test_a_closed_output_is_no_traceback(closing):
    line = f'"{sys.executable}" -m objectstates --version {closing}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_a_terminal_of_few_characters_gets_escapes(monkeypatch):
    out, err = io.BytesIO(), io.BytesIO()
    for name, content in (("stdout", out), ("stderr", err)):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(content, encoding="ascii"))
    make_streams_usable()
    print("fünf")
    complain("ä is missing")
    sys.stdout.flush()
    sys.stderr.flush()
    assert out.getvalue().strip() == rb"f\xfcnf"
    assert err.getvalue().strip() == rb"objectstates: \xe4 is missing"
