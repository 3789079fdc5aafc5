#ifndef TUTTI_TESTS_MPI_THREAD_H_
#define TUTTI_TESTS_MPI_THREAD_H_

namespace tutti {

// In a program that links this, whoever calls MPI from another thread than the
// one that has brought it up ends the program, which names the function: of
// those that move bytes, begin a collective, look for what has ended or make a
// communicator.

// The program's MPI grants no more than MPI_THREAD_FUNNELED. Before it is
// brought up.
void GrantFunneledOnly();

// For functions of MPI that a program replaces by its own.
void CheckMpiThread(const char* function);

}  // namespace tutti

#endif  // TUTTI_TESTS_MPI_THREAD_H_
