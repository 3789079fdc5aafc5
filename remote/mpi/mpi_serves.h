#ifndef TUTTI_REMOTE_MPI_MPI_SERVES_H_
#define TUTTI_REMOTE_MPI_MPI_SERVES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/control/control_channel.h"
#include "proto/mpi.pb.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/transfer_channel.h"
#include "tutti/environment.h"

namespace tutti {

// What other tasks pull from this one: the sending side of mpi_wire.h. For
// MPI's thread; lives until that has ended. Bytes go from where they lie: those
// that the receiver reads are its lender's again when it has read them, or the
// pull ends otherwise; those that MPI sends when MPI has let go of them,
// whatever has happened to the pull.
class MpiServes {
 public:
  struct Options {
    MpiEngine* runtime = nullptr;  // Outlives this.
    Random* random = nullptr;      // The same.
    std::function<void(int task, proto::MpiMessage message)> send;
  };

  explicit MpiServes(Options options);
  ~MpiServes();

  // A null service serves nothing: the pull ends with `refusal`.
  void OnPull(const ControlCaller& caller, const proto::MpiPull& message,
              TransferService* service, const absl::Status& refusal);
  void OnCancelPull(int task, const proto::MpiCancelPull& message);
  void OnRead(int task, const proto::MpiRead& message);
  void OnSendRest(int task, const proto::MpiSendRest& message);

  // Sends `task` no more of what it pulls.
  void StopAllOf(int task, const absl::Status& reason);

  // Forgets whom the service has not told yet: they may be told when MPI is
  // over and this is gone, and then give their bytes back at once. REQUIRES:
  // StopAllOf() each task.
  void ForgetUntold();

  // Says how many bytes come of each pull that is left, though MPI has not let
  // go of all of them. REQUIRES: StopAllOf() each task, ForgetUntold().
  void SayWhatComes();

  bool is_sending() const { return num_sending_ > 0; }

  // Whether MPI has bytes of a pull that was stopped until `task` takes them.
  bool IsHeldBy(int task) const;

  // Pulls that have not ended.
  size_t num_served() const { return served_.size(); }

 private:
  class Served;

  std::shared_ptr<Served> Find(int task, uint64_t id) const;
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
      served_;              // By task and its id.
  size_t num_sending_ = 0;  // Chunks.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_SERVES_H_
