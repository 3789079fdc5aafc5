#include "bench/gpu/raw_nccl.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "bench/gpu/pending_calls.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

// A launch takes NCCL microseconds, a communicator seconds.
constexpr int kLooksWithoutPause = 1000;
constexpr absl::Duration kPause = absl::Milliseconds(1);
constexpr absl::Duration kLongest = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::unique_ptr<RawNccl>> RawNccl::Create(
    SuiteMachine& machine, std::shared_ptr<NcclRuntime> nccl, int num_gpus,
    Calls calls) {
  // The constructor is private.
  std::unique_ptr<RawNccl> raw(new RawNccl(machine, std::move(nccl)));
  absl::Status status = raw->Init(num_gpus, calls);
  if (!status.ok()) return status;
  return raw;
}

RawNccl::~RawNccl() {
  if (comms_.empty()) return;
  absl::Status status = Finish();
  if (status.ok()) status = nccl_->Finalize(comms_);
  if (status.ok()) status = AwaitReady();
  (status.ok() ? nccl_->Destroy(comms_) : nccl_->Abort(comms_)).IgnoreError();
}

absl::Status RawNccl::Init(int num_gpus, Calls calls) {
  std::vector<NcclRank> ranks;
  for (int gpu = 0; gpu < num_gpus; ++gpu) {
    absl::StatusOr<OwnedGpuStream> stream = NewStream(machine_.runtime(), gpu);
    if (!stream.ok()) return stream.status();
    streams_.push_back(*std::move(stream));
    ranks.push_back({.rank = gpu, .gpu = gpu});
  }
  auto comms = calls == Calls::kBlock ? nccl_->CommInitBlocking(ranks)
                                      : InitNotBlocking(ranks);
  if (!comms.ok()) return comms.status();
  comms_ = *std::move(comms);
  for (int rank = 0; rank < num_gpus; ++rank) {
    parts_.push_back({.comm = comms_[rank],
                      .stream = stream(rank),
                      .calls = std::vector<NcclCall>(1)});
  }
  return status_ = AwaitReady();
}

absl::StatusOr<std::vector<NcclComm>> RawNccl::InitNotBlocking(
    absl::Span<const NcclRank> ranks) {
  const absl::StatusOr<std::string> id = nccl_->NewUniqueId();
  if (!id.ok()) return id.status();
  return nccl_->CommInitRanks(*id, static_cast<int>(ranks.size()), ranks);
}

absl::Status RawNccl::Launch(absl::Span<const NcclCall> calls) {
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    parts_[rank].calls[0] = calls[rank];
  }
  if (status_.ok()) status_ = nccl_->Launch(parts_);
  if (status_.ok()) status_ = AwaitReady();
  return status_;
}

absl::Status RawNccl::Finish() {
  absl::Status status = status_;
  for (const OwnedGpuStream& stream : streams_) {
    // What failed may never end.
    if (status.ok()) status = machine_.WaitFor(stream.get());
  }
  return status;
}

absl::Status RawNccl::AwaitReady() {
  Clock& clock = *machine_.environment().clock;
  const absl::Time latest = clock.Now() + kLongest;
  while (clock.Now() < latest) {
    for (int i = 0; i < kLooksWithoutPause; ++i) {
      const absl::StatusOr<bool> are_ready = AreReady(*nccl_, comms_);
      if (!are_ready.ok() || *are_ready) return are_ready.status();
    }
    absl::Status status = Pause();
    if (!status.ok()) return status;
  }
  return absl::DeadlineExceededError("NCCL was not ready after a minute");
}

absl::Status RawNccl::Pause() {
  PendingCalls calls;
  Clock& clock = *machine_.environment().clock;
  clock.CallAt(clock.Now() + kPause, [end = calls.Add("a pause")]() mutable {
    std::move(end)(absl::OkStatus());
  });
  return machine_.Wait(calls);
}

}  // namespace tutti
