#include "tools/cluster/host_copies.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

bool HasNoBytes(const Tensor& tensor) {
  return !tensor.is_set() || tensor.size_bytes() == 0;
}

absl::Span<const std::byte> BytesOf(const Tensor& tensor) {
  return {tensor.data(), tensor.size_bytes()};
}

// Waits until the stream's steps have run. Returns the first error.
absl::Status End(StepStream& steps, absl::Status status) {
  BlockingCounter over(1);
  steps.CallWhenOver([&](absl::Status ended) {
    status.Update(ended);
    over.DecrementCount();
  });
  over.Wait();
  return status;
}

}  // namespace

absl::StatusOr<Tensor> ToDevice(const Tensor& host, Device& device,
                                Clock& clock) {
  if (!host.is_set() || device.has_host_memory()) return host;
  absl::StatusOr<Tensor> tensor = device.Allocate(host.dtype(), host.shape());
  if (!tensor.ok() || HasNoBytes(host)) return tensor;
  ASSIGN_OR_RETURN(const auto steps, device.OpenSteps(clock));
  absl::Status status =
      steps->ReadHost(BytesOf(host), [&](const std::byte* bytes) {
        return steps->Copy(tensor->mutable_data(), bytes, host.size_bytes());
      });
  status = End(*steps, std::move(status));
  if (!status.ok()) return status;
  return tensor;
}

absl::StatusOr<Tensor> ToHost(const Tensor& tensor, Device& device,
                              Clock& clock) {
  if (!tensor.is_set() || device.has_host_memory()) return tensor;
  absl::StatusOr<Tensor> host =
      Tensor::Allocate(tensor.dtype(), tensor.shape());
  if (!host.ok() || HasNoBytes(tensor)) return host;
  ASSIGN_OR_RETURN(const auto steps, device.OpenSteps(clock));
  absl::Status status;
  BlockingCounter copied(1);
  steps->CopyToHost(BytesOf(tensor), [&](absl::StatusOr<Tensor> copy) {
    status = copy.status();
    if (copy.ok()) {
      std::memcpy(host->mutable_data(), copy->data(), copy->size_bytes());
    }
    copy = Tensor();  // Returns its memory to the device.
    copied.DecrementCount();
  });
  copied.Wait();
  status = End(*steps, std::move(status));
  if (!status.ok()) return status;
  return host;
}

}  // namespace tutti
