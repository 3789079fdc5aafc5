#include "tools/request/result_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "tools/request/element.h"

namespace tutti {
namespace {

// `Value` is the ValueOf (element.h) the dtype's elements.
template <typename Value>
std::string ExtentOf(DType dtype, const std::byte* elements,
                     int64_t num_elements) {
  const size_t size = SizeOf(dtype);
  Value least = 0;
  Value most = 0;
  double sum = 0;
  int64_t count = 0;
  int64_t num_nan = 0;
  for (int64_t i = 0; i < num_elements; ++i) {
    const auto value = LoadValue<Value>(dtype, elements + i * size);
    if (std::isnan(static_cast<double>(value))) {
      ++num_nan;
      continue;
    }
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    sum += static_cast<double>(value);
    ++count;
  }
  std::string text;
  if (count > 0) {
    absl::StrAppend(&text, " min ", least, ", mean ",
                    sum / static_cast<double>(count), ", max ", most);
  }
  if (num_nan > 0) {
    absl::StrAppend(&text, count > 0 ? ", " : " ", num_nan, " nan");
  }
  return text;
}

}  // namespace

std::string SummaryOf(const Tensor& tensor) {
  const std::string spec = ArraySpec{tensor.dtype(), tensor.shape()}.ToString();
  if (tensor.num_elements() == 0) return absl::StrCat(spec, ", empty");
  const DType part = PartOf(tensor.dtype());
  const auto num_parts =
      static_cast<int64_t>(tensor.size_bytes() / SizeOf(part));
  return absl::StrCat(
      spec, IsComplex(tensor.dtype()) ? ", parts:" : ",",
      VisitDType(part, [&]<typename Element>(Element) -> std::string {
        if constexpr (kIsComplex<Element>)
          return "";  // No part.
        else
          return ExtentOf<ValueOf<Element>>(part, tensor.data(), num_parts);
      }));
}

// Each device sends its results to a separate consumer, since results of
// different ranks may have different shapes.
class ResultWatch::Observer : public CollectiveObserver {
 public:
  explicit Observer(std::shared_ptr<OutfeedRegistry> registry)
      : registry_(std::move(registry)) {}

  absl::Status AddDevice(Device* device, uint32_t consumer_id) {
    ASSIGN_OR_RETURN(auto sender, OutfeedSender::Create(*device, registry_));
    sources_.emplace(device, Source{consumer_id, std::move(sender)});
    return absl::OkStatus();
  }

  void OnFinished(const Finished& finished) override {
    const auto source = sources_.find(&finished.device);
    if (source == sources_.end() || !finished.output.is_set()) return;
    Note(Send(source->second, finished.output));
  }

  // The first error.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  struct Source {
    uint32_t consumer_id = 0;
    OutfeedSender sender;
  };

  // A result that cannot be sent at once waits in the channel and is printed
  // later.
  absl::Status Send(const Source& source, const Tensor& output) const {
    absl::Status status = registry_->Register(
        source.consumer_id, {{output.dtype(), output.shape()}});
    if (status.ok()) source.sender.Send(source.consumer_id, {output}, nullptr);
    return status;
  }

  void Note(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    status_.Update(status);
  }

  const std::shared_ptr<OutfeedRegistry> registry_;
  absl::flat_hash_map<const Device*, Source> sources_;
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<ResultWatch>> ResultWatch::Start(
    const Environment& environment, const std::vector<Device*>& devices,
    int first_rank, std::ostream& out) {
  // Keeps the lines of concurrent callbacks apart.
  const auto mu = std::make_shared<Mutex>();
  // Consumer ids begin at 1.
  const auto first_id = static_cast<uint32_t>(1 + first_rank);
  auto receiver = OutfeedReceiver::Create(
      {.devices = devices,
       .callback =
           [mu, &out](Device&, uint32_t id, absl::Span<Tensor> arrays) {
             const std::string line = absl::StrCat("rank ", id - 1, ": ",
                                                   SummaryOf(arrays[0]), "\n");
             MutexLock lock(mu.get());
             out << line << std::flush;
             return absl::OkStatus();
           },
       .environment = environment});
  if (!receiver.ok()) return receiver.status();
  auto observer = std::make_shared<Observer>((*receiver)->registry());
  for (size_t i = 0; i < devices.size(); ++i) {
    RETURN_IF_ERROR(
        observer->AddDevice(devices[i], first_id + static_cast<uint32_t>(i)));
  }
  RETURN_IF_ERROR((*receiver)->Start());
  return std::unique_ptr<ResultWatch>(
      new ResultWatch(*std::move(receiver), std::move(observer)));
}

ResultWatch::ResultWatch(std::unique_ptr<OutfeedReceiver> receiver,
                         std::shared_ptr<CollectiveObserver> observer)
    : receiver_(std::move(receiver)), observer_(std::move(observer)) {}

ResultWatch::~ResultWatch() { Finish().IgnoreError(); }

absl::Status ResultWatch::Finish() {
  absl::Status status = Await(
      [this](StatusCallback done) { receiver_->Shutdown(std::move(done)); });
  status.Update(static_cast<const Observer&>(*observer_).status());
  return status;
}

}  // namespace tutti
