#ifndef TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Fields of ops by their names, whichever types of collectives have them.

// Nullopt if the op has no root, or does not name it (Broadcast).
std::optional<int> RootOf(const CollectiveOp& op);

// Empty if the op has no permutation.
absl::Span<const int> PermutationOf(const CollectiveOp& op);

// Empty if the op has no `rows`.
absl::Span<const int64_t> RowsOf(const CollectiveOp& op);

// True if blocks may differ in size.
bool IsUneven(const CollectiveOp& op);

// True if the op gives rows that hold for one execution: `rows`, or
// `recv_rows`.
bool GivesRows(const CollectiveOp& op);

// True if members, or executions, may differ in the first dimension of the
// shape.
bool MayDifferInRows(const CollectiveOp& op);

// CollInstanceParams::rows as far as this request alone determines them: given,
// or balanced. Else empty. REQUIRES: Validate(request) is OK.
std::vector<int64_t> KnownRows(const CollectiveRequest& request);

// Cuts `num_rows` rows into a block for each rank, whose sizes differ by at
// most one. The first ranks have the larger ones. REQUIRES: num_ranks > 0.
std::vector<int64_t> BalancedRows(int64_t num_rows, int num_ranks);

// Op of this type with default fields.
CollectiveOp DefaultOp(CollectiveType type);

// Instance as far as this request alone determines it: without rows, a
// broadcast without its root.
CollInstanceParams InstanceOf(const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_
