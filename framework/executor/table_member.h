#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_MEMBER_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_MEMBER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/number_set.h"
#include "framework/executor/settled_facts.h"
#include "framework/executor/table_device.h"
#include "framework/executor/table_instance.h"
#include "tutti/collective.h"
#include "tutti/device.h"

namespace tutti {

// First number of the executions in which members prepare.
inline constexpr uint64_t kPreparations = uint64_t{1} << 63;

// Entry of one member in one instance. Counts the calls of the member, and thus
// chooses the execution of the next one. A member either gives the numbers of
// its executions, or leaves them to the count.
//
// Guarded by the table's mutex.
struct TableMember {
  // Returns INVALID_ARGUMENT if a member cannot give `number`.
  static absl::Status CheckNumber(const Device* device, InstanceId id,
                                  std::optional<uint64_t> number);

  // Chooses the execution that the member's next call takes part in. Errors:
  // ALREADY_EXISTS if the member gave `number` before; INVALID_ARGUMENT if the
  // member breaks its habit.
  absl::StatusOr<uint64_t> ChooseNumber(std::optional<uint64_t> number);

  // Returns the number of the execution where the others wait for a member that
  // breaks its habit: it gives a number now and did not before, or the other
  // way round. This is most likely the execution after its last.
  std::optional<uint64_t> TakeNumberMeant() {
    if (!gives_numbers) return num_calls;
    const uint64_t number = numbers.FirstMissing(next_number);
    if (number >= kPreparations) return std::nullopt;
    numbers.Insert(number);
    return number;
  }

  // Returns the settled facts if their group lives, or null.
  const SettledFacts* LivingSettled() const {
    return settled != nullptr && !settled->group_end->cancelled()
               ? settled.get()
               : nullptr;
  }

  const Device* device = nullptr;
  TableDevice* table_device = nullptr;
  InstanceId id;
  TableInstance* instance = nullptr;
  uint64_t num_calls = 0;
  uint64_t num_preparations = 0;
  bool gives_numbers = false;
  NumberSet numbers;         // Numbers that the member gave.
  uint64_t next_number = 0;  // Last given number plus one.
  std::shared_ptr<const SettledFacts> settled;
  bool went_on_with_others = false;

  // Executions that cannot be used again. The next joiner frees them without
  // the lock.
  std::vector<std::shared_ptr<TableExecution>> dropped;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_MEMBER_H_
