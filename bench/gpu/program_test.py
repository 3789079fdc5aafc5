#!/usr/bin/env python3
"""What the suite's program has for GPUs, and what it wants of a machine.

usage: program_test.py GPU_SUITE
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import unittest

GPU_SUITE = os.path.abspath(sys.argv[1])

# What the pages promise: docs/gpu.md and README.txt.
CODE = {("PTX", 90), ("ELF", 80), ("ELF", 90)}
NEWEST_GLIBC = (2, 28)

# What is everywhere, and Highway, which is put beside the program.
LIBRARIES = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1",
             "libhwy.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1",
             "libstdc++.so.6"}

# Of a container of device code, as nvcc and cuobjdump have it.
FATBIN_MAGIC = 0xBA55ED50
KINDS = {1: "PTX", 2: "ELF"}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Program:
    """Sections of a 64-bit ELF file."""

    def __init__(self, data):
        assert data[:6] == b"\x7fELF\x02\x01"
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)
                   for i in range(count)]
        self._data = data
        self._headers = {
            text_at(data, headers[names][4] + header[0]): header
            for header in headers}

    def section(self, name):
        header = self._headers[name]
        return self._data[header[4]:header[4] + header[5]]


def text_at(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()


def fatbins(data):
    """Lists of (kind, compute capability, offset), one for each container."""
    found, at = [], 0
    while at + 16 <= len(data):
        magic, _, header_size, size = struct.unpack_from("<IHHQ", data, at)
        if magic != FATBIN_MAGIC:
            assert not any(data[at:at + 8]), "neither a container nor padding"
            at += 8
            continue
        at += header_size
        end, code = at + size, []
        while at < end:
            kind, _, entry_size, code_size = struct.unpack_from("<HHIQ", data, at)
            (arch,) = struct.unpack_from("<I", data, at + 28)
            code.append((KINDS.get(kind, kind), arch, at))
            at += entry_size + code_size
        found.append(code)
    return found


def ptx(data, at):
    """The text of the entry at the offset."""
    (header,) = struct.unpack_from("<I", data, at + 4)
    compressed_size, size = (struct.unpack_from(kind, data, at + offset)[0]
                             for kind, offset in (("<I", 16), ("<Q", 56)))
    if size == 0:  # Not compressed.
        (code_size,) = struct.unpack_from("<Q", data, at + 8)
        return data[at + header:at + header + code_size].decode()
    code = data[at + header:at + header + compressed_size]
    if code[:4] != ZSTD_MAGIC:
        raise ValueError(f"PTX is compressed otherwise than by zstd: {code[:16]}")
    decompress = ctypes.CDLL("libzstd.so.1").ZSTD_decompress
    decompress.restype = ctypes.c_size_t
    text = ctypes.create_string_buffer(size)
    found = decompress(text, ctypes.c_size_t(size), code,
                       ctypes.c_size_t(len(code)))
    if found != size:
        raise ValueError(f"PTX of {size} bytes decompresses to {found}")
    return text.raw.decode()


def libraries_needed(program):
    """The names of the shared libraries that the program wants."""
    needed, texts = 1, program.section(".dynstr")
    for tag, value in struct.iter_unpack("<QQ", program.section(".dynamic")):
        if tag == needed:
            yield text_at(texts, value)


def versions_needed(program):
    """{number: version} of the versions that the program wants: GLIBC_2.28, ..."""
    needs = program.section(".gnu.version_r")
    texts = program.section(".dynstr")
    at, found = 0, {}
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", needs, at)
        version = at + first
        for _ in range(count):
            _, _, number, name, step = struct.unpack_from("<IHHII", needs, version)
            found[number] = text_at(texts, name)
            version += step
        if not following:
            return found
        at += following


def symbols_needed(program):
    """{version: symbols} of what the program wants."""
    versions = versions_needed(program)
    texts = program.section(".dynstr")
    symbols = struct.iter_unpack("<I20x", program.section(".dynsym"))
    numbers = struct.iter_unpack("<H", program.section(".gnu.version"))
    found = {version: [] for version in versions.values()}
    for (name,), (number,) in zip(symbols, numbers):
        if number in versions:
            found[versions[number]].append(text_at(texts, name))
    return found


def is_newer(version):
    """Whether no C library has it that is as old as promised."""
    name, _, number = version.partition("_")
    return name == "GLIBC" and (
        not re.fullmatch(r"[0-9.]+", number) or
        tuple(map(int, number.split("."))) > NEWEST_GLIBC)


def highway():
    """The path of what `dev` puts beside the program."""
    libraries = subprocess.run(["ldd", GPU_SUITE], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
    return re.search(r"libhwy.* => (\S+)", libraries)[1]


class ProgramTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with open(GPU_SUITE, "rb") as file:
            cls.program = Program(file.read())

    def test_has_code_for_the_gpus_that_are_promised_and_for_newer_ones(self):
        found = fatbins(self.program.section(".nv_fatbin"))
        self.assertTrue(found)
        for code in found:
            self.assertEqual({entry[:2] for entry in code}, CODE)

    def test_kernels_move_16_bytes_at_once(self):
        data, kernels = self.program.section(".nv_fatbin"), {}
        for kind, _, at in sum(fatbins(data), []):
            if kind == "PTX":
                kernels.update(re.findall(r"\.entry (\w+)(.*?)\n}", ptx(data, at),
                                          re.DOTALL))
        self.assertTrue(kernels)
        # By 4 bytes and by single ones: where nothing is aligned better.
        narrow = {name for name in kernels if re.search("CopyKernelI[jh]E", name)}
        self.assertEqual(len(narrow), 2)
        for name in kernels.keys() - narrow:
            for access in "ld", "st":
                self.assertRegex(kernels[name],
                                 rf"\b{access}\.global\.v4\.[bfu]32\b", name)

    def test_needs_no_library_that_a_machine_may_lack(self):
        found = set(libraries_needed(self.program))
        self.assertTrue(found)
        self.assertEqual(found - LIBRARIES, set())

    def test_runs_with_the_oldest_c_library_that_is_promised(self):
        with open(highway(), "rb") as file:
            library = Program(file.read())
        for needs in map(symbols_needed, [self.program, library]):
            self.assertIn("GLIBC_2.2.5", needs)
            self.assertEqual({version: symbols for version, symbols in needs.items()
                              if is_newer(version)}, {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
