#include "bench/gpu/gpu_image.h"

#include <algorithm>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr size_t kAlignment = 256;

// Elsewhere another one, so that a gap which is copied to a gap is found.
uint8_t GapByte(size_t offset) {
  return static_cast<uint8_t>(
      uint32_t{0x9E3779B1} * static_cast<uint32_t>(offset + 1) >> 24);
}

void Extend(Bytes& bytes, size_t size) {
  bytes.reserve(size);
  while (bytes.size() < size) bytes.push_back(GapByte(bytes.size()));
}

// Puts the copies and the operation between them on the stream.
absl::Status Enqueue(
    GpuRuntime& runtime, GpuStream stream, const Bytes& before, uint8_t* host,
    void* memory,
    absl::FunctionRef<absl::Status(void* memory, GpuStream)> operate) {
  const size_t size = before.size();
  std::memcpy(host, before.data(), size);
  absl::Status status = runtime.CopyAsync(memory, host, size, stream);
  if (status.ok()) status = operate(memory, stream);
  if (status.ok()) status = runtime.CopyAsync(host, memory, size, stream);
  return status;
}

}  // namespace

int GpuImage::Add(std::string name, const Bytes& before, size_t misalignment) {
  const size_t begin =
      (before_.size() + kAlignment) / kAlignment * kAlignment + misalignment;
  const size_t end = begin + before.size();
  Extend(before_, end + kAlignment);
  std::copy(before.begin(), before.end(),
            before_.begin() + static_cast<ptrdiff_t>(begin));
  Extend(after_, before_.size());
  regions_.push_back(
      {.name = std::move(name), .offset = begin, .num_bytes = before.size()});
  const int region = static_cast<int>(regions_.size()) - 1;
  Expect(region, before);
  return region;
}

void GpuImage::Expect(int region, const Bytes& after) {
  std::copy(after.begin(), after.end(),
            after_.begin() + static_cast<ptrdiff_t>(regions_[region].offset));
}

absl::Status GpuImage::Run(
    SuiteMachine& machine, int gpu,
    absl::FunctionRef<absl::Status(void* memory, GpuStream)> operate) const {
  GpuRuntime& runtime = machine.runtime();
  machine.host_area().Clear();
  const absl::StatusOr<uint8_t*> host =
      machine.host_area().Take(before_.size());
  if (!host.ok()) return host.status();
  const absl::StatusOr<OwnedGpuStream> stream = NewStream(runtime, gpu);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<void*> memory =
      runtime.AllocateAsync(before_.size(), stream->get());
  if (!memory.ok()) return memory.status();
  absl::Status status =
      Enqueue(runtime, stream->get(), before_, *host, *memory, operate);
  status.Update(machine.WaitFor(stream->get()));
  status.Update(runtime.FreeAsync(*memory, stream->get()));
  if (!status.ok()) return status;
  return Compare(*host);
}

absl::Status GpuImage::Compare(const uint8_t* found) const {
  for (const Region& region : regions_) {
    const auto begin = after_.begin() + static_cast<ptrdiff_t>(region.offset);
    const Bytes wanted(begin, begin + static_cast<ptrdiff_t>(region.num_bytes));
    absl::Status status =
        CompareBytes(region.name, wanted, found + region.offset);
    if (!status.ok()) return status;
  }
  return CompareBytes("memory around the buffers", after_, found);
}

absl::Status CompareBytes(const std::string& name, const Bytes& wanted,
                          const uint8_t* found) {
  if (wanted.empty() || std::memcmp(wanted.data(), found, wanted.size()) == 0) {
    return absl::OkStatus();
  }
  size_t first = wanted.size(), num_wrong = 0;
  for (size_t i = wanted.size(); i-- > 0;) {
    if (wanted[i] == found[i]) continue;
    first = i;
    ++num_wrong;
  }
  return absl::InternalError(absl::StrCat(
      name, ": byte ", first, " of ", wanted.size(), " is 0x",
      absl::Hex(found[first], absl::kZeroPad2), ", not 0x",
      absl::Hex(wanted[first], absl::kZeroPad2), "; ", num_wrong, " differ"));
}

}  // namespace tutti
