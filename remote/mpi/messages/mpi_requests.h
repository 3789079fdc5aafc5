#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_

#include <mpi.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace tutti {

// Operations of MPI that are under way, and what to do when each has ended. For
// MPI's thread. None fails: MPI ends the job for that.
class MpiRequests {
 public:
  using OnEnd = absl::AnyInvocable<void(const MPI_Status& status) &&>;

  // Those that have not ended when it goes are MPI's until MPI ends.
  MpiRequests() = default;
  MpiRequests(MpiRequests&&) = default;
  MpiRequests& operator=(MpiRequests&&) = default;

  void Add(MPI_Request request, OnEnd on_end);

  // Runs what is due, which may add more; by then all that have ended in this
  // look are gone for MPI. False if nothing was.
  bool Poll();

  // Also those that wait for other processes alone.
  size_t size() const { return requests_.size(); }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<OnEnd> on_end_;  // One for each.

  // To be used again.
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::pair<OnEnd, MPI_Status>> ended_;
};

// What MPI reports, of an operation that it names `what`.
absl::Status MpiStatus(int code, const char* what);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_
