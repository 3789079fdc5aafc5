#ifndef TUTTI_REMOTE_MPI_MPI_MESSENGER_H_
#define TUTTI_REMOTE_MPI_MPI_MESSENGER_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "proto/mpi.pb.h"
#include "remote/mpi/mpi_requests.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// Messages between the processes of an MPI job, in order from each to each. For
// MPI's thread, which none blocks: a long one whose sender stands still keeps
// back those of that sender alone.
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

  // Hands what has come to `on_message`, which may send. What cannot be read is
  // left out. False if nothing has come.
  bool Receive(const std::function<void(int task, const proto::MpiMessage&)>&
                   on_message);

  bool Poll() { return sending_.Poll(); }
  bool is_sending() const { return sending_.size() > 0; }
  bool is_receiving() const { return num_arriving_ > 0; }

 private:
  struct Arriving {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  using OnMessage = std::function<void(int task, const proto::MpiMessage&)>;

  // Has MPI fetch the next message. False if there is none.
  bool BeginToReceive();

  // Hands on the next one of these if it is here, else says false.
  bool ReceiveNext(int task, std::deque<Arriving>& messages,
                   const OnMessage& on_message);

  MpiRuntime* const runtime_;
  const int tag_;
  const uint64_t incarnation_;
  MpiRequests sending_;

  // By task. MPI writes to what is in them.
  std::map<int, std::deque<Arriving>> arriving_;
  size_t num_arriving_ = 0;  // In all.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_MESSENGER_H_
