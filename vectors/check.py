#!/usr/bin/env python3
"""A second reader of the wire, written from docs/WIRE.md alone: decodes the golden vectors.

Only the standard library. Run from anywhere: python3 vectors/check.py
Sections named in comments are those of the document.
"""
import hashlib
import hmac
import json
import math
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parent / "crates" / "foveate-wire" / "src" / "trained.bin"
DOCUMENT = HERE.parent / "docs" / "WIRE.md"

# Section 4: the families of contexts are read from the document's own table.
ROW = re.compile(r"^\| ([A-Z_]+) \| (\d+) \| (\d+|–) \|", re.M)
C = {name: int(first) for name, first, _ in ROW.findall(DOCUMENT.read_text("utf-8"))}
RAW_TABLE = TABLE.read_bytes()
TRAINED = struct.unpack(f"<{len(RAW_TABLE) // 2}H", RAW_TABLE)
HORIZON = 40


def i32(v):
    """The low 32 bits as a signed number."""
    return (v + 2**31) % 2**32 - 2**31


def length(v):
    return abs(v).bit_length()


def clamp(v, low, high):
    return max(low, min(v, high))


def sign(v):
    return (v > 0) - (v < 0) + 1


class Reader:
    """Section 2: the range coder, reading."""

    def __init__(self, data):
        self.p = list(TRAINED)
        self.data, self.at, self.range = data, 4, 2**32 - 1
        self.code = int.from_bytes((data + bytes(4))[:4], "big")

    def renormalise(self):
        while self.range < 2**24:
            byte = self.data[self.at] if self.at < len(self.data) else 0
            self.at += 1
            self.code = (self.code << 8 | byte) % 2**32
            self.range <<= 8

    def bit(self, context):
        p = self.p[context]
        bound = (self.range >> 15) * p
        bit = self.code >= bound
        if bit:
            self.code -= bound
            self.range -= bound
            p -= p >> 4
        else:
            self.range = bound
            p += (32768 - p) >> 4
        self.p[context] = p
        self.renormalise()
        return bit

    def raw(self, n):
        value = 0
        while n > 0:
            k = min(n, 16)
            n -= k
            self.range >>= k
            part = min(self.code // self.range, 2**k - 1)
            self.code -= part * self.range
            self.renormalise()
            value = value << k | part
        return value

    # Section 3: numbers.
    def number(self, first, sign_at, tree, expect, pivot, signed=True):
        near = lambda n: min(max(n + 6 - expect, 0), 9)
        longer = lambda n: self.bit(first + [0, 7, 15][min(n, 2)] + near(n))
        n = min(pivot, 31)
        if longer(n):
            n += 1
            while n < 32 and longer(n):
                n += 1
        else:
            while n > 0 and not longer(n - 1):
                n -= 1
        if n == 0:
            return 0
        negative = signed and self.bit(sign_at + near(n))
        below = n - 1
        at = {2: 0, 3: 1}.get(n, 4 + 7 * (min(n, 10) - 4))
        prefix = 1
        for _ in range(min(below, 3)):
            prefix = prefix << 1 | self.bit(tree + at + prefix - 1)
        rest = below - min(below, 3)
        value = prefix << rest | self.raw(rest)
        return i32(-value if negative else value) if signed else value

    def plain(self, family, signed):
        return self.number(family, family + 25, family + 35, 6, 1 if signed else 3, signed)


# Section 7: the schema's text; section 9: lanes of each type.
TOKEN = re.compile(r"\s*([A-Za-z_]+|-?\d[\d.e+-]*|[{}(),:])")


def parse_type(tokens):
    """`Name { key: value, … }`, `Name(inner)` → (name, {key: value})."""
    name, out = tokens.pop(0), {}
    if tokens and tokens[0] == "(":
        tokens.pop(0)
        out["inner"] = parse_type(tokens)
        assert tokens.pop(0) == ")"
    elif tokens and tokens[0] == "{":
        tokens.pop(0)
        while tokens[0] != "}":
            key = tokens.pop(0)
            assert tokens.pop(0) == ":"
            if key == "item":
                out[key] = parse_type(tokens)
            else:
                word = tokens.pop(0)
                out[key] = {"true": True, "false": False}.get(word, word)
                if isinstance(out[key], str):
                    out[key] = f32(float(word)) if re.search("[.e]", word) else int(word)
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)
    return name, out


def field_type(text):
    return parse_type(TOKEN.findall(text))


def classes(ty):
    name, a = ty
    if name == "Place":
        return [("step",)] * a["dims"]
    if name in ("Number", "Integer"):
        return [("step",)]
    if name == "Angle":
        return [("turn", a["steps"])]
    if name == "Symbol":
        return [("symbol", a["count"])]
    if name == "Quaternion":
        return [("symbol", 4)] + [("step",)] * 3
    if name in ("Text", "Bytes"):
        return [("step",)] + [("word",)] * -(-a["max"] // 4)
    if name == "Optional":
        return [("symbol", 2)] + classes(a["inner"])
    assert name == "List", name
    return [("step",)] + classes(a["item"]) * a["max"]


class Kind:
    def __init__(self, fall):
        self.fall = fall
        self.lanes = [("step",)] * 2
        self.others = [(0, 2)]
        self.place = self.yaw = self.pitch = None

    def add(self, ty, role):
        at = len(self.lanes)
        self.lanes += classes(ty)
        if role == "Plain":
            self.others.append((at, len(self.lanes)))
        elif role == "Place":
            extent = math.floor(ty[1]["extent"] / ty[1]["precision"] + 0.5)
            self.place = (at, ty[1]["dims"], extent, ty[1]["motion"])
        else:
            setattr(self, role.lower(), (at, ty[1]["steps"]))


def parse_schema(text):
    kinds = []
    for line in text.splitlines():
        name, rest = line.split(": ", 1)
        if "." not in name:
            kinds.append(Kind(int(rest.split("fall=")[1])))
        else:
            ty, role = re.match(r"(.*) role=(\w+) floor=", rest).groups()
            kinds[-1].add(field_type(ty), role)
    return kinds


def fnv(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h


# Section 6.
def way(moved, ticks, rounds):
    t, r = clamp(ticks, 1, 65536), min(rounds, HORIZON)
    return [i32((2 * m * r + t) // (2 * t)) for m in moved]


def age_class(age):
    return max(age, 1) - 1 if age <= 4 else 4 if age <= 8 else 5


class Fall:
    def __init__(self, stated):
        self.stated, self.g, self.candidate = stated, stated, 0

    def unit(self, age, ticks):
        a = min(age, 1024)
        return a * (a + min(clamp(ticks, 1, 65536), 1024))

    def residual(self, unit):
        return i32(-(self.g * unit // 2)) if self.g != 0 else None

    def learn(self, unit, r):
        if self.stated != 0 or r >= 0 or -2 * r % unit:
            return
        found = min(-2 * r // unit, 2**31 - 1)
        if found == self.candidate:
            self.g = found
        self.candidate = found


def absolute(c, dims, extent):
    bits = length(extent) + 1
    lows = [-extent, -extent, -extent if dims == 3 else 0]
    widths = [bits, bits, bits if dims == 3 else 0]
    if c.bit(C["WIDE"]):
        widths = [32] * 3
    return [i32(low + c.raw(width)) for low, width in zip(lows, widths)]


def jump(c, dims, extent, start):
    bits = length(extent) + 1
    place = []
    for axis, width in enumerate([bits, bits, bits if dims == 3 else 0]):
        up = int(axis == 2)
        by = c.number(C["J_LEN"] + up * 25, C["J_SIGN"] + up * 10, C["J_TREE"],
                      max(width - 4, 0), max(width - 5, 0))
        place.append(i32(start[axis] + by))
    return place


def vertical(c, fall, w, age, ticks):
    z = w[2]
    if z == 0:
        rise = int(w[0] != 0 or w[1] != 0)
    else:
        size = length(abs(z) // age)
        rise = 2 + (0 if size <= 3 else 1 if size <= 6 else 2) + (3 if z < 0 else 0)
    at = rise * 6 + age_class(age)
    if not c.bit(C["Z_SAME"] + at):
        return 0, 0 if z == 0 else 3
    if z != 0 and not c.bit(C["Z_STAY"] + at):
        return i32(-z), 1
    unit = fall.unit(age, ticks)
    fallen = fall.residual(unit)
    if fallen is not None and not c.bit(C["Z_FALL"] + at):
        return fallen, 2
    scale = z if z != 0 else max(min(abs(w[0]), 2**31 - 1), min(abs(w[1]), 2**31 - 1))
    expect = length(scale)
    r = c.number(C["Z_LEN"] + rise * 25, C["Z_SIGN"] + rise * 10, C["Z_TREE"] + sign(z) * 53,
                 expect, max(expect - 3, 0))
    fall.learn(unit, r)
    return r, 4


def horizontal(c, w, age, lift):
    x, y = clamp(w[0], -2**22, 2**22), clamp(w[1], -2**22, 2**22)
    a, b = max(abs(x), abs(y)), min(abs(x), abs(y))
    size = math.isqrt(a * a + b * b)
    half, sine = (b * 4096 // (size + a), b * 4096 // size) if size else (0, 0)
    scale, moving = min(length(size + size // 2), 13), int(size > 0)
    span = 0 if age <= 1 else 1 if age <= 4 else 2
    if not c.bit(C["H_SAME"] + scale * 5 + lift):
        return 0, 0
    if moving and not c.bit(C["H_STOP"] + scale * 5 + lift):
        return i32(-w[0]), i32(-w[1])
    s = 25 * min(size // age, 2**20) // 16
    pace = moving + (2 * s >> (length(s) - 2) & 3 if s > 1 else 0)
    air = [0, 2, 1, 1, 2][lift]
    along = c.number(C["A_LEN"] + ((pace * 3 + span) * 3 + air) * 25,
                     C["A_SIGN"] + (span * 5 + lift) * 10, C["A_TREE"] + moving * 53,
                     scale, max(scale - 5, 0))
    gap = clamp(6 + length(along) - scale, 1, 7) if along else 0
    across = c.number(C["B_LEN"] + (gap * 3 + air) * 25, C["B_SIGN"] + sign(along) * 10,
                      C["B_TREE"] + moving * 53, length(along), max(length(along) - 2, 0))
    shear = lambda f, v: (f * v + 2048) // 4096
    u = i32(along - shear(half, across))
    v = i32(across + shear(sine, u))
    u = i32(u - shear(half, v))
    if abs(y) > abs(x):
        u, v = v, u
    return i32(-u) if x < 0 else u, i32(-v) if y < 0 else v


def moved_place(c, kind, fall, base, age):
    """6.2 for an update → place, motion, miss."""
    at, dims, extent, motion = kind.place
    start = (base["lanes"][at:at + dims] + [0])[:3]
    moved, ticks = (base["moved"], base["ticks"]) if motion else ([0] * 3, 0)
    if c.bit(C["JUMP"] + age_class(age)):
        return jump(c, dims, extent, start), ([0] * 3, 0), 2
    w = way(moved, ticks, age)
    rz, lift = vertical(c, fall, w, age, ticks)
    rx, ry = horizontal(c, w, age, lift)
    r = [rx, ry, rz]
    place = [i32(i32(s + d) + e) for s, d, e in zip(start, w, r)]
    longest = max(map(length, r))
    miss = 0 if longest == 0 else 1 if longest <= 4 else 2
    way_there = ([i32(p - s) for p, s in zip(place, start)], age)
    return place, way_there if motion else ([0] * 3, 0), miss


def facing(c, kind, base, age, miss, lanes):
    """6.3."""
    turns = [0, 0]
    if c.bit(C["FACING"] + age_class(age) * 3 + miss):
        turns[0] = c.number(C["YAW_LEN"] + miss * 25, C["YAW_SIGN"], C["YAW_TREE"], 6, 3)
        n = length(turns[0])
        turn = 0 if n == 0 else 1 if n <= 2 else 2 if n <= 4 else 3
        turns[1] = c.number(C["PITCH_LEN"] + turn * 25, C["PITCH_SIGN"], C["PITCH_TREE"], 6, 1)
    for role, turned in zip((kind.yaw, kind.pitch), turns):
        if role:
            lane, steps = role
            lanes[lane] = i32(base["lanes"][lane] + turned) % steps


def lane(c, cls, before, single, whole):
    if cls[0] == "step":
        return i32(before + c.plain(C["STEP"] + whole * 88, True))
    if cls[0] == "turn":
        return i32(before + c.plain(C["STEP"] + whole * 88, True)) % cls[1]
    if cls[0] == "symbol":
        if single and cls[1] == 2:
            return int(before == 0)
        return min(c.raw(length(cls[1] - 1)), cls[1] - 1)
    return i32(c.raw(32)) if c.bit(C["WORD"]) else before


def state(c, kind, fall, base, age):
    whole = int(base is None)
    base = base or {"lanes": [0] * len(kind.lanes)}
    lanes, motion, miss = list(base["lanes"]), ([0] * 3, 0), 2
    if kind.place:
        at, dims, extent, _ = kind.place
        if whole:
            place = absolute(c, dims, extent)
        else:
            place, motion, miss = moved_place(c, kind, fall, base, age)
        lanes[at:at + dims] = [clamp(v, -extent, extent) for v in place[:dims]]
    if kind.yaw or kind.pitch:
        facing(c, kind, base, HORIZON if whole else age, miss, lanes)
    if c.bit(C["OTHERS"] + whole):
        for nth, (first, end) in enumerate(kind.others):
            if c.bit(C["FIELD"] + whole * 16 + min(nth, 15)):
                for n in range(first, end):
                    lanes[n] = lane(c, kind.lanes[n], lanes[n], end - first == 1, whole)
    return lanes, motion


# Sections 1 and 5.
def packet(data, near, kinds, held):
    assert data[0] == 0x11 and 5 <= len(data) <= 1200
    seq, low = struct.unpack("<HH", data[1:5])
    behind = (near - low + 2**15) % 2**16 - 2**15
    tick = (near - behind) % 2**32
    c, fall, records, following = Reader(data[5:]), None, [], 0
    while c.bit(C["MORE"] + min(len(records), 2)):
        alias = following + c.plain(C["GAP"], False)
        following = alias + 1
        record, base, age = {"alias": alias}, None, 0
        if not c.bit(C["OPERATION"]):
            age = c.plain(C["AGE"], False) + 1
            base, record["op"] = held[alias, (tick - age) % 2**32], "update"
            kind = kinds[base["kind"]]
        elif not c.bit(C["OPERATION"] + 1):
            record["op"], record["kind"] = "full", c.raw(8)
            record["origin"] = c.plain(C["NAME"], False) % 2**24
            record["serial"] = c.plain(C["NAME"] + 88, False)
            kind = kinds[record["kind"]]
        else:
            record["op"] = "gone" if c.bit(C["OPERATION"] + 2) else "frozen"
            records.append(record)
            continue
        stated = kind.fall if kind.place else 0
        if fall is None or fall.stated != stated:
            fall = Fall(stated)
        record["lanes"], motion = state(c, kind, fall, base, age)
        if base:
            record["moved"], record["ticks"] = motion
        records.append(record)
    return seq, tick, records


# Section 9: floats and lanes.
def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def rounded(v):
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


TAU = f32(2 * math.pi)


def put(ty, value):
    name, a = ty
    if name == "Place":
        return [rounded(clamp(v, -a["extent"], a["extent"]) / a["precision"]) for v in value]
    if name == "Number":
        return [rounded(clamp(value[0], a["min"], a["max"]) / a["precision"])]
    if name == "Angle":
        q = f32(value[0] / TAU)
        return [rounded((q - math.floor(q)) * a["steps"]) % a["steps"]]
    if name == "Integer":
        return [clamp(value, a["min"], a["max"])]
    if name == "Symbol":
        return [int(value)]
    if name == "Quaternion":
        return put_quaternion(value, a["bits"])
    if name in ("Text", "Bytes"):
        data = value.encode() if name == "Text" else bytes(value)
        data = data[:a["max"]]
        if name == "Text":
            data = data.decode("utf-8", "ignore").encode()
        words = -(-a["max"] // 4)
        return [len(data), *struct.unpack(f"<{words}i", data.ljust(words * 4, b"\0"))]
    if name == "Optional":
        zeros = [0] * len(classes(a["inner"]))
        return [0] + zeros if value is None else [1] + put(a["inner"], value)
    items = [put(a["item"], v) for v in value[:a["max"]]]
    zeros = [0] * (len(classes(a["item"])) * (a["max"] - len(items)))
    return [len(items)] + sum(items, []) + zeros


def put_quaternion(q, bits):
    total = 0.0
    for part in q:
        total = f32(total + f32(part * part))
    norm = f32(math.sqrt(total))
    unit = [f32(part / norm) for part in q] if norm > 1e-6 else [0.0, 0.0, 0.0, 1.0]
    largest = max(range(4), key=lambda at: (abs(unit[at]), at))
    step = f32(f32(math.sqrt(0.5)) / (2 ** (bits - 1) - 1))
    turned = [-part if unit[largest] < 0 else part for part in unit]
    return [largest] + [rounded(f32(turned[at] / step)) for at in range(4) if at != largest]


def get(ty, lanes):
    name, a = ty
    if name in ("Place", "Number"):
        low, high = (-a["extent"], a["extent"]) if name == "Place" else (a["min"], a["max"])
        return [clamp(f32(v * a["precision"]), low, high) for v in lanes]
    if name == "Angle":
        q = lanes[0] % a["steps"] / a["steps"]
        return [f32((q - 1 if q > 0.5 else q) * TAU)]
    if name == "Integer":
        return clamp(lanes[0], a["min"], a["max"])
    if name == "Symbol":
        return lanes[0] & 1 == 1
    if name == "Quaternion":
        return get_quaternion(lanes, a["bits"])
    if name in ("Text", "Bytes"):
        data = struct.pack(f"<{len(lanes) - 1}i", *lanes[1:])[:clamp(lanes[0], 0, a["max"])]
        return data.decode("utf-8", "replace") if name == "Text" else list(data)
    if name == "Optional":
        return get(a["inner"], lanes[1:]) if lanes[0] & 1 else None
    n = len(classes(a["item"]))
    count = clamp(lanes[0], 0, a["max"])
    return [get(a["item"], lanes[1 + at * n:1 + (at + 1) * n]) for at in range(count)]


def get_quaternion(lanes, bits):
    most = 2 ** (bits - 1) - 1
    parts = [clamp(v, -most, most) * math.sqrt(0.5) / most for v in lanes[1:]]
    square = sum(v * v for v in parts)
    if square > 1:
        parts, square = [v / math.sqrt(square) for v in parts], 1.0
    parts.insert(lanes[0] % 4, math.sqrt(1 - square))
    return parts


# The vectors.
def check_coder(case):
    c = Reader(bytes.fromhex(case["bytes"]))
    for what, where, value in case["steps"]:
        found = c.bit(where) if what == "bit" else c.raw(where)
        yield int(found), value


def check_numbers(case):
    c = Reader(bytes.fromhex(case["bytes"]))
    for value in case["values"]:
        at = (case[key] for key in ("len", "sign", "tree", "expect", "pivot", "signed"))
        yield c.number(*at), value


def check_packets(case):
    yield f"{fnv(case['schema']):016x}", case["hash"]
    held = {(base["alias"], base["tick"]): base for base in case["held"]}
    kinds = parse_schema(case["schema"])
    seq, tick, records = packet(bytes.fromhex(case["bytes"]), case["near"], kinds, held)
    yield (seq, tick), (case["seq"], case["tick"])
    yield records, case["records"]


def check_values(case):
    ty = field_type(case["type"])
    yield put(ty, case["value"]), case["lanes"]
    back = get(ty, case["lanes"])
    if ty[0] == "Quaternion":  # the order of float operations is not part of the wire
        yield all(abs(a - b) < 1e-3 for a, b in zip(back, case["back"])), True
    else:
        yield back, case["back"]


# Section 12: direct datagrams. The two ciphers are written out, for the standard library has neither.


def expand(secret, name, size):
    """HKDF-Expand with SHA-256."""
    out, block, count = b"", b"", 0
    while len(out) < size:
        count += 1
        info = b"foveate direct 1 " + name + bytes([count])
        block = hmac.new(secret, block + info, hashlib.sha256).digest()
        out += block
    return out[:size]


def chacha_block(key, counter, nonce):
    def quarter(a, b, c, d):
        for x, y, z, by in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
            s[x] = (s[x] + s[y]) % 2**32
            t = s[z] ^ s[x]
            s[z] = (t << by | t >> (32 - by)) % 2**32

    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    s = start[:]
    for _ in range(10):
        for at in range(4):
            quarter(at, at + 4, at + 8, at + 12)
        for at in range(4):
            quarter(at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4)
    return struct.pack("<16I", *[(a + b) % 2**32 for a, b in zip(s, start)])


def chacha_open(key, nonce, sealed, header):
    one_time = chacha_block(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    tag, total = int.from_bytes(one_time[16:32], "little"), 0
    padded = [data + bytes(-len(data) % 16) for data in (header, sealed)]
    data = b"".join(padded) + struct.pack("<QQ", len(header), len(sealed))
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    stream = b"".join(chacha_block(key, 1 + n, nonce) for n in range(len(sealed) // 64 + 1))
    return bytes(a ^ b for a, b in zip(sealed, stream)), ((total + tag) % 2**128).to_bytes(16, "little")


def times2(byte):
    return (byte << 1 ^ (0x11B if byte & 0x80 else 0)) & 0xFF


def aes_box():
    """The S-box: inverses by powers of 3, then the affine map."""
    powers, value = [], 1
    for _ in range(255):
        powers.append(value)
        value ^= times2(value)
    box = [0x63] * 256
    for n, value in enumerate(powers):
        inverse = powers[-n % 255]
        turned = inverse
        for by in range(1, 5):
            turned ^= (inverse << by | inverse >> (8 - by)) & 0xFF
        box[value] = turned ^ 0x63
    return box


BOX = aes_box()


def aes_block(key, block):
    words, factor = [list(key[at : at + 4]) for at in range(0, 16, 4)], 1
    for at in range(4, 44):
        word = words[-1]
        if at % 4 == 0:
            word = [BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= factor
            factor = times2(factor)
        words.append([a ^ b for a, b in zip(words[-4], word)])
    keys = [sum(words[at : at + 4], []) for at in range(0, 44, 4)]
    state = [a ^ b for a, b in zip(block, keys[0])]
    for turn in range(1, 11):
        state = [BOX[state[(at + 4 * (at % 4)) % 16]] for at in range(16)]
        if turn < 10:
            mixed = []
            for column in (state[at : at + 4] for at in range(0, 16, 4)):
                every = column[0] ^ column[1] ^ column[2] ^ column[3]
                mixed += [column[n] ^ every ^ times2(column[n] ^ column[(n + 1) % 4]) for n in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[turn])]
    return bytes(state)


def gcm_open(key, nonce, sealed, header):
    h, total = int.from_bytes(aes_block(key, bytes(16)), "big"), 0
    padded = [data + bytes(-len(data) % 16) for data in (header, sealed)]
    data = b"".join(padded) + struct.pack(">QQ", 8 * len(header), 8 * len(sealed))
    for at in range(0, len(data), 16):
        x, y, total = total ^ int.from_bytes(data[at : at + 16], "big"), h, 0
        for n in range(127, -1, -1):
            total ^= y if x >> n & 1 else 0
            y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    pad = lambda n: aes_block(key, nonce + struct.pack(">I", n))
    stream = b"".join(pad(2 + n) for n in range(len(sealed) // 16 + 1))
    tag = bytes(a ^ b for a, b in zip(total.to_bytes(16, "big"), pad(1)))
    return bytes(a ^ b for a, b in zip(sealed, stream)), tag


def check_direct(case):
    exported = bytes.fromhex(case["exported"])
    first = exported[:32] if case["side"] == "client" else exported[32:]
    ids = expand(first, b"ids", 32)
    yield expand(ids, b"id " + struct.pack("<I", case["path"]), 8).hex(), case["id"]
    secret = first
    for _ in range(case["phase"]):
        secret = expand(secret, b"next", 32)
    is_aes = case["protocol"].endswith("aes128gcm")
    key, iv = expand(secret, b"key", 16 if is_aes else 32), expand(secret, b"iv", 12)
    data = bytes.fromhex(case["bytes"])
    header, sealed, tag = data[:11], data[11:-16], data[-16:]
    number = struct.pack("<Q", case["sequence"])
    nonce = iv[:4] + bytes(a ^ b for a, b in zip(iv[4:], number))
    opened, expected = (gcm_open if is_aes else chacha_open)(key, nonce, sealed, header)
    yield tag.hex(), expected.hex()
    yield header[0] >> 5, 1
    yield (header[0] >> 2 & 3, header[0] & 3), (case["phase"] % 4, case["kind"])
    yield (header[1:9].hex(), header[9:]), (case["id"], number[:2])
    feedback = None
    if header[0] & 16:
        feedback, opened = list(struct.unpack("<HHB", opened[:5])), opened[5:]
    yield feedback, case["feedback"]
    yield opened.hex(), case["contents"]


def main():
    assert len(TRAINED) == C["CONTEXTS"], "the trained table has another length than the document says"
    failures = 0
    for name, check in [("coder", check_coder), ("numbers", check_numbers),
                        ("packets", check_packets), ("values", check_values),
                        ("direct", check_direct)]:
        cases = json.loads((HERE / f"{name}.json").read_text("utf-8"))
        for at, case in enumerate(cases):
            try:
                wrong = next(((a, b) for a, b in check(case) if a != b), None)
            except (AssertionError, IndexError, KeyError) as error:
                wrong = (repr(error), "a case that can be read")
            if wrong:
                failures += 1
                label = case.get("name", case.get("type", case.get("protocol")))
                print(f"{name} {at} ({label}):\n  read     {wrong[0]}\n  expected {wrong[1]}")
        print(f"{name}: {len(cases)} cases")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
