#include "framework/tensor/device_copies.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/device.h"

namespace tutti {

void CopyOnDevice(Device& device, Clock& clock,
                  absl::FunctionRef<absl::Status(CopyPiece)> copies,
                  StatusCallback done) {
  if (device.has_host_memory()) {
    return std::move(done)(
        copies([](std::byte* into, const std::byte* from, size_t num_bytes) {
          if (num_bytes > 0) std::memcpy(into, from, num_bytes);
          return absl::OkStatus();
        }));
  }
  auto opened = device.OpenSteps(clock);
  if (!opened.ok()) return std::move(done)(opened.status());
  if (*opened == nullptr) {
    return std::move(done)(absl::UnimplementedError(
        absl::StrCat("cannot copy on ", device.full_name(),
                     ", which has a memory of its own and runs no steps")));
  }
  StepStream& steps = **opened;
  absl::Status status =
      copies([&](std::byte* into, const std::byte* from, size_t num_bytes) {
        return num_bytes == 0 ? absl::OkStatus()
                              : steps.Copy(into, from, num_bytes);
      });
  steps.CallWhenOver(
      [held = *std::move(opened), status = std::move(status),
       done = std::move(done)](const absl::Status& ended) mutable {
        status.Update(ended);
        held = nullptr;
        std::move(done)(std::move(status));
      });
}

}  // namespace tutti
