#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_REDUCE_H_

#include "implementations/two_level/hierarchical_levels.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// An all-reduce on both levels of a machine: inside tasks, where links are
// fast, and between tasks, where they are slow. With two tasks of two devices:
//
//   reduce-scatter     all-reduce        all-gather
//   in each task       between tasks     in each task
//
//   0 --+-- 1          0       1         0 --+-- 1
//                      |       |
//   2 --+-- 3          2       3         2 --+-- 3
//
// First the d devices of each task sum up its contributions, each those of one
// block in d. Then device i of all T tasks, for every i, all-reduce block i:
// the only messages between tasks. Then the devices of each task bring each
// other their blocks. Each block is cut into the chunks of the all-reduce, and
// every stage takes up a chunk as soon as the one before has done with it (what
// all-reduces inside has done with all of them at once). With
// a ring or halving and doubling a device sends 2 (T - 1) / T of its block to
// other tasks, so a task sends 2 (T - 1) / T of the buffer in all, the least
// possible.
//
// Where what runs inside reduces to one device, that one speaks to other tasks;
// where it all-reduces, the devices share the blocks that it has chunks for. A
// tree then brings the results to the others.
//
// Where tasks have different numbers of devices, the first device of each
// leads: a tree sums up the buffer at the leader, leaders all-reduce, and a
// tree brings the result to the others. That is as much between tasks; inside,
// the whole buffer moves up and down.
//
// (Reduce-scatter and all-gather around an all-reduce: M. Cho, U. Finkler, D.
// Kung, H. Hunter, "BlueConnect: Decomposing all-reduce for deep learning on
// heterogeneous network hierarchy", MLSys 2019. Leaders: T. Kielmann et al.,
// "MagPIe: MPI's collective communication operations for clustered wide area
// systems", PPoPP 1999.)
//
// Where there is one level only, nothing is done on the other one. REQUIRES:
// CheckLevels() is OK.
Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels);

// By the prices of the parts, whose numbers of chunks are predicted from groups
// of three. Infinite unless CheckLevels() is OK, and if a part has none.
double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_REDUCE_H_
