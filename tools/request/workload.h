#ifndef TUTTI_TOOLS_REQUEST_WORKLOAD_H_
#define TUTTI_TOOLS_REQUEST_WORKLOAD_H_

#include <cstdint>
#include <vector>

#include "tools/request/collective_spec.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {

// A collective with the size of its data. `count` is the elements of the whole
// buffer: what each rank has in all_reduce, broadcast, permute and reduce; what
// is made of all blocks in all_gather and gather; what is cut into blocks in
// reduce_scatter, scatter and all_to_all.
struct Workload {
  CollectiveSpec spec;
  DType dtype = DType::kFloat32;
  int group_size = 1;
  int64_t count = 0;
};

// As many elements as fit into `bytes`, rounded down to a multiple of the
// group's size where there are blocks; one, or one per block, where not even
// that fits. 0 of a barrier.
int64_t CountFor(CollectiveType type, DType dtype, int group_size,
                 int64_t bytes);

// Of the whole buffer.
int64_t BytesOf(const Workload& workload);

// Of one rank's tensors; 0 where it has none.
int64_t InputElements(const Workload& workload, int rank);
int64_t OutputElements(const Workload& workload, int rank);

// The least that memory has to move: every input read once, every output
// written once. 2 * N * S of an all_reduce. The largest int64_t where it is
// more.
int64_t LeastMovedBytes(const Workload& workload);

// Elements [begin, begin + count) of what `source` brings, or of the reduction
// of what all bring.
struct Segment {
  static constexpr int kReduction = -1;

  int source = kReduction;
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const Segment&, const Segment&) = default;
};

// What a rank's output must be, from its first element to its last.
std::vector<Segment> ExpectedOutput(const Workload& workload, int rank);

// What a rank asks for; keys and implementation are the caller's to fill in.
CollectiveRequest RequestOf(const Workload& workload, int rank);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_WORKLOAD_H_
