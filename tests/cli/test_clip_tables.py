from objectstates.cli.clip_tables import clip_table, precision_table
from objectstates.cli.output import print_table
from objectstates.data.label_names import LabelNames

LONG = "a_name_without_any_place_to_break_it_" * 6
CLIP = {"state_1": [(0.0, 1.5)], "action": (2.0, 3.0), "state_2": [], "confidence": 0.875}


def printed(capsys, name):
    print_table(clip_table([{"clip": name, **CLIP}, {"clip": "b", **CLIP}], LabelNames()))
    return capsys.readouterr().out


def test_a_long_name_is_folded_on_a_terminal_and_leaves_the_other_cells_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = printed(capsys, LONG)
    assert max(map(len, out.splitlines())) <= 80
    for cell in ("0.0-1.5 s", "2.0-3.0 s", "0.88"):
        assert out.count(cell) == 2
    assert "".join(line.split("  ")[1] for line in out.splitlines()[3:] if line).startswith(
        LONG[:60]
    )


def test_in_a_pipe_a_name_stays_whole(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    out = printed(capsys, LONG)
    assert sum(LONG in line and "0.88" in line for line in out.splitlines()) == 1
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_name_cannot_forge_a_row(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "b\\nc" in printed(capsys, "b\nc")


def test_the_precision_of_what_was_not_sought_is_a_dash(capsys):
    print_table(precision_table({"chance": {"states": 0.25}}))
    assert capsys.readouterr().out.split()[-3:] == ["chance", "0.25", "-"]
