#ifndef TUTTI_NAMED_TENSORS_PENDING_TENSORS_H_
#define TUTTI_NAMED_TENSORS_PENDING_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "named_tensors/coordinator_ranks.h"
#include "named_tensors/tensor_request.h"
#include "proto/control.pb.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// A request that has not ended. The part of a joined rank in the other ranks'
// requests is one without a name.
struct PendingTensor {
  // Drops the tensors first: `done` may destroy the device that has them.
  void End(absl::Status status) {
    tensor = NamedTensor();
    std::move(done)(std::move(status));
  }

  TensorRequest request;
  NamedTensor tensor;
  StatusCallback done;
};
using PendingTensorPtr = std::shared_ptr<PendingTensor>;

// Requests of a rank, cut into messages to rank zero. Each message fits the
// bound of a control message, whatever the names. Not thread-safe. Calls
// nobody.
class RequestBatches {
 public:
  struct Batch {
    proto::SubmitTensors message;

    // Ids of the requests in the message, which have consecutive numbers from
    // `first_request`.
    std::vector<uint64_t> ids;
  };

  // `slot` is the slot under which rank zero knows exactly this request, if
  // any.
  void Add(uint64_t id, TensorRequest request, std::optional<uint32_t> slot);

  // The last of the messages for the requests so far says that the rank joins.
  void AddJoin() { joins_ = true; }

  bool empty() const { return waiting_.empty() && !joins_; }

  // Takes the next requests that fit into one message. REQUIRES: !empty(), and
  // messages arrive in the order of these calls.
  Batch TakeNext();

 private:
  struct Entry {
    uint64_t id = 0;
    TensorRequest request;
    std::optional<uint32_t> slot;
  };

  std::deque<Entry> waiting_;
  bool joins_ = false;
  uint64_t last_message_ = 0;
  uint64_t next_request_ = 1;
};

// Requests of one rank: on their way to rank zero, undecided, or running. Not
// thread-safe. Calls nobody.
class PendingTensors {
 public:
  explicit PendingTensors(RankPlace place) : place_(place) {}

  // Errors: ALREADY_EXISTS if the name is in use; RESOURCE_EXHAUSTED if there
  // are too many requests; FAILED_PRECONDITION if the rank has joined.
  absl::Status Add(PendingTensorPtr pending);

  // Sends, after all requests so far, that the rank joins. Errors:
  // FAILED_PRECONDITION if it has.
  absl::Status Join();

  // Takes the next message to rank zero. REQUIRES: has_message().
  bool has_message() const { return !batches_.empty(); }
  proto::SubmitTensors TakeMessage();

  // Takes the requests that `decision` ends or runs, none for an end of the
  // join. Errors: INVALID_ARGUMENT if the decision does not match the requests
  // of this rank.
  absl::StatusOr<std::vector<PendingTensorPtr>> TakeDecided(
      const proto::Decision& decision);

  bool has_undecided() const { return !undecided_.empty() || has_joined_; }

  // Frees the names of `tensors` for new requests.
  void Leave(const std::vector<PendingTensorPtr>& tensors);

  // Takes all undecided requests, and frees their names.
  std::vector<PendingTensorPtr> TakeUndecided();

 private:
  // Rank zero's memory of a name.
  struct Known {
    uint32_t slot = 0;
    TensorRequest request;
  };

  absl::Status CheckMayAdd() const;
  absl::StatusOr<std::vector<PendingTensorPtr>> TakeForJoined(
      const proto::Decision& decision);
  void Remember(const proto::Decision& decision,
                const std::vector<PendingTensorPtr>& tensors);

  const RankPlace place_;
  absl::flat_hash_set<std::string> names_;  // Names in use.
  size_t name_bytes_ = 0;
  bool has_joined_ = false;
  RequestBatches batches_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, PendingTensorPtr> undecided_;  // Keyed by id.
  absl::flat_hash_map<uint64_t, uint64_t> id_of_request_;  // Keyed by number.
  absl::flat_hash_map<std::string, Known> known_;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_PENDING_TENSORS_H_
