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

// What a rank has to ask rank zero for, as messages that each fit the bound of
// a control message, whatever the names. Not thread-safe; calls nobody.
class RequestBatches {
 public:
  struct Batch {
    proto::SubmitTensors message;

    // What was asked for under these ids counts as request `first_request` and
    // following.
    std::vector<uint64_t> ids;
  };

  // `slot` under which rank zero knows just this request, if it does.
  void Add(uint64_t id, TensorRequest request, std::optional<uint32_t> slot);

  bool empty() const { return waiting_.empty(); }

  // As many as fit. REQUIRES: !empty(); messages arrive in this order.
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
