#ifndef TUTTI_NAMED_TENSORS_NEGOTIATION_H_
#define TUTTI_NAMED_TENSORS_NEGOTIATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "named_tensors/rank_requests.h"
#include "named_tensors/tensor_request.h"
#include "tutti/collective.h"
#include "tutti/named_tensors.h"

namespace tutti {

// Who asked for which tensors, and what is decided: the thinking of rank zero.
//
// A name is ready when all ranks have asked for it; the decisions come in one
// order, that in which names became ready but for those that join an earlier
// one. A name can be asked for again as soon as it has been decided. Not
// thread-safe; calls nobody and knows no time but what it is told.
class Negotiation {
 public:
  struct Options {
    int num_ranks = 1;
    int64_t fusion_bytes = int64_t{64} << 20;
    size_t max_slots = kMaxTensorSlots;

    // Collectives run at lengths of their own as long as these take so many
    // entries of instances in each task, as
    // ParamResolverDistributed::Options::max_entries counts them: nothing is
    // ever forgotten there. New ones that come then run longer than they are.
    size_t max_exact_entries = size_t{1} << 17;
  };

  // What all ranks concerned do next.
  struct Decision {
    // The requests of each rank that this ends, as it counts them; in the same
    // order for all ranks. Empty for a rank that is not concerned.
    std::vector<std::vector<uint64_t>> requests;

    // OK: they run, as one execution of an instance; and the sizes for that, as
    // in proto::Decision.
    absl::Status status;
    InstanceKey instance = 0;
    uint64_t execution = 0;
    int64_t fused_elements = 0;
    std::vector<int64_t> rows;
    std::vector<uint32_t> slots;

    // The instance is not known to be settled, and no other execution of it is
    // under way.
    bool begins_instance = false;
  };

  explicit Negotiation(Options options);

  // `number` is the rank's count of its requests. Errors: ALREADY_EXISTS if the
  // rank has asked for the name and it was not decided; RESOURCE_EXHAUSTED if
  // it has asked for too many.
  absl::Status Add(int rank, uint64_t number, TensorRequest request,
                   absl::Time now);

  // As the rank's last request that was decided under that slot. Errors: also
  // INVALID_ARGUMENT for a slot that nothing is known under.
  absl::Status AddKnown(int rank, uint64_t number, size_t slot, absl::Time now);

  // Whether there is something to decide, and how many bytes would run.
  bool has_ready() const { return !ready_names_.empty(); }
  int64_t ready_bytes() const { return ready_bytes_; }

  // Decides what is ready until so many of the decisions begin an instance: the
  // rest stays ready.
  std::vector<Decision> TakeDecisions(
      int64_t max_new_instances = std::numeric_limits<int64_t>::max());

  // A decision that runs as an execution of the instance has run; where it went
  // well the instance is settled.
  void OnRunEnded(InstanceKey key, bool went_well);

  // Instances that are not known to be settled and have executions under way.
  int64_t num_unsettled() const { return num_unsettled_; }

  // The names of which a rank has been missing for that long, each told once.
  std::vector<StalledTensor> TakeStalled(absl::Time now, absl::Duration after);

  // Ends those of which a rank has been missing for so long. Also `status` of
  // the decisions: DEADLINE_EXCEEDED.
  std::vector<Decision> TakeExpired(absl::Time now, absl::Duration limit);

  // Since when the first that waits has waited, of those not told or of all;
  // InfiniteFuture() if there is none.
  absl::Time OldestNotTold() const;
  absl::Time Oldest() const;

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_slots() const { return slots_.size(); }

 private:
  struct Asked {
    int rank = 0;
    uint64_t number = 0;  // Of the rank's request.
  };

  // A name that not all ranks have asked for, or that is ready. Takes room for
  // the ranks that have asked, and a bit for each of the others.
  struct Tensor {
    RankRequests requests;
    uint64_t place = 0;  // Names in the order in which they were asked for.
    absl::Time since;
    int64_t bytes = 0;             // Of rank zero's request.
    std::vector<bool> is_present;  // By rank.
    std::vector<Asked> asked;      // In the order in which they came.

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

  absl::Status CheckMayAdd(int rank, const std::string& name) const;
  TensorPtr Take(Tensor& tensor);
  void Forget(const Tensor& tensor);
  void GroupReady();
  Decision Decide(const std::vector<TensorPtr>& tensors);
  void DecideReduction(const std::vector<TensorPtr>& tensors, Decision& made);
  void DecideGather(absl::Span<const TensorRequest> by_rank, Decision& made);
  void AddRequests(const Tensor& tensor, Decision& made) const;
  uint32_t Remember(Tensor& tensor);
  bool SetExactInstance(const std::string& signature, size_t num_entries,
                        Decision& made);
  void SetInstance(const std::string& signature, Decision& made);
  StalledTensor Describe(const Tensor& tensor, absl::Time now) const;

  Options options_;
  uint64_t last_place_ = 0;
  uint64_t last_told_ = 0;  // Place.
  absl::flat_hash_map<std::string, TensorPtr> waiting_;
  std::map<uint64_t, Tensor*> order_;  // Of waiting_, by place.

  // What is ready; before that, and to be decided first, what runs together.
  std::deque<std::vector<TensorPtr>> groups_;
  std::vector<TensorPtr> ready_;
  absl::flat_hash_set<std::string> ready_names_;  // Of both.
  int64_t ready_bytes_ = 0;

  std::vector<Load> loads_;  // By rank.

  // What is known of names: the requests of all ranks, which were decided last.
  std::vector<RankRequests> slots_;
  absl::flat_hash_map<std::string, uint32_t> slot_of_name_;

  absl::flat_hash_map<std::string, InstanceKey> instance_keys_;
  std::vector<Instance> instances_;  // By key, of which the first is 1.
  int64_t num_unsettled_ = 0;
  size_t num_exact_entries_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_NEGOTIATION_H_
