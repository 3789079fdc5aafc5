#include "framework/tensor/device_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/device.h"

namespace tutti {

namespace {

// Enqueues steps on a device with its own memory. `done` runs when all have
// ended.
void RunSteps(Device& device, Clock& clock,
              absl::FunctionRef<absl::Status(StepStream&)> enqueue,
              StatusCallback done) {
  auto opened = device.OpenSteps(clock);
  if (!opened.ok()) return std::move(done)(opened.status());
  if (*opened == nullptr) {
    return std::move(done)(absl::UnimplementedError(
        absl::StrCat("cannot copy on ", device.full_name(),
                     ", which has a memory of its own and runs no steps")));
  }
  StepStream& steps = **opened;
  absl::Status status = enqueue(steps);
  steps.CallWhenOver(
      [held = *std::move(opened), status = std::move(status),
       done = std::move(done)](const absl::Status& ended) mutable {
        status.Update(ended);
        held = nullptr;
        std::move(done)(std::move(status));
      });
}

absl::Status CopyNow(std::byte* into, const std::byte* from, size_t num_bytes) {
  if (num_bytes > 0) std::memcpy(into, from, num_bytes);
  return absl::OkStatus();
}

absl::Status Fill(absl::Span<std::byte> into,
                  absl::Span<const std::byte> pattern, CopyPiece copy) {
  for (size_t at = 0; at < into.size(); at += pattern.size()) {
    const size_t num_bytes = std::min(pattern.size(), into.size() - at);
    RETURN_IF_ERROR(copy(into.data() + at, pattern.data(), num_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

void CopyOnDevice(Device& device, Clock& clock,
                  absl::FunctionRef<absl::Status(CopyPiece)> copies,
                  StatusCallback done) {
  if (device.has_host_memory()) return std::move(done)(copies(CopyNow));
  RunSteps(
      device, clock,
      [copies](StepStream& steps) {
        return copies(
            [&](std::byte* into, const std::byte* from, size_t num_bytes) {
              return num_bytes == 0 ? absl::OkStatus()
                                    : steps.Copy(into, from, num_bytes);
            });
      },
      std::move(done));
}

void FillOnDevice(Device& device, Clock& clock,
                  absl::Span<const std::byte> pattern, Tensor into,
                  StatusCallback done) {
  const absl::Span<std::byte> bytes(into.mutable_data(), into.size_bytes());
  if (device.has_host_memory()) {
    return std::move(done)(Fill(bytes, pattern, CopyNow));
  }
  RunSteps(
      device, clock,
      [&](StepStream& steps) {
        return steps.ReadHost(pattern, [&](const std::byte* from) {
          return Fill(bytes, {from, pattern.size()},
                      [&](std::byte* to, const std::byte* piece, size_t size) {
                        return steps.Copy(to, piece, size);
                      });
        });
      },
      std::move(done));
}

}  // namespace tutti
