#ifndef TUTTI_REMOTE_GRPC_TRANSFERS_RECORD_QUEUE_H_
#define TUTTI_REMOTE_GRPC_TRANSFERS_RECORD_QUEUE_H_

#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "remote/grpc/wire/transfer_wire.h"

namespace tutti {

// Records that wait to be written to a stream, in order. Packs them into
// messages of at most kMaxRecordsBytes. Not thread-safe.
class RecordQueue {
 public:
  // Adds a record, and the message of its status.
  void Add(const TransferRecord& record, absl::string_view message = "");

  // Removes the records of the next message. REQUIRES: !empty().
  std::string TakeMessage();

  bool empty() const { return records_.empty(); }
  void clear() { records_.clear(); }

 private:
  std::deque<std::string> records_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_TRANSFERS_RECORD_QUEUE_H_
