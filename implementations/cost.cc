#include "implementations/cost.h"

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

bool HasFewerRanks(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() < b.size();
}

}  // namespace

int LargestTask(const GroupLayout& layout) {
  const auto& tasks = layout.tasks();
  return static_cast<int>(
      std::max_element(tasks.begin(), tasks.end(), HasFewerRanks)->size());
}

int SmallestTask(const GroupLayout& layout) {
  const auto& tasks = layout.tasks();
  return static_cast<int>(
      std::min_element(tasks.begin(), tasks.end(), HasFewerRanks)->size());
}

void Traffic::Add(int num_leaving, double messages, double blocks) {
  Load& load = num_leaving > 0 ? between_ : within_;
  load.messages += messages;
  load.blocks += std::max(num_leaving, 1) * blocks;
}

double Traffic::Seconds(const CostModel& model, double block_bytes) const {
  return TransferSeconds(model.within, within_.messages,
                         within_.blocks * block_bytes) +
         TransferSeconds(model.between, between_.messages,
                         between_.blocks * block_bytes);
}

double RingSeconds(const CostQuery& query) {
  const double others = query.layout.size() - 1;
  Traffic traffic;
  traffic.Add(SpansProcesses(query) ? 1 : 0, others, others);
  return traffic.Seconds(query.model, BlockBytes(query));
}

double ToAllSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? LargestTask(query.layout) : size;
  Traffic traffic;
  traffic.Add(/*num_leaving=*/0, inside - 1, inside - 1);
  traffic.Add(/*num_leaving=*/inside, size - inside, size - inside);
  return traffic.Seconds(query.model, BlockBytes(query));
}

double FromRootSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? SmallestTask(query.layout) : size;
  Traffic traffic;
  traffic.Add(/*num_leaving=*/0, inside - 1, inside - 1);
  traffic.Add(/*num_leaving=*/1, size - inside, size - inside);
  return traffic.Seconds(query.model, BlockBytes(query));
}

}  // namespace tutti
