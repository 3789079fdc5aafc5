#include "schedule/simulate/cluster_links.h"

namespace tutti {

using Transfer = OutlineRound::Transfer;

int ClusterLinks::ClassOf(const Transfer& transfer) const {
  const int from = TaskOf(transfer.from);
  const int to = TaskOf(transfer.to);
  int link = 0;
  while (GroupIn(link, from) != GroupIn(link, to)) ++link;
  return link;
}

bool ClusterLinks::IsInHost(const Transfer& transfer) const {
  const Host& host = cluster_.host;
  if (host.processors == 0) return false;
  return host.tasks == 0 ||
         TaskOf(transfer.from) / host.tasks == TaskOf(transfer.to) / host.tasks;
}

int ClusterLinks::PortOf(int rank, int link) const {
  const int simulated = rank % period_;
  if (link == 0) return simulated;
  return GroupIn(link - 1, TaskOf(simulated));
}

}  // namespace tutti
