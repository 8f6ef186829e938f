"""Text and binary form: round trips, errors with a place, and no input that makes a traceback."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vil_strategies import cases

import hal.vil
from hal.vil import Builder, Module, VilBinaryError, VilError, VilTextError, decode, encode, parse
from hal.vil.expressions import Const, ceil_div, floor_div, maximum, minimum
from hal.vil.generate import Case
from hal.vil.recipes import matmul as matmul_module

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def test_specification_example_prints_and_parses_to_itself(matmul: Module) -> None:
    text = hal.vil.print_module(matmul)
    assert parse(text) == matmul
    assert hal.vil.print_module(parse(text)) == text


def test_specification_example_is_valid(matmul: Module) -> None:
    assert hal.vil.validate(matmul) == []


def test_binary_form_of_the_example_decodes_to_itself(matmul: Module) -> None:
    image = encode(matmul)
    assert bytes(matmul) == image
    assert decode(image) == matmul
    assert encode(decode(image)) == image


def test_the_binary_form_has_not_changed(matmul: Module, root: Path) -> None:
    """Images of earlier releases must stay readable: bytes written once are read for ever."""
    golden = bytes.fromhex((root / "tests" / "vil" / "golden" / "matmul.hex").read_text())
    assert decode(golden) == matmul
    assert encode(matmul) == golden


@QUICK
@given(cases(exact=False))
def test_every_valid_case_survives_text_and_binary(case: Case) -> None:
    text = hal.vil.print_module(case.module)
    assert parse(text) == case.module
    assert hal.vil.print_module(parse(text)) == text
    image = encode(case.module)
    assert decode(image) == case.module
    assert encode(decode(image)) == image


def test_expressions_print_with_few_parentheses() -> None:
    b = Builder()
    k = b.kernel("k")
    m, n = k.symbol("m"), k.symbol("n")
    p = b.program("p")
    size = (m + n) * 2 - (m - (n - 1)) % 7
    grid = [ceil_div(m, 3), floor_div(minimum(m, n), 2), maximum(m, Const(-5))]
    k.workspace("w", size)
    k.launch(p, grid, [])
    text = hal.vil.print_module(b.module())
    assert "bytes (m + n) * 2 - (m - (n - 1)) % 7" in text
    assert "grid(ceildiv(m, 3), min(m, n) / 2, max(m, -5))" in text
    assert parse(text) == b.module()


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        ("vil 1.0", "vil 2.0", 1, 5, "allowed: 1.0"),
        ("kernel matmul {", "kernal matmul {", 2, 1, "did you mean kernel?"),
        ("arg A: f32 read", "arg A: f23 read", 6, 10, "allowed: symbol scalar f32"),
        ("arg A: f32 read", "arg A: f32 red", 6, 14, "did you mean read?"),
        ("bytes 4 * M * K", "bytes 4 * M * Q", 6, 33, "`Q` is not a symbol"),
        ("arg B:", "arg A:", 7, 7, "already declared"),
        ("launch mm grid", "launch nn grid", 9, 10, "`nn` is not a program"),
        ("tile a: f32[64, 32] near", "tile a: f32[0, 32] near", 18, 15, "1 to 1048576"),
        ("tile a: f32[64, 32] near", "tile a: f32[64, 32] nera", 18, 23, "did you mean near?"),
        ("mma c, a, b", "mma c, a", 46, 13, "allowed: `,`"),
        ("mma c, a, b", "mmm c, a, b", 46, 5, "did you mean mma?"),
        ("mma c, a, b", "mma c, a, zz", 46, 15, "`zz` is not a tile"),
        ("mma c, a, b", "mma c, a, b initial", 46, 17, "did you mean init?"),
        ("sreg.mul %3, %1, 64", "sreg.mull %3, %1, 64", 39, 8, "did you mean mul?"),
        ("fill c, 0.0", "fill c, what", 41, 11, "a scalar parameter"),
        ("store dc, c\n}", "store dc, c\n", 50, 1, "an operation or a declaration"),
        ("store dc, c", "store dc, c ?", 48, 15, "belongs to no word"),
        ("dim M stride K base 0, r0 * 1", "dim M stride K base 0, r3 * 1", 24, 28, "r0 r1 r2"),
    ],
)
def test_text_errors_name_line_column_and_what_is_allowed(
    matmul_text: str, old: str, new: str, line: int, column: int, words: str
) -> None:
    assert old in matmul_text
    with pytest.raises(VilTextError) as caught:
        parse(matmul_text.replace(old, new, 1), file="x.vil")
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert words in str(error)
    lines = str(error).splitlines()
    assert lines[0].startswith(f"x.vil:{line}:{column}: ")
    assert lines[2] == " " * (column + 1) + "^"


def test_deep_nesting_is_refused_not_a_recursion_error(matmul_text: str) -> None:
    deep = "(" * 5000 + "M" + ")" * 5000
    with pytest.raises(VilTextError, match="nested too deeply"):
        parse(matmul_text.replace("4 * M * K", deep, 1))


def test_huge_integers_are_refused(matmul_text: str) -> None:
    with pytest.raises(VilTextError, match="does not fit 64 bits"):
        parse(matmul_text.replace("4 * M * K", "9" * 5000, 1))


WORDS = [*"{}()[],:=@.%*+-/\n", "kernel", "program", "tile", "desc", "dim", "row", "load", "1", "x"]


@QUICK
@given(st.lists(st.sampled_from(WORDS), max_size=40), st.integers(0, 900), st.integers(0, 60))
def test_mutated_text_never_makes_a_traceback(
    matmul_text: str, words: list[str], place: int, cut: int
) -> None:
    text = matmul_text[:place] + " ".join(words) + matmul_text[place + cut :]
    try:
        module = parse(text)
    except VilTextError as error:
        assert error.line >= 1
        return
    assert isinstance(hal.vil.validate(module), list)


@QUICK
@given(st.text(max_size=200))
def test_any_text_never_makes_a_traceback(text: str) -> None:
    with pytest.raises(VilTextError):
        parse("?" + text)


# --- binary ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "layout", "value", "field"),
    [
        (0, "4s", b"HVIM", "image.magic"),
        (4, "H", 2, "image.version_major"),
        (8, "I", 17, "image.image_bytes"),
        (12, "I", 40, "image.header_bytes"),
        (16, "I", 52, "image.signature"),
        (20, "I", 1 << 30, "image.signature"),
        (24, "Q", 1 << 60, "image.features"),
        (24, "Q", 1, "image.features"),
        (32, "I", 1 << 31, "image.program_table_offset"),
        (40, "Q", 1, "image.reserved"),
        (48, "4s", b"XSIG", "signature.magic"),
        (52, "I", 8, "signature.bytes"),
        (56, "H", 9, "signature.version"),
        (60, "I", 1, "signature.reserved"),
        (64, "I", 0xFFFFFFF8, "signature.kernels"),
        (68, "I", 0xFFFFFFFF, "signature.kernels"),
    ],
)
def test_binary_errors_name_offset_and_field(
    matmul: Module, at: int, layout: str, value: object, field: str
) -> None:
    image = bytearray(encode(matmul))
    struct.pack_into("<" + layout, image, at, value)
    with pytest.raises(VilBinaryError) as caught:
        decode(bytes(image))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"VIL image, offset {caught.value.offset}, ")


@pytest.mark.parametrize("size", [0, 3, 4, 47, 48, 100, 1000])
def test_a_cut_image_is_refused(matmul: Module, size: int) -> None:
    with pytest.raises(VilBinaryError):
        decode(encode(matmul)[:size])


@settings(QUICK, max_examples=400)
@given(st.lists(st.tuples(st.integers(0, 1700), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated_images_never_make_a_traceback(
    matmul: Module, changes: list[tuple[int, int]]
) -> None:
    image = bytearray(encode(matmul))
    for place, byte in changes:
        image[place % len(image)] = byte
    try:
        module = decode(bytes(image))
    except VilBinaryError as error:
        assert error.offset >= 0
        return
    assert isinstance(hal.vil.validate(module), list)
    assert decode(encode(module)) == module


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes_never_make_a_traceback(data: bytes) -> None:
    with pytest.raises(VilBinaryError):
        decode(b"?" + data)


def test_reserved_fields_must_be_zero(matmul: Module) -> None:
    """Flipping any single reserved or padding byte of the header region is noticed."""
    image = encode(matmul)
    for place in range(40, 48):
        changed = bytearray(image)
        changed[place] = 1
        with pytest.raises(VilBinaryError, match="reserved"):
            decode(bytes(changed))


def test_envelope_carries_signature_format_and_payload() -> None:
    kernels = matmul_module(*[hal.dtypes.f32] * 3).kernels
    image = hal.vil.encode_envelope(kernels, "source.opencl", b"__kernel void main() {}")
    envelope = hal.vil.decode_envelope(image)
    assert envelope.format == "source.opencl"
    assert envelope.payload == b"__kernel void main() {}"
    assert envelope.kernels == kernels


def test_signature_reads_alone_from_both_kinds_of_image(matmul: Module) -> None:
    image = encode(matmul)
    assert hal.vil.decode_signature(image) == matmul.kernels
    envelope = hal.vil.encode_envelope(matmul.kernels, "binary.acme", b"")
    assert hal.vil.decode_signature(envelope) == matmul.kernels


def test_header_fields_stand_where_the_page_says(matmul: Module) -> None:
    image = encode(matmul)
    magic, major, minor, total, header, at, size = struct.unpack_from("<4sHHIIII", image)
    assert (magic, major, minor, total, header) == (b"HVIL", 1, 0, len(image), 48)
    assert image[at : at + 4] == b"HSIG"
    assert struct.unpack_from("<I", image, at + 4)[0] == size
    table, count = struct.unpack_from("<II", image, 32)
    assert count == 1
    place, length = struct.unpack_from("<II", image, table)
    assert image[place : place + 4] == b"HPRG"
    assert place + length == len(image)


def test_instruction_records_stand_where_the_page_says(matmul: Module) -> None:
    image = encode(matmul)
    place, _ = struct.unpack_from("<II", image, struct.unpack_from("<I", image, 32)[0])
    offset, count = struct.unpack_from("<II", image, place + 88)
    assert count == len(matmul.programs[0].instructions)
    mma = image[place + offset + 32 * 7 : place + offset + 32 * 8]
    fields = struct.unpack("<BBBBHH12H", mma)
    none = 0xFFFF
    assert fields[:6] == (10, 0, 4, 0, 0, none)
    assert fields[6:] == (2, none, 0, none, 1, none, none, none, none, none, none, none)


def test_encoding_what_does_not_fit_is_an_error_not_a_traceback(matmul: Module) -> None:
    kernel = matmul.kernels[0]
    launch = replace(kernel.launches[0], program="absent")
    broken = replace(matmul, kernels=(replace(kernel, launches=(launch,)),))
    with pytest.raises(VilError, match="does not fit the binary form"):
        encode(broken)
