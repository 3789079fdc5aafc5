#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Copies tensors in host memory, one after the other, to a tensor.
absl::StatusOr<Tensor> Joined(absl::Span<const Tensor> tensors,
                              const TensorShape& shape) {
  absl::StatusOr<Tensor> joined = Tensor::Allocate(tensors[0].dtype(), shape);
  if (!joined.ok()) return joined;
  std::byte* into = joined->mutable_data();
  for (const Tensor& tensor : tensors) {
    if (tensor.size_bytes() > 0) {
      std::memcpy(into, tensor.data(), tensor.size_bytes());
    }
    into += tensor.size_bytes();
  }
  return joined;
}

}  // namespace

// Counts of a device. Waiting transfers share ownership.
class AllReduceObserver::Counts {
 public:
  void Drop() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ++tallies_.num_dropped;
  }

  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ++(status.ok() ? tallies_.num_sent : tallies_.num_failed);
    tallies_.first_error.Update(status);
  }

  Tallies tallies() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return tallies_;
  }

 private:
  mutable Mutex mu_;
  Tallies tallies_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::shared_ptr<AllReduceObserver>> AllReduceObserver::Create(
    const Options& options) {
  if (options.registry == nullptr) {
    return absl::InvalidArgumentError(
        "an all-reduce observer needs the registry of a receiver");
  }
  if (options.max_waiting_items < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_waiting_items of an all-reduce observer is ",
                     options.max_waiting_items, ", wanted 1 or more"));
  }
  std::shared_ptr<AllReduceObserver> observer(new AllReduceObserver(options));
  for (Device* device : options.devices) {
    RETURN_IF_ERROR(observer->AddDevice(device));
  }
  for (const Selection& selection : options.selections) {
    RETURN_IF_ERROR(observer->AddSelection(selection));
  }
  return observer;
}

AllReduceObserver::AllReduceObserver(const Options& options)
    : registry_(options.registry),
      max_waiting_items_(static_cast<size_t>(options.max_waiting_items)) {}

absl::Status AllReduceObserver::AddDevice(Device* device) {
  if (device == nullptr) {
    return absl::InvalidArgumentError(
        "a device of an all-reduce observer is null");
  }
  ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(*device));
  ASSIGN_OR_RETURN(auto sender, OutfeedSender::Create(*device, registry_));
  sources_.emplace(device, Source{std::move(channel), std::move(sender),
                                  std::make_shared<Counts>()});
  return absl::OkStatus();
}

absl::Status AllReduceObserver::AddSelection(const Selection& selection) {
  if (selection.consumer_id == kShutdownConsumerId) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Consumer ID cannot be a reserved value: ", selection.consumer_id));
  }
  const InstanceId id(selection.group_key, selection.instance_key);
  if (consumers_.emplace(id, selection.consumer_id).second) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("instance ", selection.instance_key, " of group ",
                   selection.group_key, " is selected twice"));
}

void AllReduceObserver::Observe(const Finished& finished, Work shown) {
  const CollectiveRequest& request = finished.request;
  const auto consumer =
      consumers_.find({request.group_key, request.instance_key});
  const auto found = sources_.find(&finished.device);
  if (consumer == consumers_.end() || found == sources_.end() ||
      TypeOf(request.op) != CollectiveType::kAllReduce) {
    return std::move(shown)();
  }
  const Source& source = found->second;
  if (source.channel->tallies().waiting_transfers >= max_waiting_items_) {
    source.counts->Drop();
    return std::move(shown)();
  }
  std::vector<Tensor> results = {finished.output};
  TensorShape shape = finished.output.shape();
  if (finished.segments != nullptr) {
    results.clear();
    for (const SegmentList::Segment& segment : finished.segments->segments()) {
      results.push_back(segment.output);
    }
    shape = request.shape;
  }
  const StepAndExecution numbers = {finished.step_id,
                                    static_cast<int64_t>(finished.execution)};
  finished.device.CopyToHost(
      std::move(results),
      [this, &source, numbers, shape, consumer_id = consumer->second,
       shown = std::move(shown)](auto on_host) mutable {
        absl::Status status = on_host.status();
        if (status.ok()) {
          status = Send(source, consumer_id, numbers, Joined(*on_host, shape));
        }
        if (!status.ok()) source.counts->End(status);
        std::move(shown)();
      });
}

// Sends the result. Errors: failures before the sender has the item.
absl::Status AllReduceObserver::Send(const Source& source, uint32_t consumer_id,
                                     const StepAndExecution& numbers,
                                     absl::StatusOr<Tensor> result) const {
  RETURN_IF_ERROR(result.status());
  if (!registry_->Find(consumer_id).ok()) {
    // Another thread may register the id meanwhile, with other arrays.
    RETURN_IF_ERROR(registry_->Register(
        consumer_id, {{DType::kInt64, TensorShape::Vector(2)},
                      {result->dtype(), result->shape()}}));
  }
  ASSIGN_OR_RETURN(const auto first,
                   CopyOf(DType::kInt64, TensorShape::Vector(2),
                          std::as_bytes(std::span(numbers))));
  source.sender.Send(
      consumer_id, {first, *result},
      [counts = source.counts](absl::Status status) { counts->End(status); });
  return absl::OkStatus();
}

AllReduceObserver::Tallies AllReduceObserver::tallies(
    const Device& device) const {
  return sources_.at(&device).counts->tallies();
}

}  // namespace tutti
