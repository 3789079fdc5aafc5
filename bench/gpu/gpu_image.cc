#include "bench/gpu/gpu_image.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gpu/runtime/pinned_pool.h"

namespace tutti {
namespace {

constexpr size_t kAlignment = 256;

// Byte that differs from offset to offset: a copy of a gap to a gap is found.
uint8_t GapByte(size_t offset) {
  return static_cast<uint8_t>(
      uint32_t{0x9E3779B1} * static_cast<uint32_t>(offset + 1) >> 24);
}

void Extend(Bytes& bytes, size_t size) {
  bytes.reserve(size);
  while (bytes.size() < size) bytes.push_back(GapByte(bytes.size()));
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

void GpuImage::Run(
    GpuMachine& machine, int gpu,
    absl::FunctionRef<void(void* memory, GpuStream)> operate) const {
  GpuRuntime& runtime = machine.runtime;
  const size_t size = before_.size();
  const PinnedPool::Buffer host = machine.host_memory->Take(size).value();
  const OwnedGpuStream stream = NewStream(runtime, gpu).value();
  void* const memory = runtime.AllocateAsync(size, stream.get()).value();
  std::memcpy(host.data(), before_.data(), size);
  Ok(runtime.CopyAsync(memory, host.data(), size, stream.get()));
  operate(memory, stream.get());
  Ok(runtime.CopyAsync(host.data(), memory, size, stream.get()));
  Ok(machine.waiter.WaitFor(stream.get()));
  Ok(runtime.FreeAsync(memory, stream.get()));
  for (const Region& region : regions_) {
    const auto begin = after_.begin() + static_cast<ptrdiff_t>(region.offset);
    const Bytes wanted(begin, begin + static_cast<ptrdiff_t>(region.num_bytes));
    Ok(CompareBytes(region.name, wanted, host.data() + region.offset));
  }
  Ok(CompareBytes("memory around the buffers", after_, host.data()));
}

absl::Status CompareBytes(const std::string& name, const Bytes& wanted,
                          const void* bytes) {
  const auto* const found = static_cast<const uint8_t*>(bytes);
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
