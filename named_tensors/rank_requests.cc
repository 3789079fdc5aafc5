#include "named_tensors/rank_requests.h"

#include <utility>

namespace tutti {
namespace {

TensorRequest WithRows(TensorRequest request, int64_t rows) {
  auto shape = request.shape.WithFirstDim(rows);
  if (shape.ok()) request.shape = *std::move(shape);
  return request;
}

}  // namespace

RankRequests::RankRequests(TensorRequest first)
    : name_(std::exchange(first.name, std::string())),
      first_(std::move(first)) {}

void RankRequests::Add(int rank, TensorRequest request) {
  request.name = std::string();
  if (request == first_) return;
  const TensorShape& shape = request.shape;
  if (shape.num_dims() > 0 && request == WithRows(first_, shape.dim(0))) {
    rows_[rank] = shape.dim(0);
  } else {
    others_[rank] = std::move(request);
  }
}

TensorRequest RankRequests::Of(int rank) const {
  const auto other = others_.find(rank);
  if (other != others_.end()) return other->second;
  const auto rows = rows_.find(rank);
  return rows == rows_.end() ? first_ : WithRows(first_, rows->second);
}

std::vector<TensorRequest> RankRequests::OfAll(int num_ranks) const {
  std::vector<TensorRequest> by_rank;
  for (int rank = 0; rank < num_ranks; ++rank) by_rank.push_back(Of(rank));
  by_rank.front().name = name_;
  return by_rank;
}

}  // namespace tutti
