#ifndef TUTTI_TOOLS_REQUEST_WORKLOAD_H_
#define TUTTI_TOOLS_REQUEST_WORKLOAD_H_

#include <cstdint>
#include <vector>

#include "tools/request/collective_spec.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {

// A collective with the size of its data. `count` is the number of elements of
// the whole buffer: each rank's tensor in all_reduce, broadcast, permute,
// reduce, scan and exscan; the joined blocks in all_gather and gather; the
// tensor cut into blocks in reduce_scatter, scatter and all_to_all.
struct Workload {
  CollectiveSpec spec;
  DType dtype = DType::kFloat32;
  int group_size = 1;
  int64_t count = 0;
};

// Number of elements that fit into `bytes`. Collectives with blocks round it
// down to a multiple of the group's size. The minimum is one, or one per block.
// 0 for a barrier.
int64_t CountFor(CollectiveType type, DType dtype, int group_size,
                 int64_t bytes);

// Size of the whole buffer in bytes.
int64_t BytesOf(const Workload& workload);

// Number of elements of one rank's tensors; 0 if the rank has none.
int64_t InputElements(const Workload& workload, int rank);
int64_t OutputElements(const Workload& workload, int rank);

// Minimum of bytes that memory must move: every input read once, every output
// written once. An all_reduce moves 2 * N * S. Saturates at the largest
// int64_t.
int64_t LeastMovedBytes(const Workload& workload);

// Elements [begin, begin + count) of the input of rank `source`, or of the
// reduction of the inputs that the output's rank gets (NumReduced()).
struct Segment {
  static constexpr int kReduction = -1;

  int source = kReduction;
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const Segment&, const Segment&) = default;
};

// Expected content of a rank's output, from its first element to its last.
std::vector<Segment> ExpectedOutput(const Workload& workload, int rank);

// Request of one rank; the caller fills in keys and implementation.
CollectiveRequest RequestOf(const Workload& workload, int rank);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_WORKLOAD_H_
