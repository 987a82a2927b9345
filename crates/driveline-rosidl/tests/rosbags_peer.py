#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package rosbags as a peer: reads one JSON request on standard input, and prints one response.

{"command": "export", "store": "ros2_jazzy", "samples": N, "seed": S}
{"command": "export", "definitions": {NAME: TEXT}, ...}
    -> {"types": {NAME: {"definition", "rihs01", "rihs01_as_is",
                         "samples": [{"le", "be", "value"}]}}}
{"command": "check", "store" or "definitions", "samples": [{"type", "le", "be", "value"}],
    "texts": {NAME: {"msg" if there is one, "idl", "rihs01"}}}
    -> {"failures": [...]}

Bytes are hexadecimal. Values are lists of members. Floating-point numbers are the hexadecimal
digits of their bytes, so that a comparison of texts is exact.
"""

import json
import random
import struct
import sys

import numpy
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys import store as store_module
from rosbags.typesys.base import normalize_fieldname

NUMBERS = {
    "bool": "bool_",
    "byte": "uint8",
    "char": "uint8",
    "int8": "int8",
    "uint8": "uint8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "float32": "float32",
    "float64": "float64",
}
# rosbags has this entry only as a comment, because it cannot serialise a wstring.
store_module.TIDMAP["wstring"] = 18
ALPHABET = "aB7_/ é→😀"
SEPARATOR = "=" * 80


class Store:
    def __init__(self, request):
        name = request.get("store")
        self.types = get_typestore(Stores(name)) if name else get_typestore(Stores.EMPTY)
        definitions = request.get("definitions") or {}
        found = {}
        for name, text in definitions.items():
            found.update(get_types_from_msg(text, name))
        if found:
            self.types.register(found)
        self.names = sorted(definitions) or sorted(self.types.fielddefs)

    def hashes(self, name):
        """Returns the hash of ROS 2 (char of .msg is uint8 of IDL), and the hash of rosbags."""
        as_is = self.types.hash_rihs01(name)
        before = store_module.TIDMAP["char"]
        store_module.TIDMAP["char"] = store_module.TIDMAP["uint8"]
        try:
            return self.types.hash_rihs01(name), as_is
        finally:
            store_module.TIDMAP["char"] = before

    def fields(self, name):
        return self.types.fielddefs[name][1]

    def message(self, name, rng, depth=0):
        values = [self.random(desc, rng, depth) for _, desc in self.fields(name)]
        return self.types.types[name](*values)

    def random(self, desc, rng, depth):
        if desc[0] == Nodetype.NAME:
            return self.message(desc[1], rng, depth + 1)
        if desc[0] == Nodetype.BASE:
            kind, bound = desc[1]
            if kind == "string":
                return "".join(rng.choices(ALPHABET, k=min(rng.randrange(9), bound or 9)))
            value = self.numbers(kind, 1, rng)[0].item()
            # rosbags takes -128 to 127 for a single byte, and 0 to 255 for an array of bytes.
            return value - 256 if kind == "byte" and value > 127 else value
        inner, count = desc[1]
        if desc[0] == Nodetype.SEQUENCE:
            count = min(rng.randrange(6 // (depth + 1) + 2), count or 99)
        if inner[0] == Nodetype.BASE and inner[1][0] != "string":
            return self.numbers(inner[1][0], count, rng)
        return [self.random(inner, rng, depth) for _ in range(count)]

    def numbers(self, kind, count, rng):
        dtype = numpy.dtype(NUMBERS[kind])
        if kind == "bool":
            return numpy.array([rng.random() < 0.5 for _ in range(count)], dtype=dtype)
        values = numpy.frombuffer(rng.randbytes(count * dtype.itemsize), dtype=dtype)
        if not kind.startswith("float"):
            return values
        # Python changes bits of not-a-number values, so they are replaced.
        return numpy.where(numpy.isnan(values), dtype.type(numpy.inf), values)

    def plain(self, name, message):
        """Returns a message as the nested lists of this protocol."""
        return [
            self.plain_field(desc, getattr(message, normalize_fieldname(field)))
            for field, desc in self.fields(name)
        ]

    def plain_field(self, desc, value):
        if desc[0] == Nodetype.NAME:
            return self.plain(desc[1], value)
        if desc[0] == Nodetype.BASE:
            kind = desc[1][0]
            if kind in ("float32", "float64"):
                return struct.pack(">f" if kind == "float32" else ">d", value).hex()
            if kind == "byte":
                return int(value) & 0xFF
            return value if kind in ("string", "bool") else int(value)
        inner = desc[1][0]
        if inner[0] == Nodetype.BASE and inner[1][0] == "bool":
            return [bool(v) for v in value]
        return [self.plain_field(inner, v) for v in value]


def export(request):
    store, types = Store(request), {}
    for name in store.names:
        rng = random.Random(f"{request['seed']} {name}")
        samples = []
        for _ in range(request["samples"]):
            message = store.message(name, rng)
            bytes_of = {}
            for order in ("le", "be"):
                encoded = store.types.serialize_cdr(message, name, little_endian=order == "le")
                bytes_of[order] = bytes(encoded).hex()
            samples.append({**bytes_of, "value": store.plain(name, message)})
        rihs01, as_is = store.hashes(name)
        definition = store.types.generate_msgdef(name, ros_version=2)[0]
        types[name] = {
            "definition": definition,
            "rihs01": rihs01,
            "rihs01_as_is": as_is,
            "samples": samples,
        }
    return {"types": types}


def types_of_idl(text):
    found = {}
    for section in text.split(SEPARATOR + "\n"):
        if section:
            found.update(get_types_from_idl(section.split("\n", 1)[1]))
    return found


def check(request):
    failures = []
    store = Store(request)
    for sample in request["samples"]:
        name = sample["type"]
        for order in ("le", "be"):
            try:
                message = store.types.deserialize_cdr(bytes.fromhex(sample[order]), name)
                read = store.plain(name, message)
            except Exception as e:  # Any exception is a finding.
                failures.append(f"{name} {order}: {e!r} of {sample[order]}")
                continue
            if read != sample["value"]:
                failures.append(f"{name} {order}: read {read}, sent {sample['value']}")
    for name, texts in request["texts"].items():
        parsers = {
            "msg": lambda: get_types_from_msg(texts["msg"], name),
            "idl": lambda: types_of_idl(texts["idl"]),
        }
        for kind, types in parsers.items():
            if kind not in texts:
                continue
            try:
                other = Store({})
                other.types.register(types())
                got = other.hashes(name)[0]
            except Exception as e:
                got = repr(e)
            if got != texts["rihs01"]:
                failures.append(
                    f"{name}: the text as {kind} gives {got}, not {texts['rihs01']}:\n{texts[kind]}"
                )
    return {"failures": failures}


def main():
    request = json.load(sys.stdin)
    json.dump({"export": export, "check": check}[request["command"]](request), sys.stdout)


if __name__ == "__main__":
    main()
