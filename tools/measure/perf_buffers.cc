#include "tools/measure/perf_buffers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tools/base/available_memory.h"
#include "tools/base/text.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/stream_copy.h"

namespace tutti {
namespace {

// Small workloads rotate among up to kMaxSets sets, large ones among the sets
// that fit into kMaxRotatedBytes.
constexpr int64_t kMaxSets = 4;
constexpr int64_t kMaxRotatedBytes = int64_t{256} << 20;

// Content of outputs before a collective; unlikely to look like a result.
constexpr auto kStale = std::byte{0xA5};

absl::StatusOr<Tensor> AllocateElements(const Workload& workload,
                                        int64_t count) {
  if (count == 0) return absl::StatusOr<Tensor>(absl::in_place);
  return Tensor::Allocate(workload.dtype, TensorShape::Vector(count));
}

absl::StatusOr<RankBuffers> AllocateApart(const Workload& workload, int rank) {
  ASSIGN_OR_RETURN(auto input,
                   AllocateElements(workload, InputElements(workload, rank)));
  ASSIGN_OR_RETURN(auto output,
                   AllocateElements(workload, OutputElements(workload, rank)));
  return RankBuffers{std::move(input), std::move(output)};
}

// Block `rank` of `count` elements.
absl::StatusOr<Tensor> BlockOf(const Tensor& whole, int rank, int64_t count) {
  if (whole.num_elements() == count) return whole;
  return whole.Slice(rank * count, (rank + 1) * count);
}

absl::StatusOr<RankBuffers> AllocateInPlace(const Workload& workload,
                                            int rank) {
  const int64_t in = InputElements(workload, rank);
  const int64_t out = OutputElements(workload, rank);
  ASSIGN_OR_RETURN(const auto whole,
                   AllocateElements(workload, std::max(in, out)));
  ASSIGN_OR_RETURN(const auto input, BlockOf(whole, rank, in));
  ASSIGN_OR_RETURN(const auto output, BlockOf(whole, rank, out));
  return RankBuffers{input, output};
}

bool HasBoth(const Workload& workload, int rank) {
  return InputElements(workload, rank) > 0 &&
         OutputElements(workload, rank) > 0;
}

// Assumes that all ranks have equally much, which is true of most collectives.
int64_t SetBytes(const Workload& workload, RankRange range) {
  const int64_t per_rank = LeastMovedBytes(workload) / workload.group_size;
  return std::max(per_rank * range.count, int64_t{1});
}

int64_t NumSets(const Workload& workload, RankRange range,
                const BufferOptions& options) {
  if (options.hot) return 1;
  return std::clamp(kMaxRotatedBytes / SetBytes(workload, range), int64_t{1},
                    kMaxSets);
}

void CopyIntoCaches(std::byte* into, const std::byte* from, size_t num_bytes) {
  std::memcpy(into, from, num_bytes);
}

void MakeStale(Tensor* output, TestData::Copy copy) {
  static const auto stale = [] {
    std::array<std::byte, 65536> bytes;
    bytes.fill(kStale);
    return bytes;
  }();
  if (!output->is_set()) return;
  for (size_t at = 0; at < output->size_bytes(); at += stale.size()) {
    copy(output->mutable_data() + at, stale.data(),
         std::min(stale.size(), output->size_bytes() - at));
  }
}

}  // namespace

absl::StatusOr<std::vector<RankBuffers>> AllocateBuffers(
    const Workload& workload, RankRange range, bool in_place) {
  std::vector<RankBuffers> ranks;
  for (int i = 0; i < range.count; ++i) {
    const int rank = range.first + i;
    ASSIGN_OR_RETURN(auto buffers, in_place&& HasBoth(workload, rank)
                                       ? AllocateInPlace(workload, rank)
                                       : AllocateApart(workload, rank));
    ranks.push_back(std::move(buffers));
  }
  return ranks;
}

absl::Status PerfBuffers::CheckMemory(const Workload& workload, RankRange range,
                                      const BufferOptions& options) {
  const int64_t wanted_bytes =
      NumSets(workload, range, options) * SetBytes(workload, range);
  const int64_t available = AvailableMemory();
  if (wanted_bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("buffers for ", Name(workload.spec.type), " of ",
                   FormatBytes(BytesOf(workload)), " bytes on ", range.count,
                   range.count == 1 ? " rank takes " : " ranks take ",
                   FormatBytes(wanted_bytes),
                   " bytes, more than the memory that is available, ",
                   FormatBytes(available)));
}

absl::StatusOr<std::unique_ptr<PerfBuffers>> PerfBuffers::Create(
    const Workload& workload, RankRange range, const BufferOptions& options,
    WorkQueue* queue) {
  RETURN_IF_ERROR(CheckMemory(workload, range, options));
  const int64_t num_sets = NumSets(workload, range, options);
  std::unique_ptr<PerfBuffers> buffers(
      new PerfBuffers(workload, range, options, queue));
  buffers->sets_.reserve(static_cast<size_t>(num_sets));
  for (int64_t i = 0; i < num_sets; ++i) {
    ASSIGN_OR_RETURN(auto ranks,
                     AllocateBuffers(workload, range, options.in_place));
    const uint64_t seed = options.seed * kMaxSets + static_cast<uint64_t>(i);
    buffers->sets_.push_back(
        {TestData(workload, seed, /*with_results=*/options.check),
         std::move(ranks)});
  }
  return buffers;
}

PerfBuffers::PerfBuffers(const Workload& workload, RankRange range,
                         const BufferOptions& options, WorkQueue* queue)
    : workload_(workload), range_(range), options_(options), queue_(queue) {}

std::vector<RankBuffers>& PerfBuffers::Next() {
  const bool is_first = num_iterations_ == 0;
  current_ = static_cast<size_t>(num_iterations_++) % sets_.size();
  Set& set = sets_[current_];
  if (!options_.hot) {
    Rewrite(&set, StreamCopy);
  } else if (is_first || options_.check) {
    Rewrite(&set, CopyIntoCaches);
  }
  return set.ranks;
}

void PerfBuffers::Rewrite(Set* set, TestData::Copy copy) const {
  ParallelFor(queue_, range_.count, [&](int i) {
    RankBuffers& buffers = set->ranks[i];
    // Before the input, which may share the memory.
    MakeStale(&buffers.output, copy);
    if (!buffers.input.is_set()) return;
    set->data.WriteInput(range_.first + i, buffers.input.mutable_data(), copy);
  });
}

int64_t PerfBuffers::CountWrong() const {
  const Set& set = sets_[current_];
  std::atomic<int64_t> wrong = 0;
  ParallelFor(queue_, range_.count, [&](int i) {
    const Tensor& output = set.ranks[i].output;
    wrong += set.data.CountWrong(range_.first + i,
                                 {output.data(), output.size_bytes()});
  });
  return wrong;
}

}  // namespace tutti
