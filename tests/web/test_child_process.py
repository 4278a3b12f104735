import os
import sys

from objectstates.web.child_process import start_child


def test_a_file_of_the_users_folder_is_not_imported_in_place_of_ours(tmp_path, monkeypatch):
    (tmp_path / "objectstates").mkdir()
    (tmp_path / "objectstates" / "__init__.py").write_text("raise SystemExit(3)")
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with start_child("objectstates.web.studio.worker") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write('{"videos": "nowhere", "out": "found"}\n')
        child.stdin.flush()
        assert "nowhere" in child.stdout.readline()
        assert child.wait(60) == 2
        if os.name == "posix" and sys.platform == "linux":
            assert not (tmp_path / "found").exists()
