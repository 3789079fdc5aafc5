#include "tests/conformance/case_lists.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "tests/conformance/custom_ops.h"
#include "tutti/reduction.h"

namespace tutti::conformance {
namespace {

constexpr int64_t kLargestLength = 1045991;

// In larger groups some lists are shorter.
constexpr int kMostRanksForAll = 8;

// Every case with every choice: `set` puts a choice into a case.
template <typename Choices, typename Set>
std::vector<Case> Times(const std::vector<Case>& cases, const Choices& choices,
                        Set set) {
  std::vector<Case> product;
  for (const Case& c : cases) {
    for (const auto& choice : choices) {
      product.push_back(c);
      set(product.back(), choice);
    }
  }
  return product;
}

int64_t BlockOrVector(CollectiveType type, const Grid& grid, int64_t length) {
  if (!HasBlocks(type) || length <= kMaxBlock) return length;
  return (length + grid.size() - 1) / grid.size();
}

std::vector<DType> DTypes(CollectiveType type, bool quick) {
  if (type == CollectiveType::kBarrier) return {DType::kUint8};
  std::vector<DType> dtypes(kAllDTypes.begin(), kAllDTypes.end());
  if (quick) dtypes = {DType::kBFloat16, DType::kFloat32, DType::kInt64};
  if (Reduces(type)) {
    dtypes.erase(std::remove(dtypes.begin(), dtypes.end(), DType::kBool),
                 dtypes.end());
  }
  return dtypes;
}

std::vector<InPlace> Placements(CollectiveType type, bool quick) {
  if (type == CollectiveType::kBarrier) return {InPlace::kNone};
  if (quick) return {InPlace::kNone, InPlace::kEvenRanks};
  return {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks};
}

std::vector<Subdivisions> SubdivisionsOf(const ImplementationTraits& traits) {
  if (!traits.supports_subdivisions) return {Subdivisions::kAuto};
  return {Subdivisions::kAuto, Subdivisions::kOne, Subdivisions::kThree};
}

std::vector<int> Roots(CollectiveType type, int size, bool quick) {
  if (!HasRoot(type)) return {0};
  std::vector<int> roots(size);
  std::iota(roots.begin(), roots.end(), 0);
  if (size > (quick ? 2 : kMostRanksForAll)) roots = {0, size / 2, size - 1};
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

Case Simplest(CollectiveType type, const Grid& grid, int64_t length) {
  return {.type = type,
          .grid = grid,
          .length = BlockOrVector(type, grid, length),
          .root = HasRoot(type) ? grid.size() / 2 : 0,
          .permutation = Permutations(type, grid.size()).front()};
}

// The largest length, with one permutation, while roots take turns, and from a
// few ranks on the other choices too. In large groups there are fewer dtypes.
std::vector<Case> LargestCases(const ImplementationTraits& traits,
                               CollectiveType type, const Grid& grid) {
  constexpr int kMostRanksForAllChoices = 3;
  const int size = grid.size();
  const auto subdivisions = SubdivisionsOf(traits);
  const auto placements = Placements(type, /*quick=*/false);
  const auto roots = Roots(type, size, /*quick=*/true);
  std::vector<Case> cases =
      Times({Simplest(type, grid, kLargestLength)},
            DTypes(type, /*quick=*/size > kMostRanksForAll),
            [](Case& c, DType dtype) { c.dtype = dtype; });
  const bool has_all_choices = size <= kMostRanksForAllChoices;
  if (has_all_choices) {
    cases = Times(cases, subdivisions,
                  [](Case& c, Subdivisions s) { c.subdivisions = s; });
    cases = Times(cases, placements,
                  [](Case& c, InPlace in_place) { c.in_place = in_place; });
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].root = roots[(i + i / 3) % roots.size()];
    if (has_all_choices) continue;
    cases[i].in_place = placements[i % placements.size()];
    cases[i].subdivisions =
        subdivisions[(i + i / placements.size()) % subdivisions.size()];
  }
  return cases;
}

std::vector<std::pair<MergeOp, FinalOp>> Ops(const ImplementationTraits& traits,
                                             DType dtype) {
  std::vector<std::pair<MergeOp, FinalOp>> ops;
  for (const ReductionKind kind : kAllReductionKinds) {
    if (CheckSupported(kind, dtype).ok()) ops.emplace_back(kind, FinalOp());
  }
  ops.emplace_back(ReductionKind::kSum, FinalOp::DivideByGroupSize());
  ops.emplace_back(ReductionKind::kMax, Stamp());
  ops.emplace_back(SaturatingAdd(), FinalOp());
  if (traits.preserves_rank_order) ops.emplace_back(Compose(), Stamp());
  return ops;
}

// rows[from] or rows[from * n + to]: between 0 and `most`, without a pattern.
std::vector<int64_t> UnevenRows(CollectiveType type, int size, int64_t most,
                                bool symmetric) {
  std::mt19937 random(1);
  const auto row_count = [&] {
    return static_cast<int64_t>(random() % 4) * most / 3;
  };
  std::vector<int64_t> rows(type == CollectiveType::kAllGather ? size
                                                               : size * size);
  std::generate(rows.begin(), rows.end(), row_count);
  for (int from = 0; symmetric && from < size; ++from) {
    for (int to = 0; to < from; ++to) {
      rows[from * size + to] = rows[to * size + from];
    }
  }
  return rows;
}

std::vector<Case> UnevenCases(const ImplementationTraits& traits,
                              const Case& simplest, bool quick) {
  const CollectiveType type = simplest.type;
  const bool exchanges = type == CollectiveType::kAllToAll;
  if (!traits.supports_uneven ||
      (type != CollectiveType::kAllGather && !exchanges)) {
    return {};
  }
  std::vector<Case> cases = Times(
      {simplest}, std::vector<int64_t>{3, 999}, [&](Case& c, int64_t most) {
        c.rows = UnevenRows(type, c.grid.size(), most, /*symmetric=*/false);
      });
  // An exchange in place needs equal counts in both directions.
  if (exchanges) {
    cases = Times(cases, std::vector<bool>{false, true},
                  [&](Case& c, bool symmetric) {
                    if (!symmetric) return;
                    c.rows = UnevenRows(type, c.grid.size(), 999, symmetric);
                    c.in_place = InPlace::kAll;
                  });
  } else {
    cases = Times(cases, Placements(type, quick),
                  [](Case& c, InPlace in_place) { c.in_place = in_place; });
  }
  cases = Times(cases, DTypes(type, quick),
                [](Case& c, DType dtype) { c.dtype = dtype; });
  return Times(cases, SubdivisionsOf(traits),
               [](Case& c, Subdivisions s) { c.subdivisions = s; });
}

void Append(std::vector<Case> more, std::vector<Case>* cases) {
  cases->insert(cases->end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Grid> Grids(bool quick) {
  if (quick) return {{1, 1}, {1, 3}, {2, 4}};
  return {{1, 1}, {1, 2}, {1, 3}, {1, 8}, {2, 4}, {2, 8}, {4, 4}, {3, 5}};
}

std::vector<int64_t> Lengths(CollectiveType type, bool quick) {
  if (type == CollectiveType::kBarrier) return {0};
  if (quick) return {0, 1, 7, 1001};
  return {0, 1, 2, 7, 8, 16, 1001, 4095, 4096, 9408, kLargestLength};
}

std::vector<Case> MatrixCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid,
                              int64_t length) {
  const ImplementationTraits& traits = under_test.traits();
  const bool quick = under_test.quick;
  if (length == kLargestLength) return LargestCases(traits, type, grid);
  std::vector<Case> cases = {Simplest(type, grid, length)};
  // The dtype changes least often, so that inputs are made once for each.
  cases = Times(cases, DTypes(type, quick),
                [](Case& c, DType dtype) { c.dtype = dtype; });
  cases = Times(cases, Roots(type, grid.size(), quick),
                [](Case& c, int root) { c.root = root; });
  cases = Times(cases, Permutations(type, grid.size()),
                [](Case& c, const std::vector<int>& permutation) {
                  c.permutation = permutation;
                });
  cases = Times(cases, SubdivisionsOf(traits),
                [](Case& c, Subdivisions s) { c.subdivisions = s; });
  return Times(cases, Placements(type, quick),
               [](Case& c, InPlace in_place) { c.in_place = in_place; });
}

std::vector<Case> ReductionCases(const ImplementationUnderTest& under_test,
                                 CollectiveType type, const Grid& grid) {
  const ImplementationTraits& traits = under_test.traits();
  std::vector<Case> all;
  for (const DType dtype : DTypes(type, under_test.quick)) {
    Case simplest = Simplest(type, grid, 0);
    simplest.dtype = dtype;
    std::vector<Case> cases =
        Times({simplest}, std::vector<int64_t>{7, 1001},
              [](Case& c, int64_t length) { c.length = length; });
    cases = Times(cases, Ops(traits, dtype), [](Case& c, const auto& ops) {
      c.merge_op = ops.first;
      c.final_op = ops.second;
    });
    cases = Times(cases, SubdivisionsOf(traits),
                  [](Case& c, Subdivisions s) { c.subdivisions = s; });
    Append(Times(cases, Placements(type, under_test.quick),
                 [](Case& c, InPlace in_place) { c.in_place = in_place; }),
           &all);
  }
  return all;
}

std::vector<Case> SpecialCases(const ImplementationUnderTest& under_test,
                               CollectiveType type, const Grid& grid) {
  const ImplementationTraits& traits = under_test.traits();
  Case simplest = Simplest(type, grid, /*length=*/100);
  simplest.row_elements = 3;
  std::vector<Case> cases =
      Times({simplest}, SubdivisionsOf(traits),
            [](Case& c, Subdivisions s) { c.subdivisions = s; });
  cases = Times(cases, Placements(type, under_test.quick),
                [](Case& c, InPlace in_place) { c.in_place = in_place; });
  cases = Times(cases, std::vector<bool>{false, true},
                [](Case& c, bool deals) { c.deals_ranks = deals; });
  for (Case& c : Times({simplest}, std::vector<int64_t>{0, 1, 1001},
                       [](Case& c, int64_t length) { c.length = length; })) {
    c.allocates_output = true;
    cases.push_back(std::move(c));
  }
  Append(UnevenCases(traits, simplest, under_test.quick), &cases);
  return cases;
}

std::vector<Case> SubdividedCases(CollectiveType type, const Grid& grid) {
  constexpr int64_t kElementsOfAChunk = int64_t{2} << 20;  // float32: 8 MiB.
  return Times({Simplest(type, grid, grid.size() * kElementsOfAChunk + 1)},
               std::vector<InPlace>{InPlace::kNone, InPlace::kAll},
               [](Case& c, InPlace in_place) { c.in_place = in_place; });
}

std::vector<Case> LengthCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid) {
  std::vector<Case> cases;
  for (const int64_t length : Lengths(type, under_test.quick)) {
    if (length != kLargestLength) cases.push_back(Simplest(type, grid, length));
  }
  return cases;
}

std::vector<Case> SampleCases(const ImplementationUnderTest& under_test,
                              CollectiveType type, const Grid& grid) {
  // The second one has chunks that are too large for the caller's thread.
  constexpr int64_t kLargeChunk = 70'000;
  constexpr int kMostLarge = 3;
  std::vector<Case> cases = {Simplest(type, grid, 1001)};
  if (grid.size() <= kMostLarge && type != CollectiveType::kBarrier) {
    cases.push_back(Simplest(type, grid, kLargeChunk * grid.size()));
    cases.back().in_place = InPlace::kEvenRanks;
  }
  if (under_test.traits().supports_subdivisions) {
    cases.front().subdivisions = Subdivisions::kThree;
  }
  return cases;
}

}  // namespace tutti::conformance
