#ifndef TUTTI_FRAMEWORK_IMPLEMENTATION_TRAITS_H_
#define TUTTI_FRAMEWORK_IMPLEMENTATION_TRAITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective_type.h"
#include "framework/determinism.h"
#include "framework/group_layout.h"
#include "framework/merge_op.h"

namespace tutti {

// What a message costs, as in the Hockney model: latency + bytes / bandwidth.
struct LinkCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

// Processors that processes share, as they have not one each.
struct SharedProcessors {
  int num = 0;  // 0: each process has one.

  // What a message between two processes takes of them, on both sides in all.
  LinkCost message;
};

// The links of a machine.
struct CostModel {
  // From member to member in one process; each member has that bandwidth.
  LinkCost within = {.latency_seconds = 1e-6, .bytes_per_second = 5e9};

  // From process to process; the members of a process share the bandwidth.
  // About what a call and a stream of slices over gRPC come to on loopback (2
  // cores, Zen 5, idle).
  LinkCost between = {.latency_seconds = 50e-6, .bytes_per_second = 2.5e9};

  // How much longer each further message takes that enters or leaves a process
  // at the same time as another one: a gap, as in LogP (D. Culler et al.,
  // "LogP: towards a realistic model of parallel computation", PPoPP 1993).
  // Fitted to times on loopback (2 virtual processors of an Intel Xeon, 22
  // November 2026).
  double between_gap_seconds = 40e-6;

  // What members of several processes set aside as it comes, and read once more
  // later. Over gRPC that was not seen to take time to 16 MiB among 3 and 4;
  // but it takes memory, so from some ten MiB on it decides between those
  // alike.
  double set_aside_bytes_per_second = 1e12;

  // Nothing takes less time than its messages take these.
  SharedProcessors shared;
};

// What an implementation is asked to price. `bytes` is the larger of one
// member's input and output.
struct CostQuery {
  CollectiveType type = CollectiveType::kAllReduce;
  const GroupLayout& layout;
  int64_t bytes = 0;
  CostModel model;
  bool one_process = false;  // Else every task is one.
};

// What a list of ranks (CollImplDetails::rank_list) is to an implementation.
enum class RankListUse : uint8_t {
  kNone,      // It takes none.
  kAllRanks,  // The order of all ranks around a ring.
  kOwners,    // Those that each reduce a piece of the buffer.
};

// What an implementation needs of a group's devices.
struct DeviceNeeds {
  // Each has it (DeviceAttributes::libraries). Empty: none is needed.
  std::string library;

  // No two are on one piece of hardware (DeviceAttributes::unit).
  bool own_units = false;

  // The two above among the members of each task alone: one that is the only
  // member of its task needs nothing.
  bool within_tasks = false;

  // The first member's links lead to all others (DeviceLocality), but for those
  // on its own piece of hardware.
  bool first_reaches_all = false;
};

// What an implementation can do, for choosing among implementations and for
// showing the choice. Immutable once registered.
struct ImplementationTraits {
  std::string summary;  // One line for people.
  std::vector<CollectiveType> collectives;

  // Empty: any whose memory is the host's (Device::has_host_memory()), and any
  // that runs steps (Device::OpenSteps()) where the implementation is made of
  // these.
  std::vector<std::string> device_types;

  DeviceNeeds device_needs;

  // Serves only groups whose leader could make a key
  // (CollGroupParams::runtime_details).
  bool needs_communicator_key = false;

  // Why nobody can run it, whatever is asked, as where an implementation that
  // it is made of is not linked into the program. Asked before its price. The
  // same as long as the program lives. Null: it can be run.
  absl::Status (*check_parts)() = nullptr;

  // Runs schedules (schedule/), and nothing else. Set by Scheduled().
  bool is_made_of_steps = false;

  // Serves only groups whose members are all in one process, whatever tasks
  // they belong to.
  bool needs_one_process = false;

  // The library that runs it (CollectiveDelegate::name()): serves only groups
  // that this one connects, each of whose members is in another process (but
  // see below). Empty: runs by itself.
  std::string delegate;

  // Leaves to it only what goes between processes: members may share one.
  bool delegates_between_processes = false;

  // Reduces strictly from the lowest rank to the highest, so that the merge op
  // need not commute.
  bool preserves_rank_order = false;

  // Why it cannot reduce with these, in words that follow its name; empty if it
  // can. Pure. Null: it can with all, the caller's own too.
  std::string (*why_not_ops)(const MergeOp& merge_op,
                             const FinalOp& final_op) = nullptr;

  // Honours CollImplDetails::subdiv_offsets.
  bool supports_subdivisions = false;

  RankListUse rank_list = RankListUse::kNone;

  // Members' contributions may differ in size (all_gather, all_to_all).
  bool supports_uneven = false;

  // Gives members one output where they allow it (CollectiveArgs): honours
  // CollectiveContext::late_output.
  bool shares_output = false;

  // Reduces the segments of a list where they are (CollectiveArgs): honours
  // CollectiveContext::segments, which members may have or not, each its own.
  // For others they are copied into one tensor before, and out of it
  // afterwards.
  bool takes_segments = false;

  Determinism determinism = Determinism::kFixedLayout;

  // Predicted seconds; pure. Null, or not finite: runs only when named.
  double (*cost_seconds)(const CostQuery& query) = nullptr;
};

// Of `check_parts`, if there is one.
inline absl::Status CheckParts(const ImplementationTraits& traits) {
  return traits.check_parts == nullptr ? absl::OkStatus()
                                       : traits.check_parts();
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_IMPLEMENTATION_TRAITS_H_
