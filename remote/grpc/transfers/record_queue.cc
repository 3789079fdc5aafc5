#include "remote/grpc/transfers/record_queue.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {

void RecordQueue::Add(const TransferRecord& record, absl::string_view message) {
  const EncodedRecord encoded = Encode(record);
  records_.push_back(absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(encoded.data()),
                        encoded.size()),
      message));
}

std::string RecordQueue::TakeMessage() {
  std::string message = std::move(records_.front());
  records_.pop_front();
  while (!records_.empty() &&
         message.size() + records_.front().size() <= kMaxRecordsBytes) {
    message += records_.front();
    records_.pop_front();
  }
  return message;
}

}  // namespace tutti
