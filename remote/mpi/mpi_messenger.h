#ifndef TUTTI_REMOTE_MPI_MPI_MESSENGER_H_
#define TUTTI_REMOTE_MPI_MPI_MESSENGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "proto/mpi.pb.h"
#include "remote/mpi/mpi_requests.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// Messages between the processes of an MPI job. For MPI's thread.
class MpiMessenger {
 public:
  // Longer ones are not read: the next field of a peer's message that is not
  // known could be anything.
  static constexpr size_t kMaxMessageBytes = size_t{8} << 20;

  // `runtime` outlives this; `incarnation` is of this process. Takes a tag of
  // messages: what was sent by those who took another one waits for them.
  MpiMessenger(MpiRuntime* runtime, uint64_t incarnation)
      : runtime_(runtime),
        tag_(runtime->NewMessageTag()),
        incarnation_(incarnation) {}

  // Adds the incarnation. If MPI cannot send it, it ends the job.
  void Send(int task, proto::MpiMessage message);

  // Hands what has come to `on_message`. What cannot be read is left out. False
  // if nothing has come.
  bool Receive(const std::function<void(int task, const proto::MpiMessage&)>&
                   on_message);

  bool Poll() { return sending_.Poll(); }
  bool is_sending() const { return sending_.size() > 0; }

 private:
  MpiRuntime* const runtime_;
  const int tag_;
  const uint64_t incarnation_;
  MpiRequests sending_;
  std::vector<char> received_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_MESSENGER_H_
