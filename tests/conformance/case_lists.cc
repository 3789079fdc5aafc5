#include "tests/conformance/case_lists.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "tests/conformance/pair_cover.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti::conformance {
namespace {

// In larger groups some lists are shorter.
constexpr int kMostRanksForAll = 8;

// Choices that differ between cases: `set` puts choice i into a case.
struct Dimension {
  int size;
  std::function<void(Case& c, int i)> set;
};

template <typename Choice, typename Set>
Dimension DimensionOf(std::vector<Choice> choices, Set set) {
  const int size = static_cast<int>(choices.size());
  return {size, [choices = std::move(choices), set](Case& c, int i) {
            set(c, choices[i]);
          }};
}

// The case with one choice of each dimension.
Case With(Case c, const std::vector<Dimension>& dimensions,
          const std::vector<int>& row) {
  for (size_t d = 0; d < dimensions.size(); ++d) dimensions[d].set(c, row[d]);
  return c;
}

std::vector<int> SizesOf(const std::vector<Dimension>& dimensions) {
  std::vector<int> sizes;
  for (const Dimension& dimension : dimensions) sizes.push_back(dimension.size);
  return sizes;
}

// Each choice with each other, or in Tier::kDefault in pairs. The first
// dimension changes least often.
std::vector<Case> Combine(const Case& simplest,
                          const std::vector<Dimension>& dimensions, Tier tier) {
  const std::vector<int> sizes = SizesOf(dimensions);
  std::vector<Case> cases;
  for (const auto& row :
       tier == Tier::kDefault ? PairCover(sizes) : AllRows(sizes)) {
    cases.push_back(With(simplest, dimensions, row));
  }
  return cases;
}

std::vector<Case> Product(const Case& simplest,
                          const std::vector<Dimension>& dimensions) {
  return Combine(simplest, dimensions, Tier::kDeep);
}

int64_t BlockOrVector(CollectiveType type, const Grid& grid, int64_t length) {
  if (!HasBlocks(type) || length <= kMaxBlock) return length;
  return (length + grid.size() - 1) / grid.size();
}

std::vector<DType> DTypes(CollectiveType type, Tier tier) {
  if (type == CollectiveType::kBarrier) return {DType::kUint8};
  std::vector<DType> dtypes(kAllDTypes.begin(), kAllDTypes.end());
  if (tier == Tier::kQuick) {
    dtypes = {DType::kBFloat16, DType::kFloat32, DType::kInt64};
  }
  // Sums are the reductions of most cases.
  std::erase_if(dtypes, [type](DType dtype) {
    return Reduces(type) && !CheckSupported(ReductionKind::kSum, dtype).ok();
  });
  return dtypes;
}

std::vector<InPlace> Placements(CollectiveType type, Tier tier) {
  if (type == CollectiveType::kBarrier) return {InPlace::kNone};
  if (tier == Tier::kQuick) return {InPlace::kNone, InPlace::kEvenRanks};
  return {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks};
}

std::vector<Subdivisions> SubdivisionsOf(const ImplementationTraits& traits) {
  if (!traits.supports_subdivisions) return {Subdivisions::kAuto};
  return {Subdivisions::kAuto, Subdivisions::kOne, Subdivisions::kThree};
}

std::vector<int> Roots(CollectiveType type, int size, Tier tier) {
  if (!HasRoot(type)) return {0};
  std::vector<int> roots(size);
  std::iota(roots.begin(), roots.end(), 0);
  const int most_for_all = tier == Tier::kQuick ? 2 : kMostRanksForAll;
  if (size > most_for_all) roots = {0, size / 2, size - 1};
  return roots;
}

// A rotation, a reversal, an order without a pattern, and the identity.
std::vector<std::vector<int>> Permutations(CollectiveType type, int size) {
  if (type != CollectiveType::kPermute) return {{}};
  std::vector<int> identity(size);
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<std::vector<int>> permutations(4, identity);
  std::rotate(permutations[0].begin(), permutations[0].begin() + 1,
              permutations[0].end());
  std::reverse(permutations[1].begin(), permutations[1].end());
  std::mt19937 random(1);
  std::shuffle(permutations[2].begin(), permutations[2].end(), random);
  return permutations;
}

Dimension DTypeChoices(CollectiveType type, Tier tier) {
  return DimensionOf(DTypes(type, tier),
                     [](Case& c, DType dtype) { c.dtype = dtype; });
}

Dimension PlacementChoices(CollectiveType type, Tier tier) {
  return DimensionOf(Placements(type, tier),
                     [](Case& c, InPlace in_place) { c.in_place = in_place; });
}

Dimension SubdivisionChoices(const ImplementationTraits& traits) {
  return DimensionOf(SubdivisionsOf(traits),
                     [](Case& c, Subdivisions s) { c.subdivisions = s; });
}

Dimension RootChoices(CollectiveType type, int size, Tier tier) {
  return DimensionOf(Roots(type, size, tier),
                     [](Case& c, int root) { c.root = root; });
}

Dimension PermutationChoices(CollectiveType type, int size) {
  return DimensionOf(Permutations(type, size),
                     [](Case& c, const std::vector<int>& permutation) {
                       c.permutation = permutation;
                     });
}

Dimension LengthChoices(std::vector<int64_t> lengths) {
  return DimensionOf(std::move(lengths),
                     [](Case& c, int64_t length) { c.length = length; });
}

Case Simplest(CollectiveType type, const Grid& grid, int64_t length) {
  return {.type = type,
          .grid = grid,
          .length = BlockOrVector(type, grid, length),
          .root = HasRoot(type) ? grid.size() / 2 : 0,
          .permutation = Permutations(type, grid.size()).front()};
}

// The dtype changes least often, so that inputs are made once for each.
std::vector<Dimension> MatrixDimensions(const ImplementationTraits& traits,
                                        CollectiveType type, int size,
                                        Tier tier) {
  return {DTypeChoices(type, tier), RootChoices(type, size, tier),
          PermutationChoices(type, size), SubdivisionChoices(traits),
          PlacementChoices(type, tier)};
}

std::vector<int64_t> AllLengthsButTheLargest(CollectiveType type, Tier tier) {
  std::vector<int64_t> lengths = Lengths(type, tier);
  lengths.erase(std::remove(lengths.begin(), lengths.end(), kLargestLength),
                lengths.end());
  return lengths;
}

// Cases with the length, from a list for all lengths that has all pairs.
std::vector<Case> PairsWithLength(const Case& simplest,
                                  std::vector<Dimension> dimensions,
                                  int64_t length) {
  const std::vector<int64_t> lengths =
      AllLengthsButTheLargest(simplest.type, Tier::kDefault);
  const auto index =
      std::find(lengths.begin(), lengths.end(), length) - lengths.begin();
  const int num_lengths = static_cast<int>(lengths.size());
  dimensions.push_back({num_lengths, [](Case& /*c*/, int /*i*/) {}});
  std::vector<Case> cases;
  for (const auto& row : PairCover(SizesOf(dimensions))) {
    if (row.back() == index) cases.push_back(With(simplest, dimensions, row));
  }
  return cases;
}

// Lets roots take turns from the choice `first` on, and if
// `all_choices_take_turns` placements and subdivisions, too.
std::vector<Case> TakeTurns(std::vector<Case> cases,
                            const ImplementationTraits& traits,
                            bool all_choices_take_turns, size_t first = 0) {
  const CollectiveType type = cases.front().type;
  const int size = cases.front().grid.size();
  const auto roots = Roots(type, size, Tier::kQuick);
  const auto placements = Placements(type, Tier::kDeep);
  const auto subdivisions = SubdivisionsOf(traits);
  for (size_t i = first; i < first + cases.size(); ++i) {
    Case& c = cases[i - first];
    c.root = roots[(i + i / 3) % roots.size()];
    if (!all_choices_take_turns) continue;
    c.in_place = placements[i % placements.size()];
    c.subdivisions =
        subdivisions[(i + i / placements.size()) % subdivisions.size()];
  }
  return cases;
}

// The largest length, with fewer choices in larger groups.
std::vector<Case> LargestCases(const ImplementationUnderTest& under_test,
                               CollectiveType type, const Grid& grid) {
  constexpr int kMostRanksForAllChoices = 3;
  const ImplementationTraits& traits = under_test.traits();
  const int size = grid.size();
  Case simplest = Simplest(type, grid, kLargestLength);
  if (under_test.tier != Tier::kDeep) {
    if (size > kMostRanksForAll) simplest.dtype = DType::kBFloat16;
    return TakeTurns({simplest}, traits, /*all_choices_take_turns=*/true,
                     /*first=*/size);
  }
  const Tier dtypes = size > kMostRanksForAll ? Tier::kQuick : Tier::kDeep;
  std::vector<Dimension> dimensions = {DTypeChoices(type, dtypes)};
  const bool has_all_choices = size <= kMostRanksForAllChoices;
  if (has_all_choices) {
    dimensions.push_back(SubdivisionChoices(traits));
    dimensions.push_back(PlacementChoices(type, Tier::kDeep));
  }
  return TakeTurns(Product(simplest, dimensions), traits, !has_all_choices);
}

// Ops as a caller could bring them. They work on the bytes of any dtype and are
// exact: the merge ops give the same result however they are grouped.

template <typename Function>
MergeOp OnBytes(const char* name, bool commutative, Function function) {
  const auto apply = [function](DType dtype, const void* left,
                                const void* right, void* into,
                                int64_t num_elements) {
    const auto* const a = static_cast<const uint8_t*>(left);
    const auto* const b = static_cast<const uint8_t*>(right);
    const size_t num_bytes = static_cast<size_t>(num_elements) * SizeOf(dtype);
    std::transform(a, a + num_bytes, b, static_cast<uint8_t*>(into), function);
    return absl::OkStatus();
  };
  return *MergeOp::Custom(
      {.name = name, .commutative = commutative, .apply = apply});
}

// A byte is a function of numbers modulo 16: its high half times the number,
// plus its low half. left (+) right is the function "right, then left". Does
// not commute.
MergeOp Compose() {
  return OnBytes("compose", /*commutative=*/false,
                 [](uint8_t left, uint8_t right) {
                   const int factor = left / 16;
                   const int product = factor * (right / 16) % 16;
                   const int sum = (factor * (right % 16) + left % 16) % 16;
                   return static_cast<uint8_t>(product * 16 + sum);
                 });
}

// Changes every byte; twice is not the same as once or never.
FinalOp Stamp() {
  const auto apply = [](DType dtype, void* values, int64_t num_elements,
                        int group_size) {
    auto* const bytes = static_cast<uint8_t*>(values);
    const size_t num_bytes = static_cast<size_t>(num_elements) * SizeOf(dtype);
    std::for_each(bytes, bytes + num_bytes, [group_size](uint8_t& byte) {
      byte = static_cast<uint8_t>((byte ^ 0x5A) + group_size);
    });
    return absl::OkStatus();
  };
  return *FinalOp::Custom({.name = "stamp", .apply = apply});
}

// Scans take no final ops.
std::vector<std::pair<MergeOp, FinalOp>> Ops(const ImplementationTraits& traits,
                                             CollectiveType type, DType dtype) {
  std::vector<std::pair<MergeOp, FinalOp>> ops;
  for (const ReductionKind kind : kAllReductionKinds) {
    if (CheckSupported(kind, dtype).ok()) ops.emplace_back(kind, FinalOp());
  }
  ops.emplace_back(SaturatingAdd(), FinalOp());
  const FinalOp stamp = IsScan(type) ? FinalOp() : Stamp();
  if (traits.preserves_rank_order) ops.emplace_back(Compose(), stamp);
  if (IsScan(type)) return ops;
  const FinalOp divide = FinalOp::DivideByGroupSize();
  const bool has_mean =
      CheckSupported(ReductionKind::kSum, dtype).ok() &&
      (traits.reduces_at_once || !IsMeanOfIntegers(dtype, MergeOp(), divide));
  if (has_mean) ops.emplace_back(ReductionKind::kSum, divide);
  ops.emplace_back(
      IsComplex(dtype) ? ReductionKind::kProd : ReductionKind::kMax, stamp);
  return ops;
}

// rows[rank] or rows[from * n + to]: between 0 and `most`, without a pattern.
std::vector<int64_t> UnevenRows(CollectiveType type, int size, int64_t most,
                                bool symmetric) {
  std::mt19937 random(1);
  const auto row_count = [&] {
    return static_cast<int64_t>(random() % 4) * most / 3;
  };
  std::vector<int64_t> rows(ExchangesBlocks(type) ? size * size : size);
  std::generate(rows.begin(), rows.end(), row_count);
  for (int from = 0; symmetric && from < size; ++from) {
    for (int to = 0; to < from; ++to) {
      rows[from * size + to] = rows[to * size + from];
    }
  }
  return rows;
}

// Rows that differ by at most one, the larger ones first.
std::vector<int64_t> BalancedRows(int size, int64_t total) {
  std::vector<int64_t> rows(size, total / size);
  for (int rank = 0; rank < total % size; ++rank) ++rows[rank];
  return rows;
}

// Whether members give their rows. Rows that nobody gives are exchanged, or
// balanced.
Dimension GivenRowsChoices(const ImplementationTraits& traits,
                           CollectiveType type) {
  const bool may_give = !ExchangesBlocks(type) || traits.supports_recv_rows;
  return {may_give ? 2 : 1, [type](Case& c, int gives_rows) {
            const int size = c.grid.size();
            c.gives_rows = gives_rows != 0;
            if (!c.gives_rows && OutputIsOwnBlock(type)) {
              c.rows = BalancedRows(size, c.rows[0] + size + size / 2);
            }
          }};
}

std::vector<Case> UnevenCases(const ImplementationTraits& traits,
                              const Case& simplest, Tier tier) {
  const CollectiveType type = simplest.type;
  const int size = simplest.grid.size();
  const bool exchanges = ExchangesBlocks(type);
  if (!traits.supports_uneven || !HasRankBlocks(type)) return {};
  std::vector<Dimension> dimensions = {
      DimensionOf(std::vector<int64_t>{3, 999},
                  [=](Case& c, int64_t most) {
                    c.rows = UnevenRows(type, size, most, /*symmetric=*/false);
                  }),
      GivenRowsChoices(traits, type)};
  // An exchange in place needs equal counts in both directions.
  if (exchanges) {
    dimensions.push_back({2, [=](Case& c, int symmetric) {
                            if (symmetric == 0) return;
                            c.rows = UnevenRows(type, size, 999, true);
                            c.in_place = InPlace::kAll;
                          }});
  } else {
    dimensions.push_back(PlacementChoices(type, tier));
  }
  dimensions.push_back(DTypeChoices(type, tier));
  dimensions.push_back(SubdivisionChoices(traits));
  return Combine(simplest, dimensions, tier);
}

void Append(std::vector<Case> more, std::vector<Case>* cases) {
  cases->insert(cases->end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Grid> Grids(Tier tier) {
  if (tier == Tier::kQuick) return {{1, 1}, {1, 3}, {2, 4}};
  return {{1, 1}, {1, 2}, {1, 3}, {1, 8}, {2, 4}, {2, 8}, {4, 4}, {3, 5}};
}

std::vector<int64_t> Lengths(CollectiveType type, Tier tier) {
  if (type == CollectiveType::kBarrier) return {0};
  if (tier == Tier::kQuick) return {0, 1, 7, 1001};
  return {0, 1, 2, 7, 8, 16, 1001, 4095, 4096, 9408, kLargestLength};
}

std::vector<Case> MatrixCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid,
                              int64_t length) {
  if (length == kLargestLength) return LargestCases(under_test, type, grid);
  const Tier tier = under_test.tier;
  const Case simplest = Simplest(type, grid, length);
  const auto dimensions =
      MatrixDimensions(under_test.traits(), type, grid.size(), tier);
  return tier == Tier::kDefault ? PairsWithLength(simplest, dimensions, length)
                                : Product(simplest, dimensions);
}

std::vector<Case> ReductionCases(const ImplementationUnderTest& under_test,
                                 CollectiveType type, const Grid& grid) {
  const ImplementationTraits& traits = under_test.traits();
  const Tier tier = under_test.tier;
  const bool has_all_dtypes =
      tier == Tier::kDeep || grid.size() <= kMostRanksForAll;
  std::vector<Case> all;
  std::vector<DType> dtypes =
      DTypes(type, has_all_dtypes ? tier : Tier::kQuick);
  dtypes.push_back(DType::kBool);
  for (const DType dtype : dtypes) {
    Case simplest = Simplest(type, grid, 0);
    simplest.dtype = dtype;
    const Dimension ops = DimensionOf(Ops(traits, type, dtype),
                                      [](Case& c, const auto& merge_and_final) {
                                        c.merge_op = merge_and_final.first;
                                        c.final_op = merge_and_final.second;
                                      });
    Append(Combine(simplest,
                   {LengthChoices({7, 1001}), ops, SubdivisionChoices(traits),
                    PlacementChoices(type, tier)},
                   tier),
           &all);
  }
  return all;
}

std::vector<Case> SpecialCases(const ImplementationUnderTest& under_test,
                               CollectiveType type, const Grid& grid) {
  const ImplementationTraits& traits = under_test.traits();
  const Tier tier = under_test.tier;
  Case simplest = Simplest(type, grid, /*length=*/100);
  simplest.row_elements = 3;
  const Dimension deals = {
      2, [](Case& c, int deals_ranks) { c.deals_ranks = deals_ranks != 0; }};
  std::vector<Case> cases = Product(
      simplest,
      {SubdivisionChoices(traits), PlacementChoices(type, tier), deals});
  for (Case& c : Product(simplest, {LengthChoices({0, 1, 1001})})) {
    c.allocates_output = true;
    cases.push_back(std::move(c));
  }
  Append(UnevenCases(traits, simplest, tier), &cases);
  return cases;
}

std::vector<Case> FactorCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid) {
  if (!Reduces(type)) return {};
  Case simplest = Simplest(type, grid, /*length=*/100);
  simplest.row_elements = 3;
  simplest.has_factors = true;
  return Product(
      simplest,
      {PlacementChoices(type, under_test.tier),
       DimensionOf(std::vector<DType>{DType::kBFloat16, DType::kComplex64},
                   [](Case& c, DType dtype) { c.dtype = dtype; })});
}

std::vector<Case> SubdividedCases(CollectiveType type, const Grid& grid,
                                  Tier tier) {
  constexpr int64_t kElementsOfAChunk = int64_t{2} << 20;  // float32: 8 MiB.
  std::vector<Case> cases = {
      Simplest(type, grid, grid.size() * kElementsOfAChunk + 1)};
  if (tier != Tier::kDeep) return cases;
  cases.push_back(cases.front());
  cases.back().in_place = InPlace::kAll;
  return cases;
}

std::vector<Case> LengthCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid) {
  std::vector<Case> cases;
  for (const int64_t length : AllLengthsButTheLargest(type, under_test.tier)) {
    cases.push_back(Simplest(type, grid, length));
  }
  return cases;
}

std::vector<Case> SampleCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid) {
  // The second one has chunks that are too large for the caller's thread.
  constexpr int64_t kLargeChunk = 70'000;
  std::vector<Case> cases = {Simplest(type, grid, 1001)};
  const bool has_large =
      under_test.tier == Tier::kDeep ? grid.size() <= 3 : grid.size() == 3;
  if (has_large && type != CollectiveType::kBarrier) {
    cases.push_back(Simplest(type, grid, kLargeChunk * grid.size()));
    cases.back().in_place = InPlace::kEvenRanks;
  }
  if (under_test.traits().supports_subdivisions) {
    cases.front().subdivisions = Subdivisions::kThree;
  }
  return cases;
}

MergeOp SaturatingAdd() {
  return OnBytes("saturating_add", /*commutative=*/true,
                 [](uint8_t left, uint8_t right) {
                   return static_cast<uint8_t>(std::min(left + right, 255));
                 });
}

}  // namespace tutti::conformance
