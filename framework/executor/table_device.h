#ifndef TUTTI_FRAMEWORK_EXECUTOR_TABLE_DEVICE_H_
#define TUTTI_FRAMEWORK_EXECUTOR_TABLE_DEVICE_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "framework/executor/settled_facts.h"
#include "framework/executor/table_call.h"

namespace tutti {

// State shared by all members of a device in one execution table: calls to use
// again. They are kept per device, because members of one device mostly call on
// one thread.
//
// Guarded by the table's mutex.
struct ABSL_CACHELINE_ALIGNED TableDevice {
  // Calls kept, some 500 bytes each. A small program has as many under way at a
  // time.
  static constexpr size_t kMaxSpares = 16;

  // Free call, with the fact that is known of it without reading it.
  struct Spare {
    std::unique_ptr<TableCall> call;
    const SettledFacts* settled = nullptr;  // Settled facts of the call.
  };

  explicit TableDevice(std::string name) : name(std::move(name)) {}

  Spare TakeSpare() {
    if (num_spares > 0) return std::move(spares[--num_spares]);
    Spare made{std::make_unique<TableCall>()};
    made.call->device = this;
    return made;
  }

  // Takes the spare calls that hold `settled`.
  std::vector<std::unique_ptr<TableCall>> TakeSparesOf(
      const SettledFacts* settled) {
    std::vector<std::unique_ptr<TableCall>> taken;
    size_t num_kept = 0;
    for (size_t i = 0; i < num_spares; ++i) {
      if (spares[i].settled == settled) {
        taken.push_back(std::move(spares[i].call));
      } else {
        std::swap(spares[num_kept++], spares[i]);
      }
    }
    num_spares = num_kept;
    return taken;
  }

  // Keeps a call of this device, or adds it to `dropped`, to free without the
  // lock. Takes the call over.
  void Keep(TableCall* call, std::vector<std::unique_ptr<TableCall>>* dropped) {
    if (num_spares == spares.size() || call->settled->group_end->cancelled()) {
      dropped->emplace_back(call);
      return;
    }
    Spare& spare = spares[num_spares++];
    spare.call.reset(call);
    spare.settled = call->settled.get();
  }

  size_t num_spares = 0;
  std::array<Spare, kMaxSpares> spares;
  const std::string name;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_TABLE_DEVICE_H_
