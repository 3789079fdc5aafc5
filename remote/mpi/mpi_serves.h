#ifndef TUTTI_REMOTE_MPI_MPI_SERVES_H_
#define TUTTI_REMOTE_MPI_MPI_SERVES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/transfer_channel.h"
#include "tutti/environment.h"

namespace tutti {

// Pulls of other tasks from this one: the sending side of mpi_wire.h. For MPI's
// thread; lives until that thread has ended. Bytes are not copied. Bytes that
// the receiver reads are released when it has read them, or when the pull ends
// otherwise. Bytes that MPI sends are released when MPI is done with them,
// whatever has happened to the pull.
class MpiServes {
 public:
  struct Options {
    MpiEngine* runtime = nullptr;  // Outlives this object.
    Random* random = nullptr;      // Outlives this object.
    std::function<void(int task, proto::MpiMessage message)> send;
  };

  explicit MpiServes(Options options);
  ~MpiServes();

  // Starts a pull. A null service serves nothing: the pull ends with `refusal`.
  void OnPull(const ControlCaller& caller, const proto::MpiPull& message,
              TransferService* service, const absl::Status& refusal);
  void OnCancelPull(int task, const proto::MpiCancelPull& message);
  void OnRead(int task, const proto::MpiRead& message);
  void OnSendRest(int task, const proto::MpiSendRest& message);

  // Stops the chosen pulls. Same as TransferChannel::Cancel(), except that
  // bytes which MPI has are released when MPI is done with them.
  void Cancel(const TransferChannel::Choice& choice,
              const absl::Status& reason);

  // Stops sending `task` the bytes that it pulls.
  void StopAllOf(int task, const absl::Status& reason);

  // Forgets the pulls that the service has not delivered. The service may
  // deliver them when MPI is over and this object is gone; their bytes are then
  // released at once. REQUIRES: StopAllOf() each task.
  void ForgetUnreported();

  // Reports for each remaining pull how many bytes come, though MPI still has
  // some of them. REQUIRES: StopAllOf() each task, ForgetUnreported().
  void SayWhatComes();

  bool is_sending() const { return num_sending_ > 0; }

  // Returns whether MPI has bytes of a stopped pull until `task` takes them.
  bool IsHeldBy(int task) const;

  // Returns the number of pulls that have not ended.
  size_t num_served() const { return served_.size(); }

 private:
  class Served;

  std::shared_ptr<Served> Find(int task, uint64_t id) const;
  void StopEach(absl::FunctionRef<bool(const Served&)> chosen,
                const absl::Status& reason);
  void Begin(const std::shared_ptr<Served>& served);
  void SayPlace(Served& served);
  void SendChunks(const std::shared_ptr<Served>& served);
  void OnChunkSent(const std::shared_ptr<Served>& served);
  void Stop(const std::shared_ptr<Served>& served, const absl::Status& reason);
  void Refuse(int task, uint64_t id, const absl::Status& why);
  void SayEnd(Served& served);
  void End(const std::shared_ptr<Served>& served);

  const Options options_;
  absl::flat_hash_map<std::pair<int, uint64_t>, std::shared_ptr<Served>>
      served_;              // Keyed by task and its id.
  size_t num_sending_ = 0;  // Counts chunks.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_SERVES_H_
