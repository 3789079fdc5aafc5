#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_

#include <mpi.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace tutti {

// MPI operations under way, each with a callback for its end. For MPI's thread.
// No operation fails: MPI ends the job on errors.
class MpiRequests {
 public:
  using OnEnd = absl::AnyInvocable<void(const MPI_Status& status) &&>;

  // Requests that have not ended at destruction belong to MPI until MPI ends.
  MpiRequests() = default;
  MpiRequests(MpiRequests&&) = default;
  MpiRequests& operator=(MpiRequests&&) = default;

  void Add(MPI_Request request, OnEnd on_end);

  // Runs the callbacks of ended requests; they may add more. MPI has forgotten
  // all requests that ended in this look. Returns false if none ended.
  bool Poll();

  // Counts requests that only wait for other processes too.
  size_t size() const { return requests_.size(); }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<OnEnd> on_end_;  // Parallel to requests_.

  // Memory to use again.
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::pair<OnEnd, MPI_Status>> ended_;
};

// Returns the error that MPI reports for an operation named `what`.
absl::Status MpiStatus(int code, const char* what);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_REQUESTS_H_
