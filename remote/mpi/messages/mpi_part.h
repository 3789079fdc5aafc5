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

// Member's part in an execution that all members begin together; see
// mpi_agreement.h and mpi_exchange.h.
class MpiPart {
 public:
  // Way in which all members begin.
  struct Order {
    bool makes_communicator = false;  // Makes the group's communicator.
    bool any_in_place = false;

    // Merged data of all members; empty if they carry none. Lives as long as
    // the call.
    absl::string_view merged;
  };

  virtual ~MpiPart() = default;
  virtual const ExecKey& key() const = 0;

  // Returns the tasks by rank, all different. The first one leads.
  virtual const std::vector<int>& tasks() const = 0;

  // Returns whether the member's input is its output.
  virtual bool is_in_place() const = 0;

  // Returns a digest of the rows that the member gives (GivesRows()), or 0
  // if it gives none. All members must have the same digest.
  virtual uint64_t rows_digest() const = 0;

  // Returns the member's input, if it is carried: at most
  // MpiNote::kMostCarriedBytes, of the same length on all members. Else empty,
  // on all.
  virtual absl::string_view carried() const = 0;

  // Merges the members' carried data, in the order of ranks. An error ends the
  // execution on all members that begin by the result.
  virtual absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const = 0;

  // Exactly one of these is called, once.
  virtual void Begin(const Order& order) = 0;
  virtual void Refuse(const absl::Status& why) = 0;
};
using MpiPartPtr = std::shared_ptr<MpiPart>;

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PART_H_
