#ifndef TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_
#define TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace tutti {

// Message with one changed field.
struct SpoiltMessage {
  std::string what;  // Text such as "complete_params.request.rank is -1".
  std::unique_ptr<google::protobuf::Message> message;

  // Whether the value can never be valid: a text of 1 MiB, or with a NUL or a
  // slash; 100,000 entries.
  bool is_absurd = false;
};

// Changes each set field of the message and of nested messages: removes it,
// sets extreme numbers and absurd texts, repeats an entry, and adds 100,000
// entries.
std::vector<SpoiltMessage> SpoilEachField(
    const google::protobuf::Message& message);

// Names of fields that are not set in the message or in nested messages:
// "device.links".
std::vector<std::string> FieldsNotSet(const google::protobuf::Message& message);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_SPOILT_MESSAGES_H_
