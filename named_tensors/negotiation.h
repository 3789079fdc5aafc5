#ifndef TUTTI_NAMED_TENSORS_NEGOTIATION_H_
#define TUTTI_NAMED_TENSORS_NEGOTIATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "named_tensors/tensor_request.h"
#include "tutti/collective.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Rank zero's record of the requests, and its decisions.
//
// A name is ready when all ranks have requested it or have joined. All ranks
// get the decisions in one order: the order in which names became ready. A name
// that joins an earlier decision moves forward to it. A name can be requested
// again as soon as it is decided.
//
// Not thread-safe. Calls nobody, and knows only the times in its arguments.
class Negotiation {
 public:
  struct Options {
    int num_ranks = 1;
    std::vector<int> tasks;  // Tasks by rank; empty: rank r is task r.
    int64_t fusion_bytes = int64_t{64} << 20;
    size_t max_slots = kMaxTensorSlots;

    // Bound on the entries of instances, in each task, for collectives that run
    // at their exact lengths. Counted as in
    // ParamResolverDistributed::Options::max_entries; entries are never
    // forgotten. Beyond the bound, new collectives run at lengths rounded up.
    size_t max_exact_entries = size_t{1} << 17;
  };

  // The next step of all ranks concerned.
  struct Decision {
    // Requests of each rank that this decision ends, by the rank's numbers, in
    // one order for all ranks. Empty for a rank that is not concerned.
    std::vector<std::vector<uint64_t>> requests;

    // OK: the requests run as one execution of `instance`, with the sizes
    // below, as in proto::Decision.
    absl::Status status;
    InstanceKey instance = 0;
    uint64_t execution = 0;
    int64_t fused_elements = 0;
    std::vector<int64_t> rows;

    // By rank; empty if all are equal and not listed in the call.
    std::vector<std::vector<int64_t>> received_rows;
    std::vector<uint32_t> slots;

    // Set if the requests run and some ranks have none, since they have joined:
    // these ranks take part as if they had sent this, which has no name.
    std::optional<TensorRequest> stand_in;

    // Set if all ranks have joined: the last rank. There are no requests.
    std::optional<int> last_joined;

    // True if the instance may not be settled yet and has no other execution
    // under way.
    bool begins_instance = false;
  };

  explicit Negotiation(Options options);

  // `number` is the rank's count of its requests. Errors: ALREADY_EXISTS if the
  // rank has an undecided request of that name; RESOURCE_EXHAUSTED if the rank
  // has too many requests; FAILED_PRECONDITION if it has joined.
  absl::Status Add(int rank, uint64_t number, TensorRequest request,
                   absl::Time now);

  // Adds a copy of the rank's last decided request under `slot`. Errors: also
  // INVALID_ARGUMENT for an unknown slot.
  absl::Status AddKnown(int rank, uint64_t number, size_t slot, absl::Time now);

  // Counts the rank as ready for all names, until a decision says that all
  // ranks have joined. Errors: FAILED_PRECONDITION if it has joined.
  absl::Status Join(int rank);

  // Ready requests, or an end of the join: whether there are any, and the bytes
  // that they would run.
  bool has_ready() const {
    return !ready_names_.empty() || num_joined_ == options_.num_ranks;
  }
  int64_t ready_bytes() const { return ready_bytes_; }

  // Decides ready requests until `max_new_instances` decisions begin an
  // instance. The rest stays ready.
  std::vector<Decision> TakeDecisions(
      int64_t max_new_instances = std::numeric_limits<int64_t>::max());

  // Called when a decision has run as an execution of the instance. If it went
  // well, the instance is settled.
  void OnRunEnded(InstanceKey key, bool went_well);

  // Number of instances that may not be settled yet and have executions under
  // way.
  int64_t num_unsettled() const { return num_unsettled_; }

  // Takes the names that have waited for a rank for at least `after`. Returns
  // each name once.
  std::vector<StalledTensor> TakeStalled(absl::Time now, absl::Duration after);

  // Ends the names that have waited for a rank for at least `limit`. The status
  // of each, also in its decision, is DEADLINE_EXCEEDED.
  std::vector<Decision> TakeExpired(absl::Time now, absl::Duration limit);

  // First request time among the waiting names: not yet returned by
  // TakeStalled(), or all. InfiniteFuture() if there is none.
  absl::Time OldestNotReported() const;
  absl::Time Oldest() const;

  size_t num_waiting() const { return waiting_.size(); }

 private:
  struct Requested {
    int rank = 0;
    uint64_t number = 0;  // Counted by the rank.
  };

  // A name that some ranks have not requested, or that is ready. Takes room for
  // the ranks that have requested it, and a bit for each other rank.
  struct Tensor {
    RankRequests requests;
    uint64_t place = 0;  // Counts names in the order of their first requests.
    absl::Time since;
    int64_t bytes = 0;  // Size of rank zero's request, or else of the first.
    std::vector<bool> is_present;      // Indexed by rank.
    std::vector<Requested> requested;  // Order of arrival.
    std::vector<int> absent;           // Joined ranks, once it is ready.

    const std::string& name() const { return requests.name(); }
  };
  using TensorPtr = std::unique_ptr<Tensor>;

  struct Load {
    size_t num_requests = 0;
    size_t name_bytes = 0;
  };
  struct Instance {
    uint64_t num_executions = 0;
    uint64_t num_under_way = 0;
    bool is_settled = false;
  };

  // Number that messages, and the results of this class, have for the rank.
  int NumberOf(int rank) const {
    return options_.tasks.empty() ? rank : options_.tasks[rank];
  }
  absl::Status CheckMayAdd(int rank, const std::string& name) const;
  std::vector<int> AbsentFrom(const Tensor& tensor) const;
  void MakeReadyIfComplete(Tensor& tensor);
  Decision EndJoin();
  absl::Status CheckAgree(const Tensor& tensor,
                          absl::Span<const TensorRequest> by_rank) const;
  static int64_t ElementsOf(absl::Span<const TensorPtr> tensors);
  void AddStandIn(absl::Span<const TensorPtr> tensors, Decision& made) const;
  TensorPtr Take(Tensor& tensor);
  void Forget(const Tensor& tensor);
  void GroupReady();
  Decision Decide(const std::vector<TensorPtr>& tensors);
  void DecideReduction(const std::vector<TensorPtr>& tensors, Decision& made);
  void DecideGather(absl::Span<const TensorRequest> by_rank, Decision& made);
  void DecideBroadcast(const TensorRequest& first, Decision& made);
  void DecideReduceScatter(const TensorRequest& first, Decision& made);
  void DecideAllToAll(absl::Span<const TensorRequest> by_rank, Decision& made);
  void DecideOne(absl::Span<const TensorRequest> by_rank, Decision& made);
  void AddRequests(const Tensor& tensor, Decision& made) const;
  uint32_t Remember(Tensor& tensor);
  bool SetExactInstance(const std::string& signature, size_t num_entries,
                        Decision& made);
  void SetPartsInstance(const std::string& what, int64_t part_elements,
                        Decision& made);
  void SetInstance(const std::string& signature, Decision& made);
  StalledTensor Describe(const Tensor& tensor, absl::Time now) const;

  Options options_;
  uint64_t last_place_ = 0;
  uint64_t last_reported_ = 0;  // A `place`.
  absl::flat_hash_map<std::string, TensorPtr> waiting_;
  std::map<uint64_t, Tensor*> order_;  // Tensors in waiting_, by place.

  // Ready tensors. `groups_` run together each, and are decided before
  // `ready_`.
  std::deque<std::vector<TensorPtr>> groups_;
  std::vector<TensorPtr> ready_;
  absl::flat_hash_set<std::string> ready_names_;  // Names in both.
  int64_t ready_bytes_ = 0;

  std::vector<Load> loads_;  // Indexed by rank.

  std::vector<bool> joined_;  // Indexed by rank.
  int num_joined_ = 0;
  int last_joined_ = 0;

  // The last decided requests of all ranks, by slot.
  std::vector<RankRequests> slots_;
  absl::flat_hash_map<std::string, uint32_t> slot_of_name_;

  absl::flat_hash_map<std::string, InstanceKey> instance_keys_;
  std::vector<Instance> instances_;  // Key k has index k - 1.
  int64_t num_unsettled_ = 0;
  size_t num_exact_entries_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_NEGOTIATION_H_
