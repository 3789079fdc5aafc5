#ifndef TUTTI_FRAMEWORK_CHOICE_DELEGATE_COST_H_
#define TUTTI_FRAMEWORK_CHOICE_DELEGATE_COST_H_

#include "tutti/implementation.h"

namespace tutti {

// Returns the predicted seconds of a collective that the library of the
// transport (ImplementationTraits::delegate) runs among the tasks of a layout.
// Pure. Infinite, and therefore never chosen, within one process.
//
// Each of log2(n) rounds costs a share of the model's latency: a library's
// message meets no rendezvous and no change of thread. Bytes cost as much as
// by messages of ours, and more above 16 MiB among more than two. Close to
// times of MPI_Iallreduce among 2, 4 and 8 processes (bench/results/mpi.md).
double DelegateSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_DELEGATE_COST_H_
