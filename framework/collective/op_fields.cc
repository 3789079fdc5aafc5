#include "framework/collective/op_fields.h"

#include <cstddef>
#include <utility>
#include <variant>

namespace tutti {
namespace {

template <size_t... kIndices>
CollectiveOp MakeOp(size_t index, std::index_sequence<kIndices...>) {
  CollectiveOp op;
  ((kIndices == index ? void(op.emplace<kIndices>()) : void()), ...);
  return op;
}

}  // namespace

std::optional<int> RootOf(const CollectiveOp& op) {
  return std::visit(
      [](const auto& typed) -> std::optional<int> {
        if constexpr (requires { typed.root; }) return typed.root;
        return std::nullopt;
      },
      op);
}

absl::Span<const int> PermutationOf(const CollectiveOp& op) {
  return std::visit(
      [](const auto& typed) -> absl::Span<const int> {
        if constexpr (requires { typed.permutation; }) return typed.permutation;
        return {};
      },
      op);
}

absl::Span<const int64_t> RowsOf(const CollectiveOp& op) {
  return std::visit(
      [](const auto& typed) -> absl::Span<const int64_t> {
        if constexpr (requires { typed.rows; }) return typed.rows;
        return {};
      },
      op);
}

bool IsUneven(const CollectiveOp& op) {
  return std::visit(
      [](const auto& typed) {
        if constexpr (requires { typed.uneven; }) return typed.uneven;
        if constexpr (requires { typed.send_rows; }) {
          return !typed.send_rows.empty();
        }
        return false;
      },
      op);
}

bool GivesRows(const CollectiveOp& op) {
  const auto* const exchange = std::get_if<AllToAll>(&op);
  return exchange != nullptr ? !exchange->recv_rows.empty()
                             : !RowsOf(op).empty();
}

bool MayDifferInRows(const CollectiveOp& op) {
  return IsUneven(op) && (GivesRows(op) || !OutputIsOwnBlock(TypeOf(op)));
}

std::vector<int64_t> KnownRows(const CollectiveRequest& request) {
  const CollectiveOp& op = request.op;
  const absl::Span<const int64_t> given = RowsOf(op);
  std::vector<int64_t> rows(given.begin(), given.end());
  const auto* const exchange = std::get_if<AllToAll>(&op);
  if (exchange != nullptr && GivesRows(op)) {
    rows = exchange->send_rows;
    rows.insert(rows.end(), exchange->recv_rows.begin(),
                exchange->recv_rows.end());
  }
  if (!rows.empty() || !IsUneven(op) || !OutputIsOwnBlock(TypeOf(op))) {
    return rows;
  }
  return BalancedRows(request.shape.dim(0), request.group_size);
}

std::vector<int64_t> BalancedRows(int64_t num_rows, int num_ranks) {
  std::vector<int64_t> rows(static_cast<size_t>(num_ranks),
                            num_rows / num_ranks);
  for (int64_t rank = 0; rank < num_rows % num_ranks; ++rank) ++rows[rank];
  return rows;
}

CollectiveOp DefaultOp(CollectiveType type) {
  return MakeOp(static_cast<size_t>(type),
                std::make_index_sequence<std::variant_size_v<CollectiveOp>>());
}

CollInstanceParams InstanceOf(const CollectiveRequest& request) {
  CollInstanceParams instance;
  instance.key = request.instance_key;
  instance.type = TypeOf(request.op);
  instance.dtype = request.dtype;
  instance.shape = request.shape;
  instance.root = RootOf(request.op).value_or(0);
  const auto permutation = PermutationOf(request.op);
  instance.permutation.assign(permutation.begin(), permutation.end());
  instance.rows_are_given = GivesRows(request.op);
  instance.merge_op = request.merge_op;
  instance.final_op = request.final_op;
  instance.impl_details = request.impl_details;
  return instance;
}

}  // namespace tutti
