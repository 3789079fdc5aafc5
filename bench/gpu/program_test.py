#!/usr/bin/env python3
"""Tests what the programs have for GPUs, and what they need of a machine.

usage: program_test.py GPU_CHECKS GPU_BENCH
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import unittest

PROGRAMS = [os.path.abspath(program) for program in sys.argv[1:]]

# The pages promise them: docs/gpu.md and README.txt.
CODE = {("PTX", 90), ("ELF", 80), ("ELF", 90)}

# Libraries that a machine has. `./dev gpu_suite` copies all others.
LIBRARIES_OF_SYSTEM = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1",
    "libm.so.6", "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
    "linux-vdso.so.1"}
LIBRARIES_IN_FOLDER = re.compile(r"lib(absl_\w+|benchmark|hwy)\.so\b.*")

# Head of a container of device code, as nvcc and cuobjdump have it.
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


def run(program, *arguments):
    """Runs it where it sees no GPU."""
    return subprocess.run(
        [program, *arguments], check=False, text=True, timeout=60,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


class ProgramTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with open(PROGRAMS[0], "rb") as file:
            cls.fatbin = Program(file.read()).section(".nv_fatbin")

    def test_has_code_for_the_gpus_that_are_promised_and_for_newer_ones(self):
        found = fatbins(self.fatbin)
        self.assertTrue(found)
        for code in found:
            self.assertEqual({entry[:2] for entry in code}, CODE)

    def test_kernels_move_16_bytes_at_once(self):
        kernels = {}
        for kind, _, at in sum(fatbins(self.fatbin), []):
            if kind == "PTX":
                kernels.update(re.findall(r"\.entry (\w+)(.*?)\n}",
                                          ptx(self.fatbin, at), re.DOTALL))
        self.assertTrue(kernels)
        # These move 4 bytes or one, where nothing is aligned better.
        narrow = {name for name in kernels if re.search("CopyKernelI[jh]E", name)}
        self.assertEqual(len(narrow), 2)
        for name in kernels.keys() - narrow:
            for access in "ld", "st":
                self.assertRegex(kernels[name],
                                 rf"\b{access}\.global\.v4\.[bfu]32\b", name)

    def test_needs_no_library_that_a_machine_may_lack(self):
        for program in PROGRAMS:
            text = subprocess.run(["ldd", program], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
            names = {os.path.basename(line.split()[0])
                     for line in text.splitlines()}
            self.assertIn("libc.so.6", names)
            for name in names - LIBRARIES_OF_SYSTEM:
                self.assertRegex(name, LIBRARIES_IN_FOLDER)

    def test_says_that_there_is_no_gpu(self):
        for program in PROGRAMS:
            result = run(program)
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertRegex(result.stderr, r"\Agpu_\w+: no GPU: [^\n]+\n\Z")

    def test_refuses_an_unknown_flag(self):
        self.assertEqual(run(PROGRAMS[1], "--colour").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
