#ifndef TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_

#include <optional>

#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Fields of ops by their names, whichever types of collectives have them.

// Nullopt if the op has no root, or does not name it (Broadcast).
std::optional<int> RootOf(const CollectiveOp& op);

// Empty if the op has no permutation.
absl::Span<const int> PermutationOf(const CollectiveOp& op);

// True if members may differ in the first dimension of their shapes.
bool IsUneven(const CollectiveOp& op);

// Op of this type with default fields.
CollectiveOp DefaultOp(CollectiveType type);

// Instance as far as this request alone determines it: without rows, a
// broadcast without its root.
CollInstanceParams InstanceOf(const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_OP_FIELDS_H_
