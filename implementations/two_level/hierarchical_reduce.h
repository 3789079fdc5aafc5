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
// First, each of the d devices of a task sums up the contributions to one of d
// blocks. Then, for every i, the devices i of all T tasks all-reduce block i:
// these are the only messages between tasks. Then the devices of each task send
// each other their blocks.
//
// Each block is cut into the chunks of the all-reduce. Every stage starts on a
// chunk as soon as the stage before has done it. (A part that all-reduces
// inside ends all chunks at once.) With a ring or halving and doubling, a
// device sends 2 (T - 1) / T of its block to other tasks. A task therefore
// sends 2 (T - 1) / T of the buffer, the least possible.
//
// If the part inside reduces to one device, that device communicates with other
// tasks. If it all-reduces, the devices share the blocks that it has chunks
// for. A tree then sends the results to the other devices.
//
// If tasks have different numbers of devices, the first device of each task
// leads. A tree sums up the buffer at the leader, leaders all-reduce, and a
// tree sends the result to the others. This sends as much between tasks;
// inside, the whole buffer moves up and down.
//
// (Reduce-scatter and all-gather around an all-reduce: M. Cho, U. Finkler, D.
// Kung, H. Hunter, "BlueConnect: Decomposing all-reduce for deep learning on
// heterogeneous network hierarchy", MLSys 2019. Leaders: T. Kielmann et al.,
// "MagPIe: MPI's collective communication operations for clustered wide area
// systems", PPoPP 1999.)
//
// With one level only, the other level has no steps. REQUIRES: CheckLevels() is
// OK.
Schedule PlanHierarchicalReduce(const PlanRequest& request,
                                const ReduceLevels& levels);

// Seconds by the prices of the parts. Predicts numbers of chunks from groups of
// three ranks. Infinite if CheckLevels() fails or a part has no price.
double HierarchicalReduceSeconds(const CostQuery& query,
                                 const ReduceLevels& levels);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_REDUCE_H_
