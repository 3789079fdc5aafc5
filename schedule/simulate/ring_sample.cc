#include "schedule/simulate/ring_sample.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Transfer = OutlineRound::Transfer;
using Work = OutlineRound::Work;

template <typename T>
bool AreDifferent(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

// Returns true if each of `num_ranks` ranks has a value, and all are equal.
template <typename T, typename Differ>
bool AllHaveTheSame(const std::vector<T>& values, int num_ranks,
                    Differ differ) {
  return values.size() == static_cast<size_t>(num_ranks) &&
         std::adjacent_find(values.begin(), values.end(), differ) ==
             values.end();
}

bool AllWorkTheSame(const std::vector<Work>& work, int num_ranks) {
  return work.empty() ||
         AllHaveTheSame(work, num_ranks, [](const Work& a, const Work& b) {
           return a.reduced_chunks != b.reduced_chunks ||
                  a.copied_chunks != b.copied_chunks;
         });
}

bool IsRing(const std::vector<Transfer>& transfers, int num_ranks) {
  std::vector<int> from;
  std::vector<int> to;
  for (const Transfer& transfer : transfers) {
    from.push_back(transfer.from);
    to.push_back(transfer.to);
  }
  return AreDifferent(std::move(from)) && AreDifferent(std::move(to)) &&
         AllHaveTheSame(
             transfers, num_ranks, [](const Transfer& a, const Transfer& b) {
               return a.chunks != b.chunks || a.messages != b.messages;
             });
}

bool ShareLinks(const std::vector<Transfer>& transfers,
                const ClusterLinks& links) {
  std::vector<std::pair<int, int>> out;
  std::vector<std::pair<int, int>> in;
  for (const Transfer& transfer : transfers) {
    const int link = links.ClassOf(transfer);
    out.emplace_back(link, links.PortOf(transfer.from, link));
    in.emplace_back(link, links.PortOf(transfer.to, link));
  }
  return !AreDifferent(std::move(out)) || !AreDifferent(std::move(in));
}

}  // namespace

std::optional<RingSample> SampleRing(const std::vector<Transfer>& transfers,
                                     const ClusterLinks& links,
                                     int num_classes) {
  if (ShareLinks(transfers, links)) return std::nullopt;
  RingSample sample = {.times = std::vector<int64_t>(num_classes)};
  for (const Transfer& transfer : transfers) {
    if (++sample.times[links.ClassOf(transfer)] > 1) continue;
    sample.senders.push_back(transfer.from);
    sample.ranks.push_back(transfer.from);
    sample.ranks.push_back(transfer.to % links.period());
  }
  std::vector<int>& ranks = sample.ranks;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return sample;
}

bool IsRoundOfRing(int number, const OutlineRound& round,
                   const OutlineRound& first, int num_ranks) {
  if (!AllWorkTheSame(round.work, num_ranks)) return false;
  if (number == 0) return round.transfers.empty();
  const auto have_same_ends = [](const Transfer& a, const Transfer& b) {
    return a.from == b.from && a.to == b.to;
  };
  return IsRing(round.transfers, num_ranks) &&
         std::equal(round.transfers.begin(), round.transfers.end(),
                    first.transfers.begin(), first.transfers.end(),
                    have_same_ends);
}

}  // namespace tutti
