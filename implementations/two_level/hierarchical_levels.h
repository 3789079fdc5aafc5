#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_LEVELS_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_LEVELS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "implementations/two_level/hierarchy.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Checks both levels. Errors: NOT_FOUND if a level is not linked;
// INVALID_ARGUMENT if a level is no suitable schedule.
absl::Status CheckLevels(const ReduceLevels& levels);

// REQUIRES for all declarations below: CheckLevels() is OK.

const Algorithm& PartNamed(absl::string_view name);

int NumChunks(PlanFunction plan, CollectiveType type, const GroupLayout& layout,
              absl::Span<const int> offsets);

// The reduction inside tasks, in `num_blocks` blocks.
struct LevelInside {
  PlanFunction plan;
  CollectiveType type;
  int num_blocks = 1;

  // Returns the device that carries a block between tasks. It has the task's
  // sum of the block.
  int OwnerOf(int block, int num_devices) const;
  int NumOwners(int num_devices) const;

  // Returns true if some devices still lack the results.
  bool Spreads(int num_tasks, int num_devices) const;

  // Returns true if each device has the results of one block and all devices
  // gather them. If false, trees send the results, block by block.
  bool Gathers(int num_devices) const;
};

LevelInside InsideOf(const GroupLayout& layout, const ReduceLevels& levels);

// The all-reduce between tasks.
struct LevelBetween {
  PlanFunction plan = nullptr;  // Null with one task.
  std::vector<int> offsets;     // Offsets of subdivisions.
  int num_chunks = 1;           // Per block.
};

LevelBetween BetweenOf(int num_tasks, const ReduceLevels& levels);

// Returns the number of subdivisions of `between`. It gives at least one chunk
// for each task, if the algorithm supports subdivisions: stages then overlap.
int NumSubdivs(const Algorithm& between, int num_tasks, int chunks_each);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_LEVELS_H_
