from __future__ import annotations

import csv
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import (
    COLUMNS,
    MAX_BYTES,
    MAX_TEXT,
    Correction,
    check_clips,
    read_corrections,
    write_corrections,
)

HEADER = ",".join(COLUMNS)


def written(folder, *lines, header=HEADER):
    path = folder / "corrections.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def test_a_file_written_by_hand_is_read(tmp_path):
    path = written(
        tmp_path,
        "a, action , 4.2 , 5 ,",
        "",
        "b,exclude,,,",
        "a,state,,3.5,closed",
        "c,not_object,1,2,7",
    )
    rows = read_corrections(path)
    assert rows == (
        Correction("a", "action", 4.2, 5.0),
        Correction("b", "exclude"),
        Correction("a", "state", None, 3.5, "closed"),
        Correction("c", "not_object", 1.0, 2.0, "7"),
    )
    assert [row.line for row in rows] == [2, 4, 5, 6]
    assert rows[3].place == f"{path}, line 6"


def test_spreadsheets_may_add_a_byte_order_mark_and_reorder_columns(tmp_path):
    path = tmp_path / "c.csv"
    path.write_bytes("\ufeffkind,clip,end,start\r\naction,Schüssel,5,4\r\n".encode())
    assert read_corrections(path) == (Correction("Schüssel", "action", 4.0, 5.0),)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("a,acton,1,2,", "did you mean action"),
        ("a,banana,1,2,", "one of action"),
        ("a,action,nan,2,", "start must be"),
        ("a,action,1,inf,", "end must be"),
        ("a,action,-1,2,", "at least 0"),
        ("a,action,2,1,", "the end must be later"),
        ("a,action,2,2,", "the end must be later"),
        ("a,action,one,2,", "'one' is not a number"),
        ("a,action,,,", "needs a start or an end"),
        ("a,state,1,2,", "needs a value"),
        ("a,not_object,1,2,-1", "not the index"),
        ("a,not_object,1,2,²", "not the index"),
        ("a,exclude,1,,", "whole clip"),
        ("a,no_change,,,yes", "takes no value"),
        (",action,1,2,", "clip is missing"),
        ("a,action,1,2", "4 cells"),
        ("a,action,1,2,,,", "7 cells"),
        ('a,action,1,2,"', "line 3"),
        (f"{'x' * (MAX_TEXT + 1)},exclude,,,", "at most"),
    ],
)
def test_an_error_names_the_file_and_the_line(tmp_path, row, says):
    path = written(tmp_path, "a,action,1,2,", row)
    with pytest.raises(CorrectionError, match=r"corrections\.csv, line 3") as error:
        read_corrections(path)
    assert says in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "header", ["clip,kind,start,end,value,who", "clip,start", "clip,kind,kind"]
)
def test_a_wrong_header_is_refused(tmp_path, header):
    with pytest.raises(CorrectionError, match=r"line 1: .*the header must be clip,kind"):
        read_corrections(written(tmp_path, header=header))


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(CorrectionError, match="cannot be read"):
        read_corrections(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorrectionError, match="UTF-8"):
        read_corrections(tmp_path / "binary.csv")
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(CorrectionError, match="larger than"):
        read_corrections(tmp_path / "large.csv")


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(
    lambda text: text == text.strip() and "\x00" not in text
)
times = st.floats(0, 1e6, allow_nan=False)


@given(
    st.lists(
        st.one_of(
            st.builds(Correction, texts, st.just("exclude")),
            st.builds(
                lambda clip, start, length: Correction(clip, "action", start, start + length),
                texts,
                times,
                st.floats(0.1, 100),
            ),
            st.builds(
                lambda clip, value: Correction(clip, "state", None, 1.0, value), texts, texts
            ),
        ),
        max_size=8,
    )
)
def test_what_is_written_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("written") / "c.csv"
    write_corrections(path, rows)
    assert list(read_corrections(path)) == rows


def test_spreadsheets_find_no_formula_in_a_written_file(tmp_path):
    write_corrections(tmp_path / "c.csv", [Correction("=cmd()", "state", 0.0, 1.0, "@SUM(A1)")])
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_a_clip_that_does_not_exist_is_named_with_its_line(tmp_path):
    rows = read_corrections(written(tmp_path, "clip1,exclude,,,", "clip_2,exclude,,,"))
    with pytest.raises(CorrectionError, match=r"line 3: there is no clip 'clip_2'.*'clip2'"):
        check_clips(rows, ["clip1", "clip2"])


def test_a_correction_made_in_python_is_checked_too():
    with pytest.raises(CorrectionError, match="correction 'action' of clip 'a'"):
        Correction("a", "action", math.nan, 1.0)
