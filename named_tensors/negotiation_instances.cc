// Choice of the instance, and of the sizes, of each decision.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/collective/op_fields.h"
#include "named_tensors/negotiation.h"

namespace tutti {
namespace {

// Rounds up to one of a few lengths per power of two: varying lengths then
// share few instances. Adds at most an eighth; returns 1 for 0.
int64_t FusedLength(int64_t num_elements) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  num_elements = std::max<int64_t>(num_elements, 1);
  int64_t step = 1;
  while (step <= num_elements / 16) step *= 2;
  const int64_t missing = (step - num_elements % step) % step;
  return num_elements + std::min(missing, kMost - num_elements);
}

// Key of the ops. The length keeps the names apart.
std::string OpsOf(const TensorRequest& request) {
  return absl::StrCat(request.merge_op.size(), request.merge_op, " ",
                      request.final_op);
}

// Number of elements of that many rows of the request.
int64_t RowElements(const TensorRequest& request, int64_t num_rows) {
  return request.shape.WithFirstDim(num_rows)->num_elements();
}

}  // namespace

void Negotiation::DecideReduction(const std::vector<TensorPtr>& tensors,
                                  Decision& made) {
  const int64_t num_elements = ElementsOf(tensors);
  const TensorRequest& first = tensors.front()->requests.first();
  const auto signature = [&first](int64_t length) {
    return absl::StrCat("reduce ", Name(first.dtype), " ", length, " ",
                        OpsOf(first));
  };
  if (tensors.size() == 1 &&
      SetExactInstance(signature(num_elements), /*num_entries=*/1, made)) {
    return;
  }
  made.fused_elements = FusedLength(num_elements);
  SetInstance(signature(made.fused_elements), made);
}

// Decides a gather. If the rows differ, each call lists them: one instance then
// serves all gathers of about one size, and the size selects the algorithm.
// Without room for another instance, the gather runs as if all ranks had
// equally many rows. Each rank's rows then lie at the start of its part.
void Negotiation::DecideGather(absl::Span<const TensorRequest> by_rank,
                               Decision& made) {
  const TensorRequest& first = by_rank.front();
  bool is_even = true;
  int64_t most_elements = 0;
  double num_elements = 0;
  for (const TensorRequest& request : by_rank) {
    made.rows.push_back(request.shape.dim(0));
    is_even &= made.rows.back() == made.rows.front();
    most_elements = std::max(most_elements, request.shape.num_elements());
    num_elements += static_cast<double>(request.shape.num_elements());
  }
  const std::string size =
      is_even             ? absl::StrCat("rows ", made.rows.front())
      : num_elements == 0 ? "nothing"
                          : absl::StrCat("about 2^", std::ilogb(num_elements));
  const size_t num_entries = is_even ? 1 : 1 + made.rows.size();
  const std::string signature = absl::StrCat(
      "gather ", Name(first.dtype), " ",
      absl::StrJoin(first.shape.dims().subspan(1), ","), " / ", size);
  if (SetExactInstance(signature, num_entries, made)) return;
  SetPartsInstance(absl::StrCat("gather parts ", Name(first.dtype)),
                   most_elements, made);
}

void Negotiation::DecideBroadcast(const TensorRequest& first, Decision& made) {
  const int64_t num_elements = first.shape.num_elements();
  const std::string what =
      absl::StrCat("broadcast ", first.root, " ", Name(first.dtype));
  if (SetExactInstance(absl::StrCat(what, " ", num_elements),
                       /*num_entries=*/1, made)) {
    return;
  }
  SetPartsInstance(what + " part", num_elements, made);
}

// Decides a reduce-scatter. If the blocks differ in size, each call lists them.
void Negotiation::DecideReduceScatter(const TensorRequest& first,
                                      Decision& made) {
  const auto rows = BalancedRows(first.shape.dim(0), options_.num_ranks);
  const bool is_even = rows.back() == rows.front();
  const std::string what =
      absl::StrCat("reduce_scatter ", OpsOf(first), " ", Name(first.dtype));
  if (SetExactInstance(absl::StrCat(what, is_even ? " " : " uneven ",
                                    first.shape.num_elements()),
                       is_even ? 1 : 1 + rows.size(), made)) {
    return;
  }
  SetPartsInstance(what + " parts", RowElements(first, rows.front()), made);
}

// Decides an all-to-all. If the numbers of rows differ, each call lists them:
// one instance serves all sizes.
void Negotiation::DecideAllToAll(absl::Span<const TensorRequest> by_rank,
                                 Decision& made) {
  const TensorRequest& first = by_rank.front();
  const int64_t rows = RowsToRanks(first, options_.num_ranks).front();
  bool is_even = true;
  std::vector<std::vector<int64_t>> received_rows(by_rank.size());
  for (const TensorRequest& request : by_rank) {
    const auto send_rows = RowsToRanks(request, options_.num_ranks);
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      received_rows[rank].push_back(send_rows[rank]);
      is_even &= send_rows[rank] == rows;
    }
  }
  const std::string what = absl::StrCat("all_to_all ", Name(first.dtype));
  if (is_even &&
      SetExactInstance(
          absl::StrCat(what, " ", absl::StrJoin(first.shape.dims(), ",")),
          /*num_entries=*/1, made)) {
    return;
  }
  made.received_rows = std::move(received_rows);
  SetInstance(what + " by rows", made);
}

// Decides the collective of one name whose requests agree.
void Negotiation::DecideOne(absl::Span<const TensorRequest> by_rank,
                            Decision& made) {
  const TensorRequest& first = by_rank.front();
  switch (first.type) {
    case CollectiveType::kBroadcast:
      return DecideBroadcast(first, made);
    case CollectiveType::kReduceScatter:
      return DecideReduceScatter(first, made);
    case CollectiveType::kAllToAll:
      return DecideAllToAll(by_rank, made);
    default:
      return DecideGather(by_rank, made);
  }
}

// Sets an instance whose parts have few lengths.
void Negotiation::SetPartsInstance(const std::string& what,
                                   int64_t part_elements, Decision& made) {
  made.fused_elements = FusedLength(part_elements);
  SetInstance(absl::StrCat(what, " ", made.fused_elements), made);
}

// Returns false for an unknown instance for which there is no room.
bool Negotiation::SetExactInstance(const std::string& signature,
                                   size_t num_entries, Decision& made) {
  if (!instance_keys_.contains(signature)) {
    if (num_exact_entries_ + num_entries > options_.max_exact_entries) {
      return false;
    }
    num_exact_entries_ += num_entries;
  }
  SetInstance(signature, made);
  return true;
}

void Negotiation::SetInstance(const std::string& signature, Decision& made) {
  const auto [found, is_new] =
      instance_keys_.try_emplace(signature, instances_.size() + 1);
  if (is_new) instances_.emplace_back();
  Instance& instance = instances_[found->second - 1];
  made.instance = found->second;
  made.execution = instance.num_executions++;
  made.begins_instance = !instance.is_settled && instance.num_under_way == 0;
  if (made.begins_instance) ++num_unsettled_;
  ++instance.num_under_way;
}

void Negotiation::OnRunEnded(InstanceKey key, bool went_well) {
  Instance& instance = instances_[key - 1];
  --instance.num_under_way;
  if (instance.is_settled) return;
  instance.is_settled = went_well;
  if (went_well || instance.num_under_way == 0) --num_unsettled_;
}

}  // namespace tutti
