#!/usr/bin/env python3
"""The training example as an MPI job: it learns, and all ranks the same.

usage: mpi_train_test.py MPI_TRAIN DATA
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

# The folder in which Bazel runs tests has those of the repository.
sys.path.insert(0, os.path.abspath("tests/processes"))
from mpi_job import mpi_environment  # pylint: disable=wrong-import-position

PROGRAM, DATA = map(os.path.abspath, sys.argv[1:3])


class MpiTrainTest(unittest.TestCase):

    def setUp(self):
        # The program with its data next to it, as `bazel build` leaves them.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, "mpi_train")
        shutil.copy(PROGRAM, self.program)
        data = pathlib.Path(f"{self.program}.runfiles/tutti/examples/train/data")
        data.mkdir(parents=True)
        shutil.copy(DATA, data)

    def train(self, size):
        with mpi_environment() as environment:
            result = subprocess.run(
                ["mpirun", "-n", str(size), str(self.program), "3"],
                env=environment, text=True, check=False, capture_output=True,
                stdin=subprocess.DEVNULL, timeout=100)
        self.assertEqual(result.returncode, 0, result)
        return result.stdout

    def test_all_ranks_learn_the_same(self):
        for size in 1, 2, 3, 4, 8:
            with self.subTest(size=size):
                text = self.train(size)
                self.assertIn(
                    f"The {size} replicas are equal bit for bit.\n", text)
                accuracy = re.search(r"epoch 3: .* accuracy ([\d.]+) %", text)
                self.assertGreater(float(accuracy[1]), 80, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
