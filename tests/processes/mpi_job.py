"""How tests start Open MPI's mpirun."""

import contextlib
import os
import pathlib
import re
import tempfile

# What says who takes part; no test is to see what the machine says.
FOREIGN = re.compile("TUTTI_|SLURM_|OMPI_|PMIX_")

# Tests may run as root, with fewer processors than processes.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none"}


def own_environment():
    """The variables that a process of a test gets."""
    environment = {name: value for name, value in os.environ.items()
                   if not FOREIGN.match(name)}
    # Of one process, which all of a job would write.
    environment.pop("TEST_PREMATURE_EXIT_FILE", None)
    return environment


@contextlib.contextmanager
def mpi_environment():
    """The variables of one job.

    Its files are in a folder of its own: Open MPI names them by process ids,
    which jobs in different sandboxes have in common.
    """
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(
            prefix="mpi", dir=memory if os.access(memory, os.W_OK) else
            None) as folder:
        yield own_environment() | SETTINGS | {
            "TMPDIR": folder,
            "OMPI_MCA_orte_tmpdir_base": folder,
            "OMPI_MCA_btl_vader_backing_directory": folder}


# Begins what Open MPI wants to run on another host.
AGENT = """#!/bin/sh
export HOST_NAME_FOR_TESTS=$1
shift
exec sh -c "$*"
"""


def place_on_hosts(environment, library, num_hosts, slots):
    """Has a job run on several hosts, for all that Open MPI can tell.

    It starts a daemon of its own for each, whose processes share memory with
    each other alone, and connects them by TCP. `library` is host_name.cc. The
    options of mpirun; the variables of the job get more.
    """
    agent = pathlib.Path(environment["TMPDIR"], "agent")
    agent.write_text(AGENT, encoding="utf-8")
    agent.chmod(0o700)
    environment |= {"LD_PRELOAD": os.path.abspath(library),
                    "HOST_NAME_FOR_TESTS": "launcher",
                    "OMPI_MCA_plm_rsh_agent": str(agent),
                    "OMPI_MCA_oob_tcp_if_include": "lo",
                    "OMPI_MCA_btl_tcp_if_include": "lo"}
    hosts = ",".join(f"host{i}:{slots}" for i in range(num_hosts))
    return ["--host", hosts]
