#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_PART_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_PART_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/peer_access.h"

namespace tutti {

// A member's part in an execution that begins only together with those of the
// others: mpi_agreement.h and mpi_exchange.h say when.
class MpiPart {
 public:
  // How all members begin.
  struct Order {
    bool makes_communicator = false;  // Of the group's tasks; then it is there.
    bool any_in_place = false;

    // What all have carried, merged; empty where nothing was carried. Lives as
    // long as the call.
    absl::string_view merged;
  };

  virtual ~MpiPart() = default;
  virtual const ExecKey& key() const = 0;

  // By rank; all different. The first one leads.
  virtual const std::vector<int>& tasks() const = 0;

  // Whether its input is its output.
  virtual bool is_in_place() const = 0;

  // A digest of the rows that the member gives (AllGather::rows), to be the
  // same on all; 0 if it gives none.
  virtual uint64_t rows_digest() const = 0;

  // Its input, if that goes along: at most MpiNote::kMostCarriedBytes, of one
  // length on all members. Else empty, on all.
  virtual absl::string_view carried() const = 0;

  // What `carried`, by rank, comes to, for those who begin by it. An error ends
  // the execution on all of them.
  virtual absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const = 0;

  // One of the two, once.
  virtual void Begin(const Order& order) = 0;
  virtual void Refuse(const absl::Status& why) = 0;
};
using MpiPartPtr = std::shared_ptr<MpiPart>;

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PART_H_
