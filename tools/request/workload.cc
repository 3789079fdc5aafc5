#include "tools/request/workload.h"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

int64_t BlockOf(const Workload& workload) {
  return workload.count / workload.group_size;
}

// Number of elements that each contributing rank brings.
int64_t Contribution(const Workload& workload) {
  return InputIsOwnBlock(workload.spec.type) ? BlockOf(workload)
                                             : workload.count;
}

// The same part of each rank's input, in rank order.
std::vector<Segment> FromAll(const Workload& workload, int64_t begin) {
  std::vector<Segment> segments;
  for (int source = 0; source < workload.group_size; ++source) {
    segments.push_back({source, begin, BlockOf(workload)});
  }
  return segments;
}

int SourceOfPermute(const Workload& workload, int rank) {
  const std::vector<int>& targets = workload.spec.permutation;
  return static_cast<int>(std::find(targets.begin(), targets.end(), rank) -
                          targets.begin());
}

}  // namespace

int64_t CountFor(CollectiveType type, DType dtype, int group_size,
                 int64_t bytes) {
  if (type == CollectiveType::kBarrier) return 0;
  const int64_t multiple = HasRankBlocks(type) ? group_size : 1;
  const int64_t elements = bytes / static_cast<int64_t>(SizeOf(dtype));
  return std::max(elements / multiple, int64_t{1}) * multiple;
}

int64_t BytesOf(const Workload& workload) {
  return workload.count * static_cast<int64_t>(SizeOf(workload.dtype));
}

int64_t InputElements(const Workload& workload, int rank) {
  const CollectiveSpec& spec = workload.spec;
  return HasInput(spec.type, rank, spec.root) ? Contribution(workload) : 0;
}

int64_t OutputElements(const Workload& workload, int rank) {
  const CollectiveSpec& spec = workload.spec;
  if (!HasOutput(spec.type, rank, spec.root)) return 0;
  if (OutputIsOwnBlock(spec.type)) return BlockOf(workload);
  return HasRankBlocks(spec.type) ? BlockOf(workload) * workload.group_size
                                  : workload.count;
}

int64_t LeastMovedBytes(const Workload& workload) {
  const auto element_bytes = static_cast<int64_t>(SizeOf(workload.dtype));
  int64_t total = 0;
  for (int rank = 0; rank < workload.group_size; ++rank) {
    int64_t bytes =
        InputElements(workload, rank) + OutputElements(workload, rank);
    if (__builtin_mul_overflow(bytes, element_bytes, &bytes) ||
        __builtin_add_overflow(total, bytes, &total)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return total;
}

std::vector<Segment> ExpectedOutput(const Workload& workload, int rank) {
  const CollectiveSpec& spec = workload.spec;
  const int64_t count = workload.count;
  const int64_t block = BlockOf(workload);
  if (!HasOutput(spec.type, rank, spec.root)) return {};
  if (InputIsOwnBlock(spec.type)) return FromAll(workload, 0);
  if (ExchangesBlocks(spec.type)) return FromAll(workload, rank * block);
  const bool is_block = OutputIsOwnBlock(spec.type);
  const int source = Reduces(spec.type)   ? Segment::kReduction
                     : HasRoot(spec.type) ? spec.root
                                          : SourceOfPermute(workload, rank);
  return {{source, is_block ? rank * block : 0, is_block ? block : count}};
}

CollectiveRequest RequestOf(const Workload& workload, int rank) {
  CollectiveRequest request =
      RequestOf(workload.spec, workload.group_size, rank);
  request.dtype = workload.dtype;
  request.shape = TensorShape::Vector(Contribution(workload));
  return request;
}

}  // namespace tutti
