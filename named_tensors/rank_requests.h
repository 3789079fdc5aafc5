#ifndef TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_
#define TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "named_tensors/tensor_request.h"

namespace tutti {

// What the ranks ask for under one name: the first request, and of the others
// only what differs from it, which mostly is nothing, or the first dimension.
// Takes no room for ranks that have not asked. A value.
class RankRequests {
 public:
  // The first request, of whichever rank.
  explicit RankRequests(TensorRequest first);

  // Another one, of that name. Once for each of the other ranks.
  void Add(int rank, TensorRequest request);

  const std::string& name() const { return name_; }

  // The first request, which all are if they are equal; without the name.
  const TensorRequest& first() const { return first_; }
  bool all_equal() const { return rows_.empty() && others_.empty(); }

  // That of a rank which has asked, without the name.
  TensorRequest Of(int rank) const;

  // By rank, once all have asked. Rank zero's has the name.
  std::vector<TensorRequest> OfAll(int num_ranks) const;

 private:
  std::string name_;
  TensorRequest first_;

  // By rank: first dimensions, where no more differs, and whole requests.
  absl::flat_hash_map<int, int64_t> rows_;
  absl::flat_hash_map<int, TensorRequest> others_;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_RANK_REQUESTS_H_
