"""How tests run the tool as a user would, on files that NumPy wrote.

The command line of each such test is: TUTTI [OPTIONS of unittest]
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

TUTTI = os.path.abspath(sys.argv[1])

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64",
          "int16", "uint16", "uint32", "uint64"]


# No test is to see what the machine says of who takes part, and how.
for variable in list(os.environ):
    if re.match("TUTTI_|SLURM_|OMPI_|PMI_|MPI_LOCAL", variable):
        del os.environ[variable]


class ToolTest(unittest.TestCase):
    """A folder of its own for each test, and ways to look at runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_tool(self, *args, variables=None, **kwargs):
        result = subprocess.run(
            [TUTTI, *map(str, args)], cwd=self.root, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=300,
            env={**os.environ, **(variables or {})},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs})
        if result.stderr:
            result.stderr = without_notes(result.stderr)
        return result

    def succeed(self, *args):
        """What the tool prints."""
        result = self.run_tool(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        self.assertNotIn("\x1b", result.stdout)
        return result.stdout

    def fail_with(self, status, *args, **kwargs):
        """The one line with which it fails."""
        result = self.run_tool(*args, **kwargs)
        self.assertEqual(result.returncode, status, (args, result))
        self.assertRegex(result.stderr, r"\Atutti: [^\n]+\n\Z")
        self.assertFalse(result.stdout)
        return result.stderr

    def save(self, arrays, folder="in"):
        """One file per rank; the pattern that means them all."""
        (self.root / folder).mkdir(exist_ok=True)
        for rank, array in enumerate(arrays):
            np.save(self.root / folder / f"rank{rank}.npy", array)
        return f"{folder}/rank*.npy"

    def load(self, folder="out"):
        """{rank: array} of what was written."""
        arrays = {}
        for path in (self.root / folder).iterdir():
            rank = int(re.fullmatch(r"rank(\d+)\.npy", path.name).group(1))
            arrays[rank] = np.load(path)
        return arrays

    def run_collective(self, arrays, *args, through=()):
        """{rank: array} after `tutti run ARGS` on the arrays."""
        for folder in ["in", "out"]:
            shutil.rmtree(self.root / folder, ignore_errors=True)
        self.succeed(*through, "run", *args, "--input", self.save(arrays),
                     "--output", "out")
        return self.load()

    def run_for_nobody(self, *args):
        """With a standard output whose reader has gone."""
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as out:
            return self.run_tool(*args, stdout=out)

    @staticmethod
    def limit_files():
        """The kernel refuses to let a file grow past the limit."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    def assert_outputs(self, found, wanted):
        """Wanted are {rank: array}, or arrays by rank."""
        if isinstance(wanted, list):
            wanted = dict(enumerate(wanted))
        self.assertEqual(sorted(found), sorted(wanted))
        for rank, array in wanted.items():
            self.assertEqual(found[rank].dtype, array.dtype)
            self.assertEqual(found[rank].shape, array.shape)
            np.testing.assert_array_equal(found[rank], array)

    def assert_nothing_written(self):
        self.assertFalse((self.root / "out").exists())


def without_notes(errors):
    """Not those of a task that had to wait for one that started late."""
    return "".join(line for line in errors.splitlines(keepends=True)
                   if " waits for " not in line)


def arrays_of(num_ranks, shape, dtype="float32"):
    """Small whole numbers, so that sums are exact in any order."""
    random = np.random.default_rng(1)
    return [random.integers(1, 9, shape).astype(dtype) for _ in range(num_ranks)]


def main():
    """Runs the tests of the script."""
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
