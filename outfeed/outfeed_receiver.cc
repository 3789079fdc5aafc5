#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "outfeed/byte_budget.h"
#include "outfeed/device_stream.h"
#include "outfeed/memory_channel.h"
#include "tutti/device.h"
#include "tutti/outfeed.h"

namespace tutti {
namespace {

absl::Status Validate(const OutfeedReceiver::Options& options) {
  if (options.devices.empty()) {
    return absl::InvalidArgumentError("an outfeed receiver needs a device");
  }
  absl::flat_hash_set<const Device*> seen;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    if (options.devices[i] == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", i, " of an outfeed receiver is null"));
    }
    if (!seen.insert(options.devices[i]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("an outfeed receiver was given device ",
                       options.devices[i]->full_name(), " twice"));
    }
  }
  if (options.callback == nullptr) {
    return absl::InvalidArgumentError("an outfeed receiver needs a callback");
  }
  if (options.max_queued_bytes < 1 ||
      options.max_queued_bytes > OutfeedChannel::kMaxTransferBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_queued_bytes is 1 to ", OutfeedChannel::kMaxTransferBytes,
        ", found ", options.max_queued_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

// Counts the streams that have not ended. Thread-safe.
class StreamsEnd {
 public:
  // Sets the number of streams. REQUIRES: no stream has started.
  void Expect(size_t num_streams) {
    MutexLock lock(&mu_);
    num_left_ = num_streams;
  }

  void OnStreamEnded(absl::Status status) {
    std::vector<StatusCallback> dones;
    {
      MutexLock lock(&mu_);
      if (status_.ok()) status_ = std::move(status);
      if (--num_left_ > 0) return;
      dones.swap(dones_);
      status = status_;
    }
    for (StatusCallback& done : dones) std::move(done)(status);
  }

  // Calls `done` when all streams have ended.
  void Call(StatusCallback done) {
    absl::Status status;
    {
      MutexLock lock(&mu_);
      if (num_left_ > 0) {
        dones_.push_back(std::move(done));
        return;
      }
      status = status_;
    }
    std::move(done)(std::move(status));
  }

 private:
  Mutex mu_;
  size_t num_left_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);  // First error.
  std::vector<StatusCallback> dones_ ABSL_GUARDED_BY(mu_);
};

// Streams of a receiver, and the receiver's state. Thread-safe.
class OutfeedReceiver::Streams {
 public:
  Streams(std::shared_ptr<const ByteBudget> budget,
          std::shared_ptr<StreamsEnd> ending,
          std::vector<std::shared_ptr<DeviceStream>> streams)
      : budget_(std::move(budget)),
        ending_(std::move(ending)),
        streams_(std::move(streams)) {}

  absl::Status Start() ABSL_LOCKS_EXCLUDED(mu_);
  void Shutdown(StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);
  OutfeedStatistics statistics(size_t index) const {
    return streams_[index]->statistics();
  }
  int64_t queued_bytes() const { return budget_->used_bytes(); }

 private:
  enum class State { kNew, kStarted, kShutDown };

  absl::Status StartStreams(size_t& num_started) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<const ByteBudget> budget_;
  const std::shared_ptr<StreamsEnd> ending_;
  const std::vector<std::shared_ptr<DeviceStream>> streams_;

  Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kNew;
};

absl::Status OutfeedReceiver::Streams::Start() {
  size_t num_started = 0;
  absl::Status status = StartStreams(num_started);
  if (status.ok() || num_started == streams_.size()) return status;
  for (size_t i = 0; i < num_started; ++i) streams_[i]->Close();
  for (size_t i = num_started; i < streams_.size(); ++i) {
    ending_->OnStreamEnded(status);
  }
  return status;
}

// Holds the lock throughout: a Shutdown() finds all streams or none.
absl::Status OutfeedReceiver::Streams::StartStreams(size_t& num_started) {
  MutexLock lock(&mu_);
  if (state_ != State::kNew) {
    num_started = streams_.size();
    return absl::FailedPreconditionError(
        state_ == State::kStarted
            ? "this outfeed receiver was started before"
            : "this outfeed receiver was shut down before it was started");
  }
  state_ = State::kStarted;
  ending_->Expect(streams_.size());
  for (const auto& stream : streams_) {
    RETURN_IF_ERROR(stream->Start());
    ++num_started;
  }
  return absl::OkStatus();
}

void OutfeedReceiver::Streams::Shutdown(StatusCallback done) {
  State before = State::kNew;
  {
    MutexLock lock(&mu_);
    before = std::exchange(state_, State::kShutDown);
  }
  if (before == State::kStarted) {
    for (const auto& stream : streams_) stream->Close();
  }
  if (done != nullptr) ending_->Call(std::move(done));
}

absl::StatusOr<std::unique_ptr<OutfeedReceiver>> OutfeedReceiver::Create(
    Options options) {
  RETURN_IF_ERROR(Validate(options));
  const auto registry = options.registry != nullptr
                            ? std::move(options.registry)
                            : std::make_shared<OutfeedRegistry>();
  const auto budget = std::make_shared<ByteBudget>(options.max_queued_bytes);
  const auto ending = std::make_shared<StreamsEnd>();
  const auto callback =
      std::make_shared<const OutfeedCallback>(std::move(options.callback));
  std::vector<std::shared_ptr<DeviceStream>> streams;
  for (Device* device : options.devices) {
    ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(*device));
    streams.push_back(std::make_shared<DeviceStream>(
        DeviceStream::Options{device, std::move(channel), registry, budget,
                              callback, options.environment},
        [ending](absl::Status status) {
          ending->OnStreamEnded(std::move(status));
        }));
  }
  return std::unique_ptr<OutfeedReceiver>(new OutfeedReceiver(
      registry, std::make_unique<Streams>(budget, ending, std::move(streams))));
}

OutfeedReceiver::OutfeedReceiver(std::shared_ptr<OutfeedRegistry> registry,
                                 std::unique_ptr<Streams> streams)
    : registry_(std::move(registry)), streams_(std::move(streams)) {}

OutfeedReceiver::~OutfeedReceiver() { Shutdown(nullptr); }

absl::Status OutfeedReceiver::Start() { return streams_->Start(); }

void OutfeedReceiver::Shutdown(StatusCallback done) {
  streams_->Shutdown(std::move(done));
}

OutfeedStatistics OutfeedReceiver::statistics(size_t device_index) const {
  return streams_->statistics(device_index);
}

int64_t OutfeedReceiver::queued_bytes() const {
  return streams_->queued_bytes();
}

}  // namespace tutti
