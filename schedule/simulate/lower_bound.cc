#include "schedule/simulate/lower_bound.h"

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

// Part of each rank, from 0 on.
using Parts = std::vector<int>;

std::vector<double> SizesOf(const Parts& parts) {
  std::vector<double> sizes(*std::max_element(parts.begin(), parts.end()) + 1);
  for (int part : parts) ++sizes[part];
  return sizes;
}

// Returns the largest number of ranks that one part sends to other parts.
double MostLeaving(const PlanRequest& request, const Parts& parts) {
  std::vector<double> leaving(parts.size());
  for (size_t rank = 0; rank < request.permutation.size(); ++rank) {
    const int target = request.permutation[rank];
    if (parts[target] != parts[rank]) ++leaving[parts[rank]];
  }
  return *std::max_element(leaving.begin(), leaving.end());
}

double MostExchanged(const std::vector<double>& sizes, double num_ranks) {
  double most = 0;
  for (double size : sizes) most = std::max(most, size * (num_ranks - size));
  return most / num_ranks;
}

// Returns the bytes that one part must send or receive, as a share of the
// larger buffer of one rank. REQUIRES: there are several parts.
double LeastTraffic(const PlanRequest& request, const Parts& parts) {
  const std::vector<double> sizes = SizesOf(parts);
  const auto num_ranks = static_cast<double>(parts.size());
  const auto num_parts = static_cast<double>(sizes.size());
  if (ExchangesBlocks(request.type)) return MostExchanged(sizes, num_ranks);
  if (HasRankBlocks(request.type)) {
    const double own = HasRoot(request.type)
                           ? sizes[parts[request.root]]
                           : *std::min_element(sizes.begin(), sizes.end());
    return 1 - own / num_ranks;
  }
  // The last rank's result of a scan depends on all parts.
  if (HasRoot(request.type) || IsScan(request.type)) return 1;
  if (Reduces(request.type)) return 2 * (num_parts - 1) / num_parts;
  return MostLeaving(request, parts);
}

// Returns the parts that links of a class join: the groups of the class before,
// or ranks for the first class.
Parts PartsBelow(const GroupLayout& layout, const ClusterModel& cluster,
                 size_t link) {
  Parts parts;
  for (int rank = 0; rank < layout.size(); ++rank) {
    parts.push_back(link == 0
                        ? rank
                        : layout.task_of(rank) / cluster.links[link - 1].tasks);
  }
  return parts;
}

// Rate of a part's links of one class. If a host has several of the parts, adds
// the processors that do the work of such links.
double RateOf(const GroupLayout& layout, const ClusterModel& cluster,
              size_t link) {
  const double rate = cluster.links[link].cost.bytes_per_second;
  const Host& host = cluster.host;
  if (host.processors == 0) return rate;
  const double by_processors = host.processors * rate;
  const int num_hosts = NumHosts(host, layout.num_tasks());
  const bool is_in_tasks = link == 0 && cluster.links.size() > 1;
  if (is_in_tasks || num_hosts == 1) return by_processors;
  // Links of the only class are between hosts, and within hosts of several
  // ranks.
  if (link == 0) {
    return layout.size() > num_hosts ? rate + by_processors : rate;
  }
  // A host may have tasks on both sides of such a link.
  const int tasks = cluster.links[link - 1].tasks;
  const bool is_in_hosts = host.tasks > tasks || tasks % host.tasks != 0;
  return is_in_hosts ? rate + by_processors : rate;
}

// Number of reductions at a time. Several processors of a host may work for one
// rank.
double NumReducing(const GroupLayout& layout, const ClusterModel& cluster) {
  const Host& host = cluster.host;
  if (host.processors == 0) return layout.size();
  const double num_hosts = NumHosts(host, layout.num_tasks());
  return num_hosts * host.processors;
}

bool IsOne(const Parts& parts) {
  return *std::max_element(parts.begin(), parts.end()) == 0;
}

double Seconds(const PlanRequest& request, const Parts& parts,
               const LinkCost& cost, double bytes) {
  const double traffic = LeastTraffic(request, parts);
  // A permutation may move nothing.
  if (traffic == 0 && request.type == CollectiveType::kPermute) return 0;
  return cost.latency_seconds + traffic * bytes / cost.bytes_per_second;
}

double AtOuterLinks(const PlanRequest& request, const ClusterModel& cluster,
                    double bytes) {
  for (size_t link = cluster.links.size(); link-- > 0;) {
    const Parts parts = PartsBelow(request.layout, cluster, link);
    if (IsOne(parts)) continue;
    const LinkCost cost = {cluster.links[link].cost.latency_seconds,
                           RateOf(request.layout, cluster, link)};
    return Seconds(request, parts, cost, bytes);
  }
  return 0;
}

double AtRanks(const PlanRequest& request, const ClusterModel& cluster,
               double bytes) {
  double latency = cluster.links.front().cost.latency_seconds;
  double bandwidth = 0;
  for (size_t link = 0; link < cluster.links.size(); ++link) {
    latency = std::min(latency, cluster.links[link].cost.latency_seconds);
    bandwidth += RateOf(request.layout, cluster, link);
  }
  const Parts ranks = PartsBelow(request.layout, cluster, 0);
  return Seconds(request, ranks, {latency, bandwidth}, bytes);
}

}  // namespace

double LowerBoundSeconds(const PlanRequest& request,
                         const ClusterModel& cluster, double bytes) {
  const double num_ranks = request.layout.size();
  if (num_ranks == 1) return 0;
  const double bound = std::max(AtOuterLinks(request, cluster, bytes),
                                AtRanks(request, cluster, bytes));
  if (!Reduces(request.type)) return bound;
  const double num_reducing = NumReducing(request.layout, cluster);
  const int last = request.layout.size() - 1;
  const double num_reductions =
      NumReduced(request.type, last, request.layout.size()) - 1;
  return std::max(bound, num_reductions / num_reducing * bytes /
                             cluster.reduced_bytes_per_second);
}

}  // namespace tutti
