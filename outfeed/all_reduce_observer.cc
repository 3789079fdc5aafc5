#include <cstring>
#include <span>

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

// Copies the outputs, one after the other, to a tensor of the request's shape.
absl::StatusOr<Tensor> CopyOf(const SegmentList& segments,
                              const TensorShape& shape) {
  absl::StatusOr<Tensor> copy = Tensor::Allocate(segments.dtype(), shape);
  if (!copy.ok()) return copy;
  for (const SegmentList::Piece& piece : segments.pieces()) {
    std::memcpy(copy->mutable_data() + piece.begin, piece.output,
                static_cast<size_t>(piece.end - piece.begin));
  }
  return copy;
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
  if (device->attributes().name.type != "CPU") {
    return absl::UnimplementedError(
        absl::StrCat("the host cannot copy what all-reduces yield on ",
                     device->full_name()));
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

void AllReduceObserver::OnFinished(const Finished& finished) {
  const auto consumer = consumers_.find(
      {finished.request.group_key, finished.request.instance_key});
  if (consumer == consumers_.end() ||
      TypeOf(finished.request.op) != CollectiveType::kAllReduce) {
    return;
  }
  const auto source = sources_.find(&finished.device);
  if (source == sources_.end()) return;
  Counts& counts = *source->second.counts;
  const auto waiting = source->second.channel->tallies().waiting_transfers;
  if (waiting >= max_waiting_items_) return counts.Drop();
  const absl::Status status = Send(source->second, consumer->second, finished);
  if (!status.ok()) counts.End(status);
}

// Sends the result. Errors: failures before the sender has the item.
absl::Status AllReduceObserver::Send(const Source& source, uint32_t consumer_id,
                                     const Finished& finished) const {
  ASSIGN_OR_RETURN(
      const auto copy,
      finished.segments == nullptr
          ? CopyOf(finished.output.dtype(), finished.output.shape(),
                   {finished.output.data(), finished.output.size_bytes()})
          : CopyOf(*finished.segments, finished.request.shape));
  if (!registry_->Find(consumer_id).ok()) {
    // Another thread may register the id meanwhile, with other arrays.
    RETURN_IF_ERROR(registry_->Register(
        consumer_id, {{DType::kInt64, TensorShape::Vector(2)},
                      {copy.dtype(), copy.shape()}}));
  }
  const int64_t step_and_execution[] = {
      finished.step_id, static_cast<int64_t>(finished.execution)};
  ASSIGN_OR_RETURN(const auto numbers,
                   CopyOf(DType::kInt64, TensorShape::Vector(2),
                          std::as_bytes(std::span(step_and_execution))));
  source.sender.Send(
      consumer_id, {numbers, copy},
      [counts = source.counts](absl::Status status) { counts->End(status); });
  return absl::OkStatus();
}

AllReduceObserver::Tallies AllReduceObserver::tallies(
    const Device& device) const {
  return sources_.at(&device).counts->tallies();
}

}  // namespace tutti
