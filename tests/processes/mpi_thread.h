#ifndef TUTTI_TESTS_PROCESSES_MPI_THREAD_H_
#define TUTTI_TESTS_PROCESSES_MPI_THREAD_H_

namespace tutti {

// A program that links this ends when MPI is called on another thread than the
// one that brought it up, and names the function; and when MPI is to end while
// receives are open. Where the program has brought MPI up by
// PMPI_Init_thread(), its own calls are PMPI's, and the one thread is the first
// one that calls MPI. Watched are those for messages, collectives, what has
// ended, types, operations, windows and communicators; not
// MPI_Comm_create_group() and MPI_Comm_free(), which programs replace
// themselves.

// The program's MPI grants no more than MPI_THREAD_FUNNELED. Before it is
// brought up.
void GrantFunneledOnly();

// For functions of MPI that a program replaces by its own.
void CheckMpiThread(const char* function);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MPI_THREAD_H_
