#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/params.h"

namespace tutti {
namespace {

absl::StatusOr<TensorShape> WithRows(const CollInstanceParams& instance,
                                     int64_t rows) {
  absl::StatusOr<TensorShape> shape = instance.shape.WithFirstDim(rows);
  if (shape.ok()) return shape;
  return absl::InvalidArgumentError(
      absl::StrCat(Name(instance.type), " of ", instance.shape.ToString(), ": ",
                   shape.status().message()));
}

// Sum of all ranks' rows in a gather.
absl::StatusOr<int64_t> GatheredRows(const CollInstanceParams& instance,
                                     int group_size) {
  int64_t total = 0;
  bool overflows =
      instance.rows.empty() &&
      __builtin_mul_overflow(instance.shape.dim(0), group_size, &total);
  for (int64_t rows : instance.rows) {
    overflows = overflows || __builtin_add_overflow(total, rows, &total);
  }
  if (!overflows) return total;
  return absl::InvalidArgumentError(
      absl::StrCat(Name(instance.type), " of ", group_size,
                   " members has more rows than 64 bits can count"));
}

int64_t SentRows(const CollInstanceParams& instance, int group_size, int from) {
  int64_t total = 0;
  for (int to = 0; to < group_size; ++to) {
    total += BlockRows(instance, group_size, from, to);
  }
  return total;
}

absl::StatusOr<int64_t> ReceivedRows(const CollInstanceParams& instance,
                                     int group_size, int to) {
  if (instance.rows.empty()) return instance.shape.dim(0);
  int64_t total = 0;
  for (int from = 0; from < group_size; ++from) {
    const int64_t rows = BlockRows(instance, group_size, from, to);
    if (__builtin_add_overflow(total, rows, &total)) {
      return absl::InvalidArgumentError(
          absl::StrCat("all_to_all: rank ", to,
                       " is sent more rows than 64 bits can count"));
    }
  }
  return total;
}

}  // namespace

int64_t RowElements(const TensorShape& shape) {
  int64_t elements = 1;
  for (int i = 1; i < shape.num_dims(); ++i) elements *= shape.dim(i);
  return elements;
}

int64_t BlockRows(const CollInstanceParams& instance, int group_size, int from,
                  int to) {
  if (InputIsOwnBlock(instance.type)) {
    return instance.rows.empty() ? instance.shape.dim(0) : instance.rows[from];
  }
  if (instance.rows.empty()) return instance.shape.dim(0) / group_size;
  if (OutputIsOwnBlock(instance.type)) return instance.rows[to];
  if (!instance.rows_are_given) {
    return instance.rows[static_cast<size_t>(from) * group_size + to];
  }
  if (from == instance.rows_rank) return instance.rows[to];
  return to == instance.rows_rank ? instance.rows[group_size + from] : 0;
}

absl::StatusOr<TensorShape> InputShape(const CollInstanceParams& instance,
                                       int group_size, int rank) {
  if (!HasInput(instance.type, rank, instance.root)) {
    return TensorShape::Vector(0);
  }
  if (instance.rows.empty()) return instance.shape;
  if (InputIsOwnBlock(instance.type))
    return WithRows(instance, instance.rows[rank]);
  return WithRows(instance, SentRows(instance, group_size, rank));
}

absl::StatusOr<TensorShape> OutputShape(const CollInstanceParams& instance,
                                        int group_size, int rank) {
  if (!HasOutput(instance.type, rank, instance.root)) {
    return TensorShape::Vector(0);
  }
  if (!HasRankBlocks(instance.type)) return instance.shape;
  if (OutputIsOwnBlock(instance.type)) {
    return WithRows(instance, BlockRows(instance, group_size, rank, rank));
  }
  ASSIGN_OR_RETURN(const int64_t rows,
                   InputIsOwnBlock(instance.type)
                       ? GatheredRows(instance, group_size)
                       : ReceivedRows(instance, group_size, rank));
  return WithRows(instance, rows);
}

}  // namespace tutti
