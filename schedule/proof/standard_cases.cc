#include "schedule/proof/standard_cases.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Number of ranks up to which all layouts of equal tasks are tried.
constexpr int kMaxEvenRanks = 16;

// Numbers of ranks per task. Ranks are consecutive from task to task.
const std::vector<std::vector<int>>& MixedTasks() {
  static const auto* const tasks = new std::vector<std::vector<int>>{
      {1, 4},       {3, 1, 2}, {2, 8, 1}, {1, 7, 3, 11, 2},
      {8, 8, 8, 8}, {16, 16},  {31, 1},   {8, 8, 8, 8, 8, 8, 8, 8}};
  return *tasks;
}

// Group sizes at which ranks are dealt out to three tasks in turn.
constexpr int kDealtSizes[] = {7, 12, 32};

GroupLayout Consecutive(const std::vector<int>& sizes) {
  std::vector<int> task_of_rank;
  for (size_t task = 0; task < sizes.size(); ++task) {
    task_of_rank.insert(task_of_rank.end(), sizes[task],
                        static_cast<int>(task));
  }
  return *GroupLayout::Create(task_of_rank);
}

GroupLayout Dealt(int size, int num_tasks) {
  std::vector<int> task_of_rank(size);
  for (int rank = 0; rank < size; ++rank) task_of_rank[rank] = rank % num_tasks;
  return *GroupLayout::Create(task_of_rank);
}

std::vector<GroupLayout> Layouts(int size) {
  std::vector<GroupLayout> layouts = {GroupLayout::Uniform(1, size)};
  if (size == 1) return layouts;
  layouts.push_back(GroupLayout::Uniform(size, 1));
  for (int num_tasks = 2; num_tasks < size; ++num_tasks) {
    if (size > kMaxEvenRanks || size % num_tasks != 0) continue;
    layouts.push_back(GroupLayout::Uniform(num_tasks, size / num_tasks));
  }
  for (const std::vector<int>& tasks : MixedTasks()) {
    if (std::accumulate(tasks.begin(), tasks.end(), 0) == size) {
      layouts.push_back(Consecutive(tasks));
    }
  }
  for (int dealt : kDealtSizes) {
    if (dealt == size) layouts.push_back(Dealt(size, /*num_tasks=*/3));
  }
  return layouts;
}

bool NextToPowerOfTwo(int size) {
  for (int power = 1; power <= size + 1; power *= 2) {
    if (std::abs(power - size) <= 1) return true;
  }
  return false;
}

std::vector<int> Roots(CollectiveType type, int size, int thorough_ranks) {
  if (!HasRoot(type)) return {0};
  std::vector<int> roots(size);
  std::iota(roots.begin(), roots.end(), 0);
  if (size <= thorough_ranks || size <= 4) return roots;
  return {0, 1, size / 2, size - 1};
}

// A fixed order without a pattern.
std::vector<int> Shuffled(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = 1;
  for (int i = size - 1; i > 0; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth.
    std::swap(order[i], order[(state >> 33) % (i + 1)]);
  }
  return order;
}

std::vector<std::vector<int>> Permutations(CollectiveType type, int size) {
  if (type != CollectiveType::kPermute) return {{}};
  std::vector<int> identity(size);
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<std::vector<int>> permutations(4, identity);
  std::rotate(permutations[0].begin(), permutations[0].begin() + size / 2,
              permutations[0].end());
  std::rotate(permutations[1].begin(), permutations[1].begin() + size - 1,
              permutations[1].end());
  std::reverse(permutations[2].begin(), permutations[2].end());
  permutations.push_back(Shuffled(size));
  return permutations;
}

std::vector<std::vector<int>> Offsets(const Algorithm& algorithm,
                                      const GroupLayout& layout) {
  if (!algorithm.traits.supports_subdivisions) return {{}};
  std::vector<std::vector<int>> offsets = {{0}, {0, -1}, {0, 1, -2, -3}};
  if (algorithm.subdivide != nullptr) {
    constexpr int64_t kLargeBytes = int64_t{1} << 30;
    offsets.push_back(
        algorithm.subdivide({.layout = layout, .bytes = kLargeBytes}));
  }
  return offsets;
}

// Returns an empty list. If the algorithm takes rank lists, also returns a list
// that fits no layout: every third rank, then the others. A list of owners has
// only the first half.
std::vector<std::vector<int>> RankLists(const Algorithm& algorithm, int size) {
  std::vector<std::vector<int>> lists = {{}};
  if (algorithm.traits.rank_list == RankListUse::kNone) return lists;
  std::vector<int>& list = lists.emplace_back();
  for (int first : {2, 0, 1}) {
    for (int rank = first; rank < size; rank += 3) list.push_back(rank);
  }
  if (algorithm.traits.rank_list == RankListUse::kOwners) {
    list.resize((size + 1) / 2);
  }
  return lists;
}

std::vector<bool> BlocksDifferModes(const Algorithm& algorithm,
                                    CollectiveType type) {
  const bool may_differ =
      HasRankBlocks(type) && algorithm.traits.supports_uneven;
  return may_differ ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

std::vector<InPlace> InPlaceModes(CollectiveType type) {
  if (type == CollectiveType::kBarrier) return {InPlace::kNone};
  return {InPlace::kNone, InPlace::kAll, InPlace::kEvenRanks,
          InPlace::kOddRanks};
}

// Combines every case with every choice. `set` puts a choice into a case.
template <typename Choice, typename Set>
std::vector<VerifyCase> Times(const std::vector<VerifyCase>& cases,
                              const std::vector<Choice>& choices, Set set) {
  std::vector<VerifyCase> product;
  product.reserve(cases.size() * choices.size());
  for (const VerifyCase& request : cases) {
    for (const auto& choice : choices) {
      product.push_back(request);
      set(product.back(), choice);
    }
  }
  return product;
}

std::vector<VerifyCase> Cases(const Algorithm& algorithm,
                              const CaseLimits& limits,
                              const GroupLayout& layout, CollectiveType type) {
  const int size = layout.size();
  std::vector<VerifyCase> cases = {{.layout = layout, .type = type}};
  cases = Times(cases, Roots(type, size, limits.thorough_ranks),
                [](VerifyCase& request, int root) { request.root = root; });
  cases = Times(cases, Permutations(type, size),
                [](VerifyCase& request, const std::vector<int>& permutation) {
                  request.permutation = permutation;
                });
  cases = Times(cases, Offsets(algorithm, layout),
                [](VerifyCase& request, const std::vector<int>& offsets) {
                  request.subdiv_offsets = offsets;
                });
  cases = Times(cases, RankLists(algorithm, size),
                [](VerifyCase& request, const std::vector<int>& list) {
                  request.rank_list = list;
                });
  cases = Times(cases, BlocksDifferModes(algorithm, type),
                [](VerifyCase& request, bool blocks_differ) {
                  request.blocks_differ = blocks_differ;
                });
  return Times(cases, InPlaceModes(type),
               [](VerifyCase& request, InPlace in_place) {
                 request.in_place = in_place;
               });
}

bool IsStandardSize(int size, const CaseLimits& limits) {
  return size <= limits.thorough_ranks || size == limits.max_ranks ||
         NextToPowerOfTwo(size);
}

}  // namespace

void ForEachStandardCase(const Algorithm& algorithm, const CaseLimits& limits,
                         absl::FunctionRef<bool(const VerifyCase&)> visit) {
  for (int size = limits.min_ranks; size <= limits.max_ranks; ++size) {
    if (!IsStandardSize(size, limits)) continue;
    for (const GroupLayout& layout : Layouts(size)) {
      for (CollectiveType type : algorithm.traits.collectives) {
        const auto cases = Cases(algorithm, limits, layout, type);
        if (!std::all_of(cases.begin(), cases.end(), visit)) return;
      }
    }
  }
}

VerifyReport VerifyStandardCases(
    const Algorithm& algorithm, const CaseLimits& limits,
    absl::FunctionRef<bool(const VerifyReport&)> progress) {
  VerifyReport report;
  ForEachStandardCase(algorithm, limits, [&](const VerifyCase& request) {
    const absl::Status status = Verify(algorithm, request);
    ++report.cases;
    if (report.largest_group < request.layout.size()) ++report.num_sizes;
    report.largest_group = request.layout.size();
    if (!status.ok()) ++report.failed;
    if (!status.ok() && report.first_failure.ok()) {
      report.first_failure =
          absl::Status(status.code(),
                       absl::StrCat(ToString(request), ": ", status.message()));
    }
    return progress(report);
  });
  return report;
}

VerifyReport VerifyStandardCases(const Algorithm& algorithm,
                                 const CaseLimits& limits) {
  return VerifyStandardCases(algorithm, limits,
                             [](const VerifyReport&) { return true; });
}

}  // namespace tutti
