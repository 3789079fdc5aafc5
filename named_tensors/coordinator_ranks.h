#ifndef TUTTI_NAMED_TENSORS_COORDINATOR_RANKS_H_
#define TUTTI_NAMED_TENSORS_COORDINATOR_RANKS_H_

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tutti {

// Place of a rank in its coordinator. Requests and messages name ranks by their
// tasks.
struct RankPlace {
  int rank = 0;
  int num_ranks = 1;
  int task = 0;
};

// Tasks of the ranks of a coordinator. Immutable.
class CoordinatorRanks {
 public:
  // `tasks` are different tasks, by rank; empty: all tasks, in their order.
  CoordinatorRanks(std::vector<int> tasks, int num_tasks)
      : tasks_(std::move(tasks)) {
    if (tasks_.empty()) {
      tasks_.resize(num_tasks);
      std::iota(tasks_.begin(), tasks_.end(), 0);
    }
    for (int rank = 0; rank < size(); ++rank) rank_of_[tasks_[rank]] = rank;
  }

  const std::vector<int>& tasks() const { return tasks_; }
  int size() const { return static_cast<int>(tasks_.size()); }
  int deciding_task() const { return tasks_.front(); }

  // Nullopt if the task has no rank.
  std::optional<int> RankOf(int task) const {
    const auto found = rank_of_.find(task);
    if (found == rank_of_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::vector<int> tasks_;
  absl::flat_hash_map<int, int> rank_of_;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_COORDINATOR_RANKS_H_
