"""Dead code: what goes and what stays."""

from __future__ import annotations

from pass_programs import operations, small, temps

from hal.ir.passes.dead import remove_dead_code


def test_a_temp_that_no_output_needs_goes_with_its_statement() -> None:
    found = remove_dead_code(
        small(
            "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t, f32[M] u",
            "t[i] = X[i]",
            "u[i] = t[i] + 1",
            "Y[i] = X[i] * 2",
        )
    )
    assert (operations(found), temps(found)) == (["Y[i] = X[i] * 2"], [])


def test_temps_that_need_only_each_other_go() -> None:
    found = remove_dead_code(
        small(
            "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t, f32[M] u",
            "t[i] = X[i]",
            "u[i] = t[i]",
            "t[i] = u[i]",
            "Y[i] = X[i]",
        )
    )
    assert operations(found) == ["Y[i] = X[i]"]


def test_a_temp_that_serves_as_an_index_stays() -> None:
    text = "input: f32[M] X, i32[N] I\noutput: f32[M] Y\ntemp: i32[N] t"
    before = small(text, "t[i] = I[i] + 1", "Y[t[i]] += 1.0")
    assert remove_dead_code(before) == before


def test_an_unused_let_goes_and_a_used_one_stays() -> None:
    text = "input: f32[M] X\noutput: f32[M] Y\nlet a = X[i]\nlet b = a + 1\nlet c = b + 1"
    assert operations(remove_dead_code(small(text, "Y[i] = b"))) == [
        "a = X[i]",
        "b = a + 1",
        "Y[i] = b",
    ]


def test_inputs_and_inouts_stay() -> None:
    before = small("input: f32[M] X, f32[N] unused\ninout: f32[M] Y", "Y[i] += X[i]")
    assert remove_dead_code(before) == before


def test_an_unused_range_goes() -> None:
    found = remove_dead_code(
        small(
            "index d : 3\nindex e : 4\ninput: f32[M] X\noutput: f32[M] Y", "Y[i] += X[i + d] pad 0"
        )
    )
    assert [item.name for item in found.extents] == ["d"]
