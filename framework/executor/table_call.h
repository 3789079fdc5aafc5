#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_CALL_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_CALL_H_

#include <memory>

#include "framework/executor/settled_facts.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {

struct TableDevice;

// Call of a member whose instance is settled, from
// ExecutionTable::JoinSettled() to Leave(). The table then keeps the object for
// another call. Its context has the fields that do not come from the caller.
struct TableCall {
  std::shared_ptr<const SettledFacts> settled;
  Execution* execution = nullptr;
  CollectiveContext context;
  StatusCallback done;

  TableDevice* device = nullptr;  // Device that keeps the object.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_CALL_H_
