#!/usr/bin/env python3
"""Runs a program as an MPI job of 1, 2, 3, 4 and 8 processes.

usage: mpirun_test.py [--hosts=LIBRARY] PROGRAM [ARGS...]

Of each job all processes must end well; what they print is shown if not. If
PROGRAM is of googletest, its report for Bazel is that of the first process of
the last job. With LIBRARY, which is host_name.cc, they are jobs of 2 and of 4
processes, each on two hosts, for all that MPI can tell.
"""

import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from mpi_job import mpi_environment, place_on_hosts

HOSTS = "--hosts="
LIBRARY = (sys.argv.pop(1).removeprefix(HOSTS)
           if sys.argv[1].startswith(HOSTS) else None)
COMMAND = [os.path.abspath(sys.argv[1]), *sys.argv[2:]]

# Where the report goes. Processes that write there at the same time damage it.
REPORT = "XML_OUTPUT_FILE"

# Runs a command without it in all processes but the first.
FIRST_REPORTS = ["sh", "-c", f"""
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || unset {REPORT}
exec "$@"
""", "sh"]


class MpirunTest(unittest.TestCase):

    def test_jobs_of_every_size(self):
        for size in (1, 2, 3, 4, 8) if LIBRARY is None else (2, 4):
            with self.subTest(size=size), mpi_environment() as environment:
                self.run_job(size, environment)

    def run_job(self, size, environment):
        options = [] if LIBRARY is None else place_on_hosts(
            environment, LIBRARY, 2, size // 2)
        try:
            result = subprocess.run(
                ["mpirun", *options, "-n", str(size), "--tag-output",
                 *FIRST_REPORTS, *COMMAND],
                env=environment, text=True, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=300)
        except subprocess.TimeoutExpired as hung:
            self.fail(f"{hung}\n{(hung.stdout or b'').decode()}")
        self.assertEqual(result.returncode, 0, result.stdout)
        report = environment.get(REPORT)
        if report is not None and os.path.exists(report):
            xml.etree.ElementTree.parse(report)  # It is whole.


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
