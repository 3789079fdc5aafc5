#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "outfeed/frame.h"
#include "tutti/device.h"
#include "tutti/outfeed.h"

namespace tutti {
namespace {

std::string ToString(absl::Span<const ArraySpec> arrays) {
  return absl::StrCat(
      "(",
      absl::StrJoin(arrays, ", ",
                    [](std::string* text, const ArraySpec& array) {
                      absl::StrAppend(text, array.ToString());
                    }),
      ")");
}

absl::StatusOr<int64_t> TotalBytes(const OutfeedConsumer& consumer) {
  // Leaves room for the header.
  int64_t left = OutfeedChannel::kMaxTransferBytes -
                 static_cast<int64_t>(consumer.header.size_bytes());
  int64_t total = 0;
  for (const ArraySpec& array : consumer.arrays) {
    ASSIGN_OR_RETURN(const int64_t bytes,
                     SizeInBytes(array.dtype, array.shape));
    if (bytes > left) {
      return absl::InvalidArgumentError(
          absl::StrCat("an item ", ToString(consumer.arrays),
                       " of consumer id ", consumer.id, " has more than ",
                       OutfeedChannel::kMaxTransferBytes, " bytes"));
    }
    left -= bytes;
    total += bytes;
  }
  return total;
}

absl::StatusOr<std::unique_ptr<const OutfeedConsumer>> MakeConsumer(
    uint32_t id, std::vector<ArraySpec> arrays) {
  auto consumer = std::make_unique<OutfeedConsumer>();
  consumer->id = id;
  consumer->arrays = std::move(arrays);
  ASSIGN_OR_RETURN(consumer->header, MakeHeader(id));
  ASSIGN_OR_RETURN(consumer->payload_bytes, TotalBytes(*consumer));
  return consumer;
}

}  // namespace

std::string ArraySpec::ToString() const {
  return absl::StrCat(Name(dtype), shape.ToString());
}

absl::Status CheckArray(const OutfeedConsumer& consumer, size_t index,
                        const Tensor& array) {
  const ArraySpec& wanted = consumer.arrays[index];
  if (array.is_set() && array.dtype() == wanted.dtype &&
      array.shape() == wanted.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "array ", index, " of consumer id ", consumer.id, " is ",
      wanted.ToString(), ", found ",
      array.is_set() ? ArraySpec{array.dtype(), array.shape()}.ToString()
                     : "a tensor that is not set"));
}

// Consumers by id. Thread-safe.
class OutfeedRegistry::Consumers {
 public:
  absl::Status Add(std::unique_ptr<const OutfeedConsumer> consumer)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto known = consumers_.find(consumer->id);
    if (known == consumers_.end()) {
      consumers_.emplace(consumer->id, std::move(consumer));
      return absl::OkStatus();
    }
    if (known->second->arrays == consumer->arrays) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "Shape ", ToString(consumer->arrays), " does not match previous shape ",
        ToString(known->second->arrays), " used for consumer id ",
        consumer->id));
  }

  // Returns null for an unknown id.
  const OutfeedConsumer* Find(uint32_t id) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = consumers_.find(id);
    return found == consumers_.end() ? nullptr : found->second.get();
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<const OutfeedConsumer>>
      consumers_ ABSL_GUARDED_BY(mu_);
};

OutfeedRegistry::OutfeedRegistry()
    : consumers_(std::make_unique<Consumers>()) {}

OutfeedRegistry::~OutfeedRegistry() = default;

absl::Status OutfeedRegistry::Register(uint32_t consumer_id,
                                       std::vector<ArraySpec> arrays) {
  if (consumer_id == kShutdownConsumerId) {
    return absl::InvalidArgumentError(
        absl::StrCat("Consumer ID cannot be a reserved value: ", consumer_id));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<const OutfeedConsumer> consumer,
                   MakeConsumer(consumer_id, std::move(arrays)));
  return consumers_->Add(std::move(consumer));
}

absl::StatusOr<const OutfeedConsumer*> OutfeedRegistry::Find(
    uint32_t consumer_id) const {
  const OutfeedConsumer* const found = consumers_->Find(consumer_id);
  if (found != nullptr) return found;
  return absl::NotFoundError(
      absl::StrCat("consumer id ", consumer_id, " was not registered"));
}

}  // namespace tutti
