#ifndef TUTTI_OUTFEED_ADD_OUTFEED_H_
#define TUTTI_OUTFEED_ADD_OUTFEED_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/device.h"
#include "outfeed/outfeed_registry.h"
#include "schedule/graph_builder.h"
#include "schedule/host_call_builder.h"

namespace tutti {

// A program that is being built, and where it will run.
struct OutfeedProgram {
  HostCallBuilder& builder;
  Device& device;  // Outlives the program.

  // That of the receiver that listens to the device when the program runs.
  std::shared_ptr<OutfeedRegistry> registry;
};

// An array of the program, in the host's memory.
struct OutfeedArray {
  ArraySpec spec;
  Region region;  // As many bytes as `spec` has; none if it is empty.
};

// Registers the arrays for the consumer, and adds nodes that send them as an
// item whenever the program comes there: one for the header and, if there are
// arrays, one after it that sends copies of them. Each is complete when the
// device's channel has room, so that the program is held back as the callbacks
// are slow.
//
// Returns the token: the id of the last node. `token` are the nodes that the
// item waits for: the token of the outfeed before on this device and those that
// write the arrays; whatever writes them later waits for the new token. All
// outfeeds of a device are on one chain of tokens, and nobody else sends on it
// while the program runs, since a header and its arrays stand next to each
// other in the stream.
//
// A node fails with the errors of OutfeedChannel::TransferToOutfeed(), or with
// RESOURCE_EXHAUSTED if there is no memory for a copy.
//
// Errors, with which nothing is added: those of OutfeedRegistry::Register();
// INVALID_ARGUMENT if a region has other bytes than its array; UNIMPLEMENTED
// for a device without an outfeed.
absl::StatusOr<HostCallBuilder::NodeId> AddOutfeed(
    const OutfeedProgram& program,
    absl::Span<const HostCallBuilder::NodeId> token, uint32_t consumer_id,
    absl::Span<const OutfeedArray> arrays);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_ADD_OUTFEED_H_
