#ifndef TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_
#define TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "named_tensors/tensor_request.h"

namespace tutti {

// Requests of the ranks for one name. Keeps the first request whole. Keeps of
// the others only the differences: usually none, or the first dimension. Takes
// no room for ranks without a request. A value.
class RankRequests {
 public:
  // Starts with the first request, of any rank.
  explicit RankRequests(TensorRequest first);

  // Adds another request of that name. REQUIRES: called once per other rank.
  void Add(int rank, TensorRequest request);

  const std::string& name() const { return name_; }

  // The first request, without the name. If all_equal(), all requests equal it.
  const TensorRequest& first() const { return first_; }
  bool all_equal() const { return rows_.empty() && others_.empty(); }

  // Returns the request of `rank` without the name. REQUIRES: `rank` has a
  // request.
  TensorRequest Of(int rank) const;

  // Returns all requests, indexed by rank. Only rank zero's has the name.
  // REQUIRES: all ranks have a request.
  std::vector<TensorRequest> OfAll(int num_ranks) const;

 private:
  std::string name_;
  TensorRequest first_;

  // Differences by rank: the first dimension if nothing else differs, else the
  // whole request.
  absl::flat_hash_map<int, int64_t> rows_;
  absl::flat_hash_map<int, TensorRequest> others_;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_
