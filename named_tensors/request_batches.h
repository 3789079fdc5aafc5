#ifndef TUTTI_NAMED_TENSORS_REQUEST_BATCHES_H_
#define TUTTI_NAMED_TENSORS_REQUEST_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "named_tensors/tensor_request.h"
#include "proto/control.pb.h"

namespace tutti {

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

  bool empty() const { return waiting_.empty(); }

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
  uint64_t last_message_ = 0;
  uint64_t next_request_ = 1;
};

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_REQUEST_BATCHES_H_
