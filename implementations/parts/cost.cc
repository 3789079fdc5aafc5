#include "implementations/parts/cost.h"

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

// Breaks ties: if algorithms need the same processor time, the shorter path
// wins.
constexpr double kTieBreak = 1e-3;

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

Crossings OneWay(const CostQuery& query, double of_all_processes) {
  if (!SpansProcesses(query)) return {};
  return {.leaving = 1, .in_all = 1, .of_all_processes = of_all_processes};
}

Crossings BothWays(const CostQuery& query, int leaving) {
  if (!SpansProcesses(query)) return {};
  return {.leaving = leaving,
          .in_all = 2 * leaving,
          .of_all_processes =
              static_cast<double>(leaving * query.layout.num_tasks())};
}

void Traffic::Add(const Crossings& crossings, double messages, double blocks) {
  Load& load = crossings.leaving > 0 ? between_ : within_;
  load.messages += messages;
  load.blocks += std::max(crossings.leaving, 1) * blocks;
  crossings_ += crossings.in_all * messages;
  in_all_.messages += crossings.of_all_processes * messages;
  in_all_.blocks += crossings.of_all_processes * blocks;
}

void Traffic::AddAtOnce(const Crossings& crossings, double messages,
                        double blocks) {
  Add(crossings, messages, blocks);
  if (crossings.leaving > 0) {
    between_.messages += std::min(1.0, messages) - messages;
  }
}

// Blocks of the own process take as long as their arrival.
void Traffic::SetAside(double within, double between) {
  within_.blocks += within;
  set_aside_ += between;
}

void Traffic::Add(const Traffic& more) {
  within_.messages += more.within_.messages;
  within_.blocks += more.within_.blocks;
  between_.messages += more.between_.messages;
  between_.blocks += more.between_.blocks;
  crossings_ += more.crossings_;
  set_aside_ += more.set_aside_;
  in_all_.messages += more.in_all_.messages;
  in_all_.blocks += more.in_all_.blocks;
}

Traffic Traffic::Times(int times) const {
  Traffic product = *this;
  for (Load* load : {&product.within_, &product.between_, &product.in_all_}) {
    load->messages *= times;
    load->blocks *= times;
  }
  product.crossings_ *= times;
  product.set_aside_ *= times;
  return product;
}

Traffic Traffic::ByMembers(int num_members) const {
  Traffic product = *this;
  product.between_.blocks *= num_members;
  product.crossings_ *= num_members;
  product.in_all_.messages *= num_members;
  product.in_all_.blocks *= num_members;
  return product;
}

double Traffic::Seconds(const CostModel& model, double block_bytes) const {
  return SecondsInPieces(model, block_bytes, /*num_pieces=*/1);
}

// Links with less to do wait for the first piece, or others wait for them with
// the last piece.
double Traffic::SecondsInPieces(const CostModel& model, double block_bytes,
                                int num_pieces) const {
  const double latency =
      within_.messages * model.within.latency_seconds +
      between_.messages * model.between.latency_seconds +
      (crossings_ - between_.messages) * model.between_gap_seconds;
  const double within =
      within_.blocks * block_bytes / model.within.bytes_per_second;
  const double between =
      between_.blocks * block_bytes / model.between.bytes_per_second;
  const double set_aside =
      set_aside_ * block_bytes / model.set_aside_bytes_per_second;
  const double path = latency + std::max(within, between) +
                      std::min(within, between) / num_pieces + set_aside;
  const double processors = SecondsOfProcessors(model, block_bytes);
  return std::max(path, processors) + kTieBreak * std::min(path, processors);
}

double Traffic::SecondsOfProcessors(const CostModel& model,
                                    double block_bytes) const {
  const SharedProcessors& shared = model.shared;
  if (shared.num == 0) return 0;
  return TransferSeconds(shared.message, in_all_.messages,
                         in_all_.blocks * block_bytes) /
         shared.num;
}

Traffic RingTraffic(const CostQuery& query) {
  const int others = query.layout.size() - 1;
  Traffic traffic;
  traffic.Add(BothWays(query), others, others);
  return traffic;
}

double RingSeconds(const CostQuery& query) {
  return RingTraffic(query).Seconds(query.model, BlockBytes(query));
}

Traffic ToAllTraffic(const CostQuery& query) {
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? LargestTask(query.layout) : size;
  Traffic traffic;
  traffic.Add({}, inside - 1, inside - 1);
  traffic.AddAtOnce(BothWays(query, inside), size - inside, size - inside);
  return traffic;
}

double ToAllSeconds(const CostQuery& query) {
  return ToAllTraffic(query).Seconds(query.model, BlockBytes(query));
}

Traffic FromRootTraffic(const CostQuery& query) {
  const int size = query.layout.size();
  const int inside = SpansProcesses(query) ? SmallestTask(query.layout) : size;
  Traffic traffic;
  traffic.Add({}, inside - 1, inside - 1);
  traffic.AddAtOnce(OneWay(query), size - inside, size - inside);
  return traffic;
}

double FromRootSeconds(const CostQuery& query) {
  return FromRootTraffic(query).Seconds(query.model, BlockBytes(query));
}

}  // namespace tutti
