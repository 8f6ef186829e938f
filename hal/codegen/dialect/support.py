"""Functions that rendered sources call: the laws of VIL that no language has by itself.

Each is a snippet of the C subset that all dialects share; a source holds the ones it names, in
the order of this table. `FUNCTION` stands for the dialect's words before a function.
"""

from __future__ import annotations

import re

from hal.codegen.dialect.language import Dialect
from hal.errors import HcdError

__all__ = ["needed"]

_NAME = re.compile(r"\bhal_\w+")

_SNIPPETS = """
i64 hal_idiv(i64 a, i64 b) {
  if (b == 0) return 0;
  if (b == -1) return (i64)(0 - (u64)a);
  const i64 q = a / b;
  return q - (i64)((a % b != 0) & ((a < 0) != (b < 0)));
}
i64 hal_imod(i64 a, i64 b) {
  if (b == 0 || b == -1) return 0;
  const i64 r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
i64 hal_ceildiv(i64 a, i64 b) { return (i64)(0 - (u64)hal_idiv((i64)(0 - (u64)a), b)); }
i64 hal_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
i64 hal_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
i64 hal_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
i64 hal_least(i64 a, i64 b) { return a < b ? a : b; }
i64 hal_most(i64 a, i64 b) { return a > b ? a : b; }
i64 hal_clamp(i64 x, i64 low, i64 high) { return x < low ? low : x > high ? high : x; }
i64 hal_shl(i64 a, i64 b) { return (i64)((u64)a << (b & 63)); }
i64 hal_shr(i64 a, i64 b) { return a >> (b & 63); }
i64 hal_shru(i64 a, i64 b) { return (i64)((u64)a >> (b & 63)); }
i64 hal_mulhi(i64 a, i64 b) {
  const u64 al = (u32)a, bl = (u32)b;
  const i64 ah = a >> 32, bh = b >> 32;
  const i64 mid = (i64)(al * bl >> 32) + (i64)((u64)ah * bl);
  const i64 low = (i64)((u64)bh * al) + (i64)(mid & 0xffffffffu);
  return ah * bh + (mid >> 32) + (low >> 32);
}
i64 hal_count(i64 limit, i64 origin, i64 length) {
  if (limit <= origin) return 0;
  const u64 count = (u64)limit - (u64)origin;
  return count > (u64)length ? length : (i64)count;
}
i64 hal_far(i64 x) { return (u64)x + 0x200000000000000u > 0x400000000000000u; }
i64 hal_size(i64 x) { return x < 0 ? (i64)(0 - (u64)x) : x; }
i64 hal_wide(i64 a, i64 b) {
  const u64 x = (u64)hal_size(a), y = (u64)hal_size(b);
  if ((x | y) >> 28 == 0) return 0;
  return y != 0 && x > 0x400000000000000u / y;
}
i64 hal_run(i64 p, i64 size, i64 divisor, i64 run) {
  if (divisor <= 0 || size < 0) return 1;
  if (size == 0) return divisor == 1 ? run : hal_least(run, divisor - hal_imod(p, divisor));
  if (divisor == 1) return hal_least(run, size - hal_imod(p, size));
  return hal_least(run, divisor - hal_imod(p, divisor));
}
i64 hal_digit(i64 p, i64 size, i64 divisor) {
  return divisor == 0 ? 0 : hal_imod(hal_idiv(p, divisor), size);
}
i64 hal_span(i64 c, i64 slope, i64 extent, i64 run) {
  const i64 last = c + slope * (run - 1);
  if (c >= 0 && c < extent) {
    if (last >= 0 && last < extent) return run;
    return slope > 0 ? (extent - 1 - c) / slope + 1 : c / -slope + 1;
  }
  if (slope > 0 && c < 0) return hal_least(run, (-c + slope - 1) / slope);
  if (slope < 0 && c >= extent) return hal_least(run, (c - extent) / -slope + 1);
  return run;
}
i64 hal_sum_over(i64 a, i64 b) {
  const i64 sum = hal_add(a, b);
  return ((a ^ sum) & (b ^ sum)) < 0;
}
i64 hal_product_over(i64 a, i64 b) {
  const i64 low = hal_mul(a, b);
  return hal_mulhi(a, b) != low >> 63;
}
i64 hal_locate(PRIVATE const i64 *d, i64 i, i64 j, i64 dimension, i64 index) {
  i64 place[2], digits[2][3];
  for (int axis = 0; axis < 2; ++axis) {
    const i64 step = axis ? j : i;
    if (hal_sum_over(d[0], step)) return -1;
    place[axis] = d[0] + step;
    const i64 count = d[1];
    d += 2;
    for (int q = 0; q < count; ++q, d += 3) {
      i64 digit = d[1] == 0 ? 0 : hal_idiv(place[axis], d[1]);
      if (d[2] != 0) digit = hal_imod(digit, d[0]);
      digits[axis][q] = digit;
    }
  }
  const i64 rank = *d++;
  i64 offset = 0, broken = 0;
  for (i64 k = 0; k < rank; ++k) {
    const i64 extent = d[0], stride = d[1], terms = d[3];
    i64 at = d[2];
    d += 4;
    for (i64 t = 0; t < terms; ++t, d += 3) {
      const i64 source = d[0] == 0 ? d[1] : digits[d[0] - 1][d[1]];
      if (hal_product_over(source, d[2]) || hal_sum_over(at, source * d[2])) return -1;
      at += source * d[2];
    }
    if (k == dimension) {
      if (hal_sum_over(at, index)) return -1;
      at += index;
    }
    if (at < 0 || at >= extent) return -1;
    if (broken) continue;
    if (hal_product_over(at, stride) || hal_sum_over(offset, at * stride)) broken = 1;
    else offset += at * stride;
  }
  return broken || offset < 0 ? -2 : offset;
}
i32 hal_is_valid(i64 place, i64 width, i64 rows, i64 columns) {
  return place >= 0 && place / width < rows && place % width < columns;
}
u32 hal_bits_f32(f32 x) { return BITS_u32_f32(x); }
f32 hal_f32_of_bits(u32 x) { return BITS_f32_u32(x); }
u64 hal_bits_f64(f64 x) { return BITS_u64_f64(x); }
f64 hal_f64_of_bits(u64 x) { return BITS_f64_u64(x); }
i32 hal_isnan_f32(f32 x) { return x != x; }
i32 hal_isnan_f64(f64 x) { return x != x; }
f32 hal_max_f32(f32 a, f32 b) { const f32 r = a > b ? a : b; return a != a ? a : r; }
f32 hal_min_f32(f32 a, f32 b) { const f32 r = a < b ? a : b; return a != a ? a : r; }
f64 hal_max_f64(f64 a, f64 b) { const f64 r = a > b ? a : b; return a != a ? a : r; }
f64 hal_min_f64(f64 a, f64 b) { const f64 r = a < b ? a : b; return a != a ? a : r; }
f32 hal_left_f32(f32 r, f32 a, f32 b) { return r == b || r == -b ? a * 0 : r; }
f64 hal_left_f64(f64 r, f64 a, f64 b) { return r == b || r == -b ? a * 0 : r; }
f32 hal_f32_of_bf16(u16 x) { return hal_f32_of_bits((u32)x << 16); }
u16 hal_bf16_of_f32(f32 x) {
  const u32 b = hal_bits_f32(x);
  const u32 r = b + 0x7fffu + ((b >> 16) & 1u);
  return (u16)((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : r >> 16);
}
f32 hal_f32_of_f16(u16 x) {
  const u32 b = ((u32)x & 0x7fffu) << 13;
  const u32 plain = hal_bits_f32(hal_f32_of_bits(b) * 0x1p112f);
  const u32 r = b >= 0x0f800000u ? b | 0x7f800000u : plain;
  return hal_f32_of_bits(r | ((u32)x & 0x8000u) << 16);
}
u16 hal_f16_of_f32(f32 x) {
  const u32 b = hal_bits_f32(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  const u32 low = hal_bits_f32(hal_f32_of_bits(a) + 0.5f) - 0x3f000000u;
  const u32 high = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  u32 r = a < 0x38800000u ? low : high;
  r = a >= 0x477ff000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u : r;
  return (u16)(r | sign);
}
f32 hal_f32_of_f8e5m2(u8 x) { return hal_f32_of_f16((u16)((u32)x << 8)); }
f32 hal_f32_of_f8e4m3(u8 x) {
  const u32 b = ((u32)x & 0x7fu) << 20;
  const u32 plain = hal_bits_f32(hal_f32_of_bits(b) * 0x1p120f);
  const u32 r = b == 0x7f00000u ? 0x7fc00000u : plain;
  return hal_f32_of_bits(r | ((u32)x & 0x80u) << 24);
}
u8 hal_f8e5m2_of_f32(f32 x, i32 saturate) {
  const u32 b = hal_bits_f32(x), sign = b >> 24 & 0x80u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (u8)(0x7eu | sign);
  const u32 low = hal_bits_f32(hal_f32_of_bits(a) + 128.0f) - 0x43000000u;
  const u32 high = (a - 0x38000000u + 0xfffffu + (a >> 21 & 1u)) >> 21;
  const u32 r = a < 0x38800000u ? low : high;
  if (r >= 0x7cu) return (u8)((saturate ? 0x7bu : 0x7cu) | sign);
  return (u8)(r | sign);
}
u8 hal_f8e4m3_of_f32(f32 x, i32 saturate) {
  const u32 b = hal_bits_f32(x), sign = b >> 24 & 0x80u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (u8)(0x7fu | sign);
  const u32 low = hal_bits_f32(hal_f32_of_bits(a) + 16384.0f) - 0x46800000u;
  const u32 high = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
  const u32 r = a < 0x3c800000u ? low : high;
  if (r > 0x7eu) return (u8)((saturate ? 0x7eu : 0x7fu) | sign);
  return (u8)(r | sign);
}
f32 hal_odd_f64(f64 x) {
  const f32 f = (f32)x;
  const u32 b = hal_bits_f32(f);
  const f64 back = (f64)f;
  if (back == x || x != x || (b & 1u)) return f;
  const f64 size = x < 0 ? -x : x, found = back < 0 ? -back : back;
  return hal_f32_of_bits(found > size ? b - 1 : b + 1);
}
f32 hal_odd_i64(i64 x) {
  u64 size = x < 0 ? 0 - (u64)x : (u64)x;
  f32 scale = 1.0f;
  while (size >> 24) {
    size = size >> 1 | (size & 1);
    scale *= 2.0f;
  }
  const f32 r = (f32)(i64)size * scale;
  return x < 0 ? -r : r;
}
u16 hal_finite_f16(u16 x) { return (u16)((x & 0x7fff) == 0x7c00 ? x - 1 : x); }
u16 hal_finite_bf16(u16 x) { return (u16)((x & 0x7fff) == 0x7f80 ? x - 1 : x); }
f32 hal_finite_f32(f32 x) {
  const u32 b = hal_bits_f32(x);
  return (b & 0x7fffffffu) == 0x7f800000u ? hal_f32_of_bits(b - 1) : x;
}
f64 hal_finite_f64(f64 x) {
  const u64 b = hal_bits_f64(x);
  return (b & 0x7fffffffffffffffu) == 0x7ff0000000000000u ? hal_f64_of_bits(b - 1) : x;
}
i32 hal_i32_of_f32(f32 x) {
  return x != x ? 0 : x >= 2147483648.0f ? 2147483647
         : x < -2147483648.0f ? -2147483647 - 1 : (i32)x;
}
i8 hal_i8_of_f32(f32 x) {
  return (i8)(x != x ? 0 : x >= 127.0f ? 127 : x <= -128.0f ? -128 : (i32)x);
}
u8 hal_u8_of_f32(f32 x) { return (u8)(x != x ? 0 : x >= 255.0f ? 255 : x <= 0.0f ? 0 : (i32)x); }
i64 hal_i64_of_f32(f32 x) {
  return x != x ? 0 : x >= 9223372036854775808.0f ? 9223372036854775807
         : x < -9223372036854775808.0f ? -9223372036854775807 - 1 : (i64)x;
}
i32 hal_i32_of_f64(f64 x) {
  return x != x ? 0 : x >= 2147483647.0 ? 2147483647
         : x <= -2147483648.0 ? -2147483647 - 1 : (i32)x;
}
i8 hal_i8_of_f64(f64 x) {
  return (i8)(x != x ? 0 : x >= 127.0 ? 127 : x <= -128.0 ? -128 : (i32)x);
}
u8 hal_u8_of_f64(f64 x) { return (u8)(x != x ? 0 : x >= 255.0 ? 255 : x <= 0.0 ? 0 : (i32)x); }
i64 hal_i64_of_f64(f64 x) {
  return x != x ? 0 : x >= 9223372036854775808.0 ? 9223372036854775807
         : x < -9223372036854775808.0 ? -9223372036854775807 - 1 : (i64)x;
}
void hal_lock(GLOBAL volatile u32 *word) { while (CAS_u32(word, 0u, 1u) != 0u) {} }
void hal_unlock(GLOBAL volatile u32 *word) { CAS_u32(word, 1u, 0u); }
u32 hal_philox(u64 element, u64 seed, u64 offset) {
  u32 c0 = (u32)(element >> 2), c1 = (u32)(element >> 34);
  u32 c2 = (u32)offset, c3 = (u32)(offset >> 32), k0 = (u32)seed, k1 = (u32)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 first = (u64)0xD2511F53u * c0, second = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(second >> 32) ^ c1 ^ k0;
    c1 = (u32)second;
    c2 = (u32)(first >> 32) ^ c3 ^ k1;
    c3 = (u32)first;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const u32 lane = (u32)element & 3u;
  return lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
}
"""

_SCATTER = """
void hal_scatter_{function}_{kind}(GLOBAL {kind} *at, {kind} x) {{
  u{bits} old = *(GLOBAL volatile u{bits} *)at;
  for (;;) {{
    const {kind} have = {load};
    const {kind} sum = {sum};
    const u{bits} seen = CAS_u{bits}((GLOBAL volatile u{bits} *)at, old, {store});
    if (seen == old) return;
    old = seen;
  }}
}}
"""
_SUMS = {
    "add": {"f": "have + x", "i": "({kind})((u{bits})have + (u{bits})x)"},
    "max": {"f": "hal_max_{kind}(have, x)", "i": "have > x ? have : x"},
    "min": {"f": "hal_min_{kind}(have, x)", "i": "have < x ? have : x"},
}


def _scatters() -> str:
    """The atomic updates of SCATTER, by compare and swap."""
    found = ""
    for kind in ("f32", "f64", "i32", "i64"):
        bits = kind[1:]
        for function, sums in _SUMS.items():
            is_float = kind[0] == "f"
            found += (
                _SCATTER.format(
                    function=function,
                    kind=kind,
                    bits=bits,
                    load=f"hal_{kind}_of_bits(old)" if is_float else f"({kind})old",
                    sum=sums[kind[0]].format(kind=kind, bits=bits),
                    store=f"hal_bits_{kind}(sum)" if is_float else f"(u{bits})sum",
                ).strip("\n")
                + "\n"
            )
    return found


_BITS = {
    "u32_f32": ("u32", "f32"),
    "f32_u32": ("f32", "u32"),
    "u64_f64": ("u64", "f64"),
    "f64_u64": ("f64", "u64"),
}


def _parsed() -> dict[str, str]:
    """Snippet name to text, in order."""
    found: dict[str, str] = {}
    name = ""
    for line in (_SNIPPETS.strip() + "\n" + _scatters()).strip().splitlines():
        if not line.startswith((" ", "}")):
            match = _NAME.search(line)
            assert match is not None
            name = match[0]
            found[name] = line
        else:
            found[name] += "\n" + line
    return found


_TABLE = _parsed()


def needed(language: Dialect, text: str) -> str:
    """The snippets that a text calls, and those that they call, ready for the language."""
    wanted: set[str] = set()
    pending = [text]
    while pending:
        for name in set(_NAME.findall(pending.pop())) & set(_TABLE) - wanted:
            wanted.add(name)
            pending.append(_TABLE[name])
    lead = language.function + " " if language.function else ""
    found = "\n".join(lead + body for name, body in _TABLE.items() if name in wanted)
    for name in _BITS:
        word = language.bits.get(name)
        if f"BITS_{name}(" not in found:
            continue
        if word is None:
            raise HcdError(
                f"kernels.dialect.bits has no {name}, which a program uses", call=language.source
            )
        found = found.replace(f"BITS_{name}(", f"{word}(")
    for size in ("u32", "u64"):
        if f"CAS_{size}(" in found:
            word = language.atomics.get(f"cas_{size}")
            if word is None:
                raise HcdError(
                    f"kernels.dialect.atomics has no cas_{size}, which a program uses",
                    call=language.source,
                )
            found = found.replace(f"CAS_{size}(", f"{word}(")
    found = found.replace("GLOBAL ", language.space("global"))
    private = language.spaces.get("private", "")
    return found.replace("PRIVATE ", private + " " if private else "")
