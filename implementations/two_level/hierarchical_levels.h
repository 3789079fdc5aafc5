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

// Errors: NOT_FOUND if one is not linked; INVALID_ARGUMENT if one is no such
// schedule.
absl::Status CheckLevels(const ReduceLevels& levels);

// All that follows REQUIRES: CheckLevels() is OK.

const Algorithm& PartNamed(absl::string_view name);

int NumChunks(PlanFunction plan, CollectiveType type, const GroupLayout& layout,
              absl::Span<const int> offsets);

// What reduces inside tasks, in so many blocks.
struct LevelInside {
  PlanFunction plan;
  CollectiveType type;
  int num_blocks = 1;

  // The device that carries a block between tasks. It has the task's sum.
  int OwnerOf(int block, int num_devices) const;
  int NumOwners(int num_devices) const;

  // Some devices do not have the results yet.
  bool Spreads(int num_tasks, int num_devices) const;

  // Each device has the results of one block, and they bring them to each
  // other. Else trees do, block by block.
  bool Gathers(int num_devices) const;
};

LevelInside InsideOf(const GroupLayout& layout, const ReduceLevels& levels);

// What all-reduces between tasks.
struct LevelBetween {
  PlanFunction plan = nullptr;  // With one task, none.
  std::vector<int> offsets;     // Of its subdivisions.
  int num_chunks = 1;           // Of each block.
};

LevelBetween BetweenOf(int num_tasks, const ReduceLevels& levels);

// Its subdivisions: as many as make a chunk for each task at least, where it
// can be cut so finely. Then the stages overlap.
int NumSubdivs(const Algorithm& between, int num_tasks, int chunks_each);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_LEVELS_H_
