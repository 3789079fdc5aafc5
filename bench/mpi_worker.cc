// All-reduce by an MPI, whose launcher starts the process: bench/in_process.py
// compares it with others.
//
// usage: mpi_worker FOLDER
//
// The process of rank i reads the file "i" of the folder as its input, since
// launchers forward standard input to one process only.

// Excludes the old C++ bindings, whose library is not linked.
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "bench/serve_calls.h"

namespace tutti {
namespace {

std::string AllReduce(const TimedCall& call) {
  if (call.collective != "all_reduce") return "only all_reduce is compared";
  // Errors end the process, as by default in MPI.
  MPI_Allreduce(call.input, call.output, static_cast<int>(call.num_elements),
                MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return "";
}

// First line of the library's version text.
std::string Version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 2) {
    std::cerr << "usage: mpi_worker FOLDER\n";
    return 2;
  }
  int rank = 0;
  int num_ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  const std::string path = std::string(argv[1]) + "/" + std::to_string(rank);
  if (std::freopen(path.c_str(), "r", stdin) == nullptr) {
    std::cerr << "mpi_worker: cannot read " << path << '\n';
    return 1;
  }
  std::cout << "READY " + tutti::Version() + "\n" << std::flush;
  tutti::ServeCalls(rank, num_ranks, tutti::AllReduce);
  MPI_Finalize();
}
