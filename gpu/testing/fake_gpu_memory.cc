#include "gpu/testing/fake_gpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Fill bytes for uninitialised and freed memory, which differ from zeros.
constexpr uint8_t kUninitialised = 0xCD;
constexpr uint8_t kGone = 0xDD;

uintptr_t AddressOf(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

}  // namespace

FakeGpuMemory::Addresses::Addresses(size_t num_bytes)
    : num_bytes_(num_bytes),
      begin_(mmap(nullptr, num_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (begin_ == MAP_FAILED) begin_ = nullptr;
}

FakeGpuMemory::Addresses::~Addresses() {
  if (begin_ != nullptr) munmap(begin_, num_bytes_);
}

void FakeGpuMemory::Addresses::Open(bool is_open) {
  mprotect(begin_, num_bytes_, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

uint8_t* FakeGpuMemory::BytesOf(Block& block) {
  return block.host_may_touch ? static_cast<uint8_t*>(block.addresses->begin())
                              : block.bytes.data();
}

absl::StatusOr<void*> FakeGpuMemory::Reserve(int gpu, size_t num_bytes) {
  Block block = {.gpu = gpu,
                 .num_bytes = num_bytes,
                 .addresses = std::make_unique<Addresses>(num_bytes)};
  void* const begin = block.addresses->begin();
  if (begin == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no addresses for ", num_bytes, " bytes"));
  }
  blocks_[AddressOf(begin)] = std::move(block);
  return begin;
}

void FakeGpuMemory::LetHostTouch(void* memory) {
  blocks_[AddressOf(memory)].host_may_touch = true;
}

void FakeGpuMemory::Begin(void* memory) {
  Block& block = blocks_[AddressOf(memory)];
  block.state = State::kThere;
  if (block.host_may_touch) {
    block.addresses->Open(true);
  } else {
    block.bytes.resize(block.num_bytes);
  }
  std::fill_n(BytesOf(block), block.num_bytes, kUninitialised);
}

absl::Status FakeGpuMemory::CheckCanEnd(const void* memory) const {
  const auto found = blocks_.find(AddressOf(memory));
  if (found != blocks_.end()) return absl::OkStatus();
  return absl::InvalidArgumentError("this memory was not allocated on a GPU");
}

absl::Status FakeGpuMemory::End(void* memory) {
  Block& block = blocks_[AddressOf(memory)];
  if (block.state != State::kThere) {
    return absl::FailedPreconditionError(
        block.state == State::kFreed ? "memory is freed a second time"
                                     : "memory is freed before it is there");
  }
  block.state = State::kFreed;
  std::fill_n(BytesOf(block), block.num_bytes, kGone);
  if (block.host_may_touch) block.addresses->Open(false);
  return absl::OkStatus();
}

void* FakeGpuMemory::AllocatePinned(size_t num_bytes) {
  std::vector<uint8_t> bytes(num_bytes, kUninitialised);
  void* const begin = bytes.data();
  pinned_[AddressOf(begin)] = std::move(bytes);
  return begin;
}

absl::Status FakeGpuMemory::FreePinned(void* memory) {
  if (pinned_.erase(AddressOf(memory)) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError("this memory was not allocated as pinned");
}

absl::StatusOr<uint8_t*> FakeGpuMemory::Access(const void* memory,
                                               size_t num_bytes) {
  auto next = blocks_.upper_bound(AddressOf(memory));
  const Block* const block = Find(memory);
  if (block == nullptr) {  // Host memory.
    return static_cast<uint8_t*>(const_cast<void*>(memory));
  }
  if (block->state == State::kReserved) {
    return absl::FailedPreconditionError(
        "memory is used before its stream has allocated it: a wait is missing");
  }
  if (block->state == State::kFreed) {
    return absl::FailedPreconditionError("memory is used after it was freed");
  }
  Block& found = (--next)->second;
  const size_t offset = AddressOf(memory) - next->first;
  if (num_bytes > found.num_bytes - offset) {
    return absl::FailedPreconditionError(
        absl::StrCat("bytes ", offset, " to ", offset + num_bytes,
                     " of memory of ", found.num_bytes, " bytes are used"));
  }
  return BytesOf(found) + offset;
}

int FakeGpuMemory::OwnerOf(const void* memory) const {
  const Block* block = Find(memory);
  return block == nullptr ? kHost : block->gpu;
}

bool FakeGpuMemory::IsPinned(const void* memory, size_t num_bytes) const {
  auto next = pinned_.upper_bound(AddressOf(memory));
  if (next == pinned_.begin()) return false;
  --next;
  const size_t offset = AddressOf(memory) - next->first;
  return offset <= next->second.size() &&
         num_bytes <= next->second.size() - offset;
}

int64_t FakeGpuMemory::UsedBytes(int gpu) const {
  int64_t used = 0;
  for (const auto& [address, block] : blocks_) {
    if (block.gpu == gpu && block.state != State::kFreed) {
      used += static_cast<int64_t>(block.num_bytes);
    }
  }
  return used;
}

std::vector<std::string> FakeGpuMemory::Leaks() const {
  std::vector<std::string> leaks;
  for (const auto& [address, block] : blocks_) {
    if (block.state == State::kFreed) continue;
    leaks.push_back(absl::StrCat(block.num_bytes, " bytes of GPU ", block.gpu));
  }
  for (const auto& [address, bytes] : pinned_) {
    leaks.push_back(absl::StrCat(bytes.size(), " bytes of pinned memory"));
  }
  return leaks;
}

const FakeGpuMemory::Block* FakeGpuMemory::Find(const void* memory) const {
  auto next = blocks_.upper_bound(AddressOf(memory));
  if (next == blocks_.begin()) return nullptr;
  --next;
  const bool is_inside =
      AddressOf(memory) - next->first < next->second.num_bytes;
  return is_inside ? &next->second : nullptr;
}

}  // namespace tutti
