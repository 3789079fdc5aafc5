#include "framework/choice/delegate_cost.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace {

constexpr double kLatencyShare = 0.15;
constexpr double kManyBytes = 16 << 20;
constexpr double kShareAboveMany = 1.4;

// Returns the bytes that tasks send one after the other, in multiples of the
// bytes of a query.
double ShareOfBytes(CollectiveType type, double num_tasks) {
  switch (type) {
    case CollectiveType::kAllReduce:
      return 2 * (num_tasks - 1) / num_tasks;
    case CollectiveType::kReduce:
    case CollectiveType::kBroadcast:
      return 1;
    case CollectiveType::kScan:
    case CollectiveType::kExscan:
      return num_tasks - 1;  // Open MPI passes the buffer from rank to rank.
    default:
      return (num_tasks - 1) / num_tasks;
  }
}

}  // namespace

double DelegateSeconds(const CostQuery& query) {
  const int num_tasks = query.layout.num_tasks();
  if (query.one_process || num_tasks < 2) {
    return std::numeric_limits<double>::infinity();
  }
  const LinkCost& link = query.model.between;
  const int rounds = IsScan(query.type)
                         ? num_tasks - 1
                         : std::bit_width(static_cast<unsigned>(num_tasks - 1));
  double bytes = static_cast<double>(query.bytes);
  if (num_tasks > 2) {
    bytes += (kShareAboveMany - 1) * std::max(0.0, bytes - kManyBytes);
  }
  return rounds * kLatencyShare * link.latency_seconds +
         ShareOfBytes(query.type, num_tasks) * bytes / link.bytes_per_second;
}

}  // namespace tutti
