#ifndef TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_
#define TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace tutti {

// A message in which one field is not as it was.
struct SpoiltMessage {
  std::string what;  // "complete_params.request.rank is -1"
  std::unique_ptr<google::protobuf::Message> message;

  // Whether no such value can be meant: a text of 1 MiB, or one with a NUL or a
  // slash in it; 100,000 entries.
  bool is_absurd = false;
};

// Every field of the message, and of those in it, that is set: missing; with
// extreme numbers and absurd texts; entries twice, and 100,000 of them.
std::vector<SpoiltMessage> SpoilEachField(
    const google::protobuf::Message& message);

// The names of the fields of the message's type, and of those in it, that are
// not set: "device.links".
std::vector<std::string> FieldsNotSet(const google::protobuf::Message& message);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_
