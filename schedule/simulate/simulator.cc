#include "schedule/simulate/simulator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"
#include "schedule/simulate/cluster_links.h"
#include "schedule/simulate/host_work.h"
#include "schedule/simulate/ports.h"
#include "schedule/simulate/ring_sample.h"

namespace tutti {
namespace {

using Transfer = OutlineRound::Transfer;
using Work = OutlineRound::Work;

double Picoseconds(double seconds) { return std::round(seconds * 1e12); }

class Simulator {
 public:
  Simulator(const Outline& outline, const GroupLayout& layout,
            const ClusterModel& cluster, double chunk_bytes)
      : outline_(outline),
        cluster_(cluster),
        chunk_bytes_(chunk_bytes),
        period_(SharedPeriod(outline.size().period, layout, cluster)),
        links_(layout, cluster, period_),
        out_(static_cast<int>(cluster.links.size()), period_),
        in_(static_cast<int>(cluster.links.size()), period_),
        ready_(period_),
        reduction_(
            Picoseconds(1 / cluster.reduced_bytes_per_second * chunk_bytes)),
        copy_(Picoseconds(1 / cluster.copied_bytes_per_second * chunk_bytes)),
        unreduced_(period_),
        saved_(period_) {
    const Host& host = cluster.host;
    if (host.processors == 0) return;
    hosts_.emplace(host, layout.num_tasks(), chunk_bytes <= host.inline_bytes);
  }

  // Chooses the ranks to simulate.
  absl::Status Prepare(const GroupLayout& layout) {
    const Outline::Size& size = outline_.size();
    if (size.num_ranks != layout.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("an outline of ", size.num_ranks, " ranks on a layout ",
                       layout.ToString(), ", which has ", layout.size()));
    }
    if (size.is_ring && size.num_rounds > 1 && !hosts_.has_value()) {
      sample_ = SampleRing(RoundOf(1).transfers, links_,
                           static_cast<int>(cluster_.links.size()));
    }
    const int64_t busy =
        size.most_transfers > 0
            ? std::min<int64_t>(size.most_transfers, num_simulated())
            : num_simulated();
    if (busy * size.num_rounds > kMaxSimulatedRounds) {
      return absl::ResourceExhaustedError(absl::StrCat(
          busy, " ranks in ", size.num_rounds, " rounds on ", layout.ToString(),
          " are more than can be simulated; wanted are at most ",
          kMaxSimulatedRounds, " ranks times rounds"));
    }
    const double transfers = static_cast<double>(size.most_transfers) *
                             num_simulated() / size.num_ranks;
    if (transfers <= kMaxTransfersOfRound) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("transfers of one round on ", layout.ToString(),
                     " are more than can be simulated: ", num_simulated(),
                     " ranks have ", absl::StrFormat("%.0f", transfers),
                     "; wanted are at most ", kMaxTransfersOfRound));
  }

  // Checks that other ranks do the same. Looks at the first and last rounds,
  // and at the second, middle and last period.
  absl::Status CheckPeriod() const {
    const int num_periods = outline_.size().num_ranks / period_;
    if (num_periods == 1) return absl::OkStatus();
    for (const int round : CheckedRounds()) {
      for (const int other : std::set{1, num_periods / 2, num_periods - 1}) {
        if (IsRepeated(round, other * period_)) continue;
        return absl::InternalError(absl::StrCat(
            "in round ", round, ", ranks from ", other * period_,
            " on do not do what ranks from 0 on do; the outline's period is ",
            outline_.size().period));
      }
    }
    return absl::OkStatus();
  }

  // Checks the claim of a ring in the first and last rounds.
  absl::Status CheckRing() const {
    if (!sample_.has_value()) return absl::OkStatus();
    const OutlineRound first = RoundOf(1);
    for (const int round : CheckedRounds()) {
      if (IsRoundOfRing(round, RoundOf(round), first, period_)) continue;
      return absl::InternalError(absl::StrCat(
          "in round ", round, ", ranks do not do what those of a ring do"));
    }
    return absl::OkStatus();
  }

  Simulation Run() {
    const int num_rounds = outline_.size().num_rounds;
    Simulation result = {.num_rounds = num_rounds,
                         .simulated_ranks = num_simulated()};
    for (const LinkClass& link : cluster_.links) {
      result.links.push_back({.name = link.name});
    }
    messages_by_class_.assign(cluster_.links.size(), 0);
    chunks_by_class_.assign(cluster_.links.size(), 0);
    for (int round = 0; round < num_rounds; ++round) {
      LookAt(round);
      DoTransfers();
      DoWork();
    }
    const int num_periods = outline_.size().num_ranks / period_;
    const double times = num_periods;
    for (size_t i = 0; i < result.links.size(); ++i) {
      result.links[i].messages =
          times * static_cast<double>(messages_by_class_[i]);
      result.links[i].bytes =
          times * static_cast<double>(chunks_by_class_[i]) * chunk_bytes_;
    }
    result.seconds = *std::max_element(ready_.begin(), ready_.end()) * 1e-12;
    if (hosts_.has_value()) {
      result.processor_seconds = times * hosts_->busy() * 1e-12;
    }
    return result;
  }

 private:
  // Rounds checked at each end: enough for kCheckedRanks ranks in total, within
  // bounds.
  static constexpr int kCheckedRanks = 1 << 20;
  static constexpr int kMinCheckedRounds = 4;
  static constexpr int kMaxCheckedRounds = 64;

  int num_simulated() const {
    return sample_.has_value() ? static_cast<int>(sample_->ranks.size())
                               : period_;
  }

  // Returns the first and the last rounds.
  std::vector<int> CheckedRounds() const {
    const int num_rounds = outline_.size().num_rounds;
    const int at_each_end = std::clamp(kCheckedRanks / period_,
                                       kMinCheckedRounds, kMaxCheckedRounds);
    std::vector<int> rounds;
    for (int round = 0; round < num_rounds; ++round) {
      if (round == at_each_end) {
        round = std::max(round, num_rounds - at_each_end);
      }
      rounds.push_back(round);
    }
    return rounds;
  }

  OutlineRound RoundOf(int round) const {
    OutlineRound all;
    outline_.Append(round, 0, period_, &all);
    return all;
  }

  // Loads the simulated part of a round.
  void LookAt(int round) {
    round_.Clear();
    if (!sample_.has_value()) {
      outline_.Append(round, 0, period_, &round_);
      return;
    }
    for (const int rank : sample_->ranks) {
      outline_.Append(round, rank, rank + 1, &round_);
    }
    std::erase_if(round_.transfers, [this](const Transfer& transfer) {
      return absl::c_find(sample_->senders, transfer.from) ==
             sample_->senders.end();
    });
  }

  bool IsRepeated(int round, int distance) const {
    const int size = outline_.size().num_ranks;
    OutlineRound first;
    OutlineRound other;
    outline_.Append(round, 0, period_, &first);
    outline_.Append(round, distance, distance + period_, &other);
    for (Transfer& transfer : first.transfers) {
      transfer.from += distance;
      transfer.to = (transfer.to + distance) % size;
    }
    for (Work& work : first.work) work.rank += distance;
    // Peers whose numbers wrap around to 0 are out of order.
    std::sort(first.transfers.begin(), first.transfers.end());
    std::sort(other.transfers.begin(), other.transfers.end());
    return first.transfers == other.transfers && first.work == other.work;
  }

  double Duration(const Transfer& transfer, const LinkCost& cost) const {
    const auto chunks = static_cast<double>(transfer.chunks);
    return Picoseconds(SecondsOfMessages(transfer) +
                       chunks * (chunk_bytes_ / cost.bytes_per_second));
  }

  double SecondsOfMessages(const Transfer& transfer) const {
    return static_cast<double>(transfer.messages) *
           cluster_.seconds_per_message;
  }

  void DoTransfers() {
    classes_.clear();
    for (const Work& work : round_.work) {
      unreduced_[work.rank] = work.reduced_chunks;
    }
    for (const Transfer& transfer : round_.transfers) {
      const int link = links_.ClassOf(transfer);
      Start(transfer, link);
      const int64_t times = sample_.has_value() ? sample_->times[link] : 1;
      messages_by_class_[link] += times * transfer.messages;
      chunks_by_class_[link] += times * transfer.chunks;
      classes_.push_back(link);
    }
    out_.Pass();
    in_.Pass();
    absl::Span<const double> in_hosts;
    if (hosts_.has_value()) in_hosts = hosts_->Do();
    for (size_t i = 0; i < classes_.size(); ++i) {
      const Transfer& transfer = round_.transfers[i];
      const int link = classes_[i];
      const double passed = links_.IsInHost(transfer)
                                ? TakeEnd(transfer, &in_hosts)
                                : PassedLinks(transfer, link);
      End(transfer, link, passed);
    }
  }

  void Start(const Transfer& transfer, int link) {
    const int to = transfer.to % period_;
    const double start = std::max(ready_[transfer.from], ready_[to]);
    const LinkCost& cost = cluster_.links[link].cost;
    const double duration = Duration(transfer, cost);
    if (links_.IsInHost(transfer)) {
      hosts_->Add(links_.TaskOf(to), start, duration);
      if (links_.IsBetweenTasks(transfer)) {
        hosts_->Add(links_.TaskOf(transfer.from), start,
                    Picoseconds(SecondsOfMessages(transfer)));
      }
      CountFused(transfer, cost);
      return;
    }
    out_.Add(link, links_.PortOf(transfer.from, link), start, duration);
    in_.Add(link, links_.PortOf(to, link), start, duration);
  }

  // Counts the saved time: a chunk that is received and reduced takes only as
  // long as the slower of the two.
  void CountFused(const Transfer& transfer, const LinkCost& cost) {
    const int to = transfer.to % period_;
    const int64_t fused = std::min(transfer.chunks, unreduced_[to]);
    unreduced_[to] -= fused;
    const double passing = Picoseconds(chunk_bytes_ / cost.bytes_per_second);
    saved_[to] += static_cast<double>(fused) * std::min(reduction_, passing);
  }

  // Returns the time at which both ends have done the pieces of Start().
  double TakeEnd(const Transfer& transfer, absl::Span<const double>* ends) {
    const size_t num_pieces = links_.IsBetweenTasks(transfer) ? 2 : 1;
    const auto own = ends->first(num_pieces);
    ends->remove_prefix(num_pieces);
    return *std::max_element(own.begin(), own.end());
  }

  double PassedLinks(const Transfer& transfer, int link) const {
    return std::max(out_.FreeAt(link, links_.PortOf(transfer.from, link)),
                    in_.FreeAt(link, links_.PortOf(transfer.to, link)));
  }

  // Makes both ranks wait for the transfer.
  void End(const Transfer& transfer, int link, double passed) {
    const double end =
        passed + Picoseconds(cluster_.links[link].cost.latency_seconds);
    for (int rank : {transfer.from, transfer.to % period_}) {
      ready_[rank] = std::max(ready_[rank], end);
    }
  }

  void DoWork() {
    for (const Work& work : round_.work) {
      const double duration =
          static_cast<double>(work.reduced_chunks) * reduction_ +
          static_cast<double>(work.copied_chunks) * copy_ - saved_[work.rank];
      saved_[work.rank] = 0;
      unreduced_[work.rank] = 0;
      if (hosts_.has_value()) {
        hosts_->Add(links_.TaskOf(work.rank), ready_[work.rank], duration);
      } else {
        ready_[work.rank] += duration;
      }
    }
    if (!hosts_.has_value()) return;
    auto end = hosts_->Do().begin();
    for (const Work& work : round_.work) ready_[work.rank] = *end++;
  }

  const Outline& outline_;
  const ClusterModel& cluster_;
  const double chunk_bytes_;
  const int period_;
  const ClusterLinks links_;
  std::optional<RingSample> sample_;  // None: all ranks of the period.
  Ports out_;
  Ports in_;
  std::vector<double> ready_;  // By rank: end of the last round.
  const double reduction_;     // Time for a chunk.
  const double copy_;
  std::optional<HostWork> hosts_;
  OutlineRound round_;
  std::vector<int64_t> unreduced_;  // By rank: chunks still to reduce.
  std::vector<double> saved_;       // By rank: time saved by fusion.
  std::vector<int> classes_;        // Classes of the round's transfers.
  std::vector<int64_t> messages_by_class_;
  std::vector<int64_t> chunks_by_class_;
};

// Limit of all summands, so that each sum is finite.
constexpr double kMostPicoseconds = 1e200;

absl::Status CheckTime(double seconds, absl::string_view what) {
  if (Picoseconds(seconds) <= kMostPicoseconds) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(what, " would take ", seconds,
                                            " s; wanted at most ",
                                            kMostPicoseconds / 1e12, " s"));
}

absl::Status CheckTimes(const ClusterModel& cluster, double chunk_bytes) {
  absl::Status status =
      CheckTime(chunk_bytes / cluster.reduced_bytes_per_second,
                absl::StrCat("to reduce ", chunk_bytes, " bytes"));
  status.Update(CheckTime(chunk_bytes / cluster.copied_bytes_per_second,
                          absl::StrCat("to copy ", chunk_bytes, " bytes")));
  status.Update(CheckTime(cluster.seconds_per_message, "a message"));
  for (const LinkClass& link : cluster.links) {
    status.Update(CheckTime(
        link.cost.latency_seconds + chunk_bytes / link.cost.bytes_per_second,
        absl::StrCat("a message of ", chunk_bytes, " bytes by links \"",
                     link.name, "\"")));
  }
  return status;
}

// Returns 1 if there are no hosts.
int TasksOfHost(const GroupLayout& layout, const ClusterModel& cluster) {
  const Host& host = cluster.host;
  if (host.processors == 0) return 1;
  return host.tasks == 0 ? layout.num_tasks() : host.tasks;
}

}  // namespace

int SharedPeriod(int period, const GroupLayout& layout,
                 const ClusterModel& cluster) {
  const int size = layout.size();
  if (layout.num_tasks() == 1) {
    const bool is_shared = cluster.host.processors > 0;
    return size % period == 0 && !is_shared ? period : size;
  }
  const int devices = size / layout.num_tasks();
  if (!(layout == GroupLayout::Uniform(layout.num_tasks(), devices))) {
    return size;
  }
  // Number of tasks that the last class joins, and of tasks of a host.
  const size_t num_links = cluster.links.size();
  const int joined = num_links > 1 ? cluster.links[num_links - 2].tasks : 1;
  const int64_t tasks = std::lcm<int64_t>(joined, TasksOfHost(layout, cluster));
  if (layout.num_tasks() % tasks != 0) return size;
  const int64_t shared = std::lcm<int64_t>(period, devices * tasks);
  return shared <= size && size % shared == 0 ? static_cast<int>(shared) : size;
}

absl::StatusOr<Simulation> Simulate(const Outline& outline,
                                    const GroupLayout& layout,
                                    const ClusterModel& cluster,
                                    double chunk_bytes) {
  RETURN_IF_ERROR(CheckCluster(cluster));
  RETURN_IF_ERROR(CheckTimes(cluster, chunk_bytes));
  Simulator simulator(outline, layout, cluster, chunk_bytes);
  RETURN_IF_ERROR(simulator.Prepare(layout));
  RETURN_IF_ERROR(simulator.CheckPeriod());
  RETURN_IF_ERROR(simulator.CheckRing());
  return simulator.Run();
}

}  // namespace tutti
