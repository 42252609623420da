"""What the legacy system is told: read as it was meant, whatever an id or a scope is called."""

import csv
import io

import pytest

from flows.updates import Target, _Lines, _names_scope, _Statements, update
from schemas.rows import SCOPE_SEPARATOR

ROW = ("o'1", "hash", "complete", None, None, True)
OF_TWO = Target("rows", "id", ("tenant", "workspace"), ())


def test_a_carriage_return_in_an_id_makes_no_row_of_its_own() -> None:
    table = io.StringIO(newline="")
    lines = csv.writer(_Lines(table))
    lines.writerow(["a\rforged,complete", "x"])
    lines.writerow(["b\nc", None])
    assert table.getvalue() == '"a\rforged,complete",x\n"b\nc",\n'
    assert list(csv.reader(io.StringIO(table.getvalue(), newline=""))) == [["a\rforged,complete", "x"], ["b\nc", ""]]


def test_an_update_names_every_column_of_the_scope_or_is_none() -> None:
    scope = SCOPE_SEPARATOR.join(["acme", "o'brien"])
    assert update((*ROW, scope, None), OF_TWO).endswith(
        """WHERE "id" = 'o''1' AND "tenant" = 'acme' AND "workspace" = 'o''brien';\n"""
    )
    assert _names_scope(scope, OF_TWO)
    for odd in ("acme", SCOPE_SEPARATOR.join("abc")):
        assert not _names_scope(odd, OF_TWO)
        with pytest.raises(ValueError, match="zip"):
            update((*ROW, odd, None), OF_TWO)
    assert _names_scope(scope, Target("rows", "id", (), ()))


def test_the_name_of_a_table_opens_no_statement() -> None:
    sql = io.StringIO()
    _Statements(sql, Target('rows\nDROP TABLE rows; --"', "id", (), ()))
    assert sql.getvalue().count("\n") == 1
    assert update((*ROW, "acme", None), Target('rows"; --', "id", (), ())).startswith('UPDATE "rows""; --" SET')
