#ifndef TUTTI_TESTS_PROCESSES_MPI_THREAD_H_
#define TUTTI_TESTS_PROCESSES_MPI_THREAD_H_

namespace tutti {

// A program that links this file aborts, naming the function, if a thread calls
// MPI that did not initialise it; and if MPI is finalised while receives are
// open. If the program has initialised MPI by PMPI_Init_thread(), it calls MPI
// by the PMPI names; then the first thread that calls MPI is the right one.
// Checks the functions for messages, collectives, completion, types,
// operations, windows and communicators, but not MPI_Comm_create_group() and
// MPI_Comm_free(), which programs replace themselves.

// Makes the program's MPI grant at most MPI_THREAD_FUNNELED. Call it before MPI
// is initialised.
void GrantFunneledOnly();

// Checks the calling thread, for MPI functions that a program replaces.
void CheckMpiThread(const char* function);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MPI_THREAD_H_
