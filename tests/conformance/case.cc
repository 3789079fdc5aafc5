#include "tests/conformance/case.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/tensor/small_floats.h"

namespace tutti::conformance {
namespace {

// SplitMix64 (Steele, Lea and Flood, 2014): inputs are a large part of the
// suite's work.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
};

FloatFormat FormatOf(DType dtype) {
  return VisitDType(dtype, []<typename Element>(Element) -> FloatFormat {
    using Limits = FloatLimits<Element>;
    const auto max_exponent = static_cast<unsigned>(Limits::max_exponent);
    return {Limits::digits - 1, static_cast<int>(std::bit_width(max_exponent))};
  });
}

// The code of a number made of random bits.
uint64_t FloatCode(FloatFormat format, Rounding rounding, uint64_t random) {
  const uint64_t all_ones = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t one = all_ones / 2;  // The exponent of 1.0.
  const uint64_t choice = random >> 56;
  uint64_t exponent = one - 4 + choice % 8;  // From 1/16 to 16.
  uint64_t mantissa = random & ((uint64_t{1} << format.mantissa_bits) - 1);
  if (choice == 255) exponent = 0;  // Denormal.
  if (choice == 254) exponent = all_ones;
  if (choice == 254 && random % 2 == 0) mantissa = 0;  // Infinity.
  if (rounding == Rounding::kNever) {
    exponent = one + choice % 2;  // 1 or 2.
    mantissa = 0;
    // Floats of 8 bits hold sums of few ones.
    const bool is_small = format.mantissa_bits + format.exponent_bits < 8;
    if (is_small) exponent = choice % 8 == 0 ? one : 0;
  }
  const uint64_t sign = (random >> 55) & 1;
  return ((sign << format.exponent_bits | exponent) << format.mantissa_bits) |
         mantissa;
}

// The lowest bytes come first in memory.
void FillFloats(DType dtype, Rounding rounding, Random& random, Bytes* bytes) {
  const FloatFormat format = FormatOf(dtype);
  const size_t size = SizeOf(dtype);
  for (size_t i = 0; i < bytes->size(); i += size) {
    const uint64_t code = FloatCode(format, rounding, random());
    std::memcpy(bytes->data() + i, &code, size);
  }
}

// Makes complex numbers real and positive, so that zeros of all products have
// one sign. The lowest bytes come first in memory.
void MakeReal(DType dtype, Bytes* bytes) {
  const size_t size = SizeOf(dtype);
  for (size_t i = 0; i < bytes->size(); i += size) {
    (*bytes)[i + size / 2 - 1] &= std::byte{0x7F};
    std::fill_n(bytes->begin() + static_cast<ptrdiff_t>(i + size / 2), size / 2,
                std::byte{0});
  }
}

void FillBits(uint64_t mask, Random& random, Bytes* bytes) {
  for (size_t i = 0; i < bytes->size(); i += sizeof(uint64_t)) {
    const uint64_t word = random() & mask;
    std::memcpy(bytes->data() + i, &word,
                std::min(sizeof(word), bytes->size() - i));
  }
}

}  // namespace

Bytes RandomElements(DType dtype, int64_t num_elements, Rounding rounding,
                     uint64_t seed) {
  if (IsComplex(dtype)) {
    Bytes parts =
        RandomElements(PartOf(dtype), 2 * num_elements, rounding, seed);
    if (rounding == Rounding::kNever) MakeReal(dtype, &parts);
    return parts;
  }
  Random random(seed);
  Bytes bytes(static_cast<size_t>(num_elements) * SizeOf(dtype));
  if (IsFloating(dtype)) {
    FillFloats(dtype, rounding, random, &bytes);
  } else {
    const bool is_bool = dtype == DType::kBool;
    FillBits(is_bool ? 0x0101010101010101 : ~uint64_t{0}, random, &bytes);
  }
  return bytes;
}

namespace {

bool IsGather(CollectiveType type) {
  return type == CollectiveType::kAllGather || type == CollectiveType::kGather;
}

bool IsScatter(CollectiveType type) {
  return type == CollectiveType::kReduceScatter ||
         type == CollectiveType::kScatter;
}

// Sums the blocks of the first `num_ranks` ranks.
template <typename Block>
int64_t SumOfBlocks(int num_ranks, Block block) {
  int64_t sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += block(rank);
  return sum;
}

AllToAll ExchangeOf(const Case& c, int rank) {
  const int n = c.grid.size();
  AllToAll op;
  for (int peer = 0; peer < n && !c.rows.empty(); ++peer) {
    op.send_rows.push_back(c.rows[rank * n + peer]);
    if (c.gives_rows) op.recv_rows.push_back(c.rows[peer * n + rank]);
  }
  return op;
}

CollectiveOp OpOf(const Case& c, int rank) {
  const bool uneven = !c.rows.empty();
  const std::vector<int64_t> rows =
      c.gives_rows ? c.rows : std::vector<int64_t>();
  switch (c.type) {
    case CollectiveType::kAllReduce:
      return AllReduce();
    case CollectiveType::kAllGather:
      return AllGather{.uneven = uneven, .rows = rows};
    case CollectiveType::kReduceScatter:
      return ReduceScatter{.uneven = uneven, .rows = rows};
    case CollectiveType::kBroadcast:
      return Broadcast{.is_source = rank == c.root};
    case CollectiveType::kAllToAll:
      return ExchangeOf(c, rank);
    case CollectiveType::kPermute:
      return Permute{.permutation = c.permutation};
    case CollectiveType::kBarrier:
      return Barrier();
    case CollectiveType::kReduce:
      return ReduceToRoot{.root = c.root};
    case CollectiveType::kGather:
      return GatherToRoot{.root = c.root, .uneven = uneven, .rows = rows};
    case CollectiveType::kScatter:
      return ScatterFromRoot{.root = c.root, .uneven = uneven, .rows = rows};
    case CollectiveType::kScan:
      return Scan();
    case CollectiveType::kExscan:
      return Exscan();
  }
  return AllReduce();
}

CollectiveRequest RequestOf(const Case& c, const std::string& implementation,
                            InstanceKey key, int rank) {
  CollectiveRequest request;
  request.group_key = c.deals_ranks ? 2 : 1;
  request.group_size = c.grid.size();
  if (c.deals_ranks) request.rank = rank;
  request.instance_key = key;
  request.op = OpOf(c, rank);
  request.dtype = c.dtype;
  request.shape = ShapeOf(c, InputElements(c, rank));
  request.merge_op = c.merge_op;
  request.final_op = c.final_op;
  request.impl_details.implementation = implementation;
  request.impl_details.subdiv_offsets = SubdivOffsets(c.subdivisions);
  for (const InstanceKey dependency : c.dependencies) {
    request.impl_details.dependencies.push_back(
        {request.group_key, dependency});
  }
  return request;
}

absl::string_view Name(Subdivisions subdivisions) {
  switch (subdivisions) {
    case Subdivisions::kAuto:
      return "auto";
    case Subdivisions::kOne:
      return "1";
    case Subdivisions::kThree:
      return "3";
  }
  return "";
}

}  // namespace

std::string ToString(const Grid& grid) {
  return absl::StrCat(grid.tasks, "x", grid.devices);
}

std::string ToString(const Case& c) {
  std::string text =
      absl::StrCat(tutti::Name(c.type), " of ", c.length, " ",
                   tutti::Name(c.dtype), " on ", ToString(c.grid));
  if (c.deals_ranks) absl::StrAppend(&text, ", ranks dealt out");
  if (c.row_elements != 1) {
    absl::StrAppend(&text, ", rows of ", c.row_elements);
  }
  if (!c.rows.empty()) {
    absl::StrAppend(&text, c.gives_rows ? ", given" : ",", " rows ",
                    absl::StrJoin(c.rows, ","));
  }
  if (HasRoot(c.type)) absl::StrAppend(&text, ", root ", c.root);
  if (!c.permutation.empty()) {
    absl::StrAppend(&text, ", permutation ", absl::StrJoin(c.permutation, ","));
  }
  absl::StrAppend(&text, ", subdivisions ", Name(c.subdivisions));
  if (c.in_place == InPlace::kEvenRanks) absl::StrAppend(&text, ", misaligned");
  absl::StrAppend(&text, Words(c.in_place));
  if (c.allocates_output) absl::StrAppend(&text, ", output not given");
  if (Reduces(c.type)) {
    absl::StrAppend(&text, ", ", c.merge_op.name(), ", ", c.final_op.name());
  }
  if (c.has_factors) absl::StrAppend(&text, ", factors");
  if (!c.dependencies.empty()) {
    absl::StrAppend(&text, ", after ", absl::StrJoin(c.dependencies, ","));
  }
  return text;
}

bool HasBlocks(CollectiveType type) {
  return IsGather(type) || IsScatter(type) || type == CollectiveType::kAllToAll;
}

bool IsInPlace(const Case& c, int rank) {
  return tutti::IsInPlace(c.in_place, rank) && HasInput(c.type, rank, c.root) &&
         HasOutput(c.type, rank, c.root);
}

int64_t BlockElements(const Case& c, int from, int to) {
  if (c.rows.empty()) return c.length * c.row_elements;
  if (IsGather(c.type)) return c.rows[from] * c.row_elements;
  if (IsScatter(c.type)) return c.rows[to] * c.row_elements;
  return c.rows[from * c.grid.size() + to] * c.row_elements;
}

int64_t InputElements(const Case& c, int rank) {
  if (c.type == CollectiveType::kBarrier) return 0;
  if (IsGather(c.type)) return BlockElements(c, rank, 0);
  if (!HasBlocks(c.type)) return c.length * c.row_elements;
  return SumOfBlocks(c.grid.size(),
                     [&](int to) { return BlockElements(c, rank, to); });
}

int64_t OutputElements(const Case& c, int rank) {
  if (c.type == CollectiveType::kBarrier) return 0;
  if (!HasBlocks(c.type)) return c.length * c.row_elements;
  if (IsScatter(c.type)) return BlockElements(c, rank, rank);
  return SumOfBlocks(c.grid.size(),
                     [&](int from) { return BlockElements(c, from, rank); });
}

int64_t OwnBlockBegin(const Case& c, int rank) {
  return SumOfBlocks(rank, [&](int r) { return BlockElements(c, r, r); });
}

TensorShape ShapeOf(const Case& c, int64_t num_elements) {
  if (c.row_elements == 1) return TensorShape::Vector(num_elements);
  return *TensorShape::Create({num_elements / c.row_elements, c.row_elements});
}

std::optional<double> FactorOf(const Case& c, int rank) {
  constexpr std::optional<double> kFactors[] = {-1.0, std::nullopt, 0.0};
  return c.has_factors ? kFactors[rank % 3] : std::nullopt;
}

int NumMerged(const Case& c, int rank) {
  if (c.type == CollectiveType::kScan) return rank + 1;
  return c.type == CollectiveType::kExscan ? rank : c.grid.size();
}

GroupLayout LayoutOf(const Case& c) {
  if (!c.deals_ranks) {
    return GroupLayout::Uniform(c.grid.tasks, c.grid.devices);
  }
  std::vector<int> task_of_rank(c.grid.size());
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    task_of_rank[rank] = rank % c.grid.tasks;
  }
  return *GroupLayout::Create(task_of_rank);
}

int DeviceIndex(const Case& c, int rank) {
  if (!c.deals_ranks) return rank;
  return rank % c.grid.tasks * c.grid.devices + rank / c.grid.tasks;
}

std::vector<int> SubdivOffsets(Subdivisions subdivisions) {
  switch (subdivisions) {
    case Subdivisions::kAuto:
      return {};
    case Subdivisions::kOne:
      return {0};
    case Subdivisions::kThree:
      return {0, -1, 2};
  }
  return {};
}

std::vector<std::shared_ptr<const CollectiveRequest>> RequestsOf(
    const Case& c, const std::string& implementation, InstanceKey key) {
  std::vector<std::shared_ptr<const CollectiveRequest>> requests;
  for (int rank = 0; rank < c.grid.size(); ++rank) {
    CollectiveRequest request = RequestOf(c, implementation, key, rank);
    const bool is_same = rank > 0 && request == *requests.back();
    requests.push_back(is_same ? requests.back()
                               : std::make_shared<const CollectiveRequest>(
                                     std::move(request)));
  }
  return requests;
}

}  // namespace tutti::conformance
