#ifndef TUTTI_FRAMEWORK_PARAMS_H_
#define TUTTI_FRAMEWORK_PARAMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/cancellation.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/group_layout.h"

namespace tutti {

class GroupResources;

// What the resolver answers to a CollectiveRequest. All of it is immutable once
// completed and shared by the members of this process.

struct CollGroupMember {
  DeviceAttributes device;
};

// Which devices take part.
struct CollGroupParams {
  GroupKey key = 0;

  // Distinguishes groups that had this key before.
  uint64_t generation = 0;

  std::string device_type;

  // In rank order.
  std::vector<CollGroupMember> members;
  std::shared_ptr<const GroupLayout> layout;

  // Made by the group's leader for implementations that need one, such as
  // NCCL's unique id.
  struct RuntimeDetails {
    std::string communicator_key;

    // Why there is none although one was wanted. Only the leader knows.
    absl::Status key_status;
  } runtime_details;

  // The abort word of this generation: set, it ends all that runs in the group.
  std::shared_ptr<Cancellation> cancellation;

  // What implementations keep as long as the group lives.
  std::shared_ptr<GroupResources> resources;

  int size() const { return static_cast<int>(members.size()); }
};

// Which collective.
struct CollInstanceParams {
  InstanceKey key = 0;
  CollectiveType type = CollectiveType::kAllReduce;
  DType dtype = DType::kFloat32;

  // Of a member's input; of rank 0's where members differ.
  TensorShape shape;

  // Where HasRoot(type); the source of a broadcast.
  int root = 0;

  // Permute only.
  std::vector<int> permutation;

  // Where members differ: rows[i] of rank i's contribution (uneven gathers), or
  // rows[i * n + j] that rank i sends to rank j (all_to_all). Else empty.
  std::vector<int64_t> rows;

  // Each member gives them itself, for one execution (AllGather::rows), and may
  // be wrong.
  bool rows_are_given = false;

  MergeOp merge_op;
  FinalOp final_op;

  // The implementation is chosen, and subdivisions where it has them.
  CollImplDetails impl_details;
};

// Which members are in this process.
struct CollTaskParams {
  std::vector<bool> is_local;
  int num_local = 0;
};

// All that one member needs to know.
struct CollectiveParams {
  std::shared_ptr<const CollGroupParams> group;
  std::shared_ptr<const CollInstanceParams> instance;
  std::shared_ptr<const CollTaskParams> task;
  int default_rank = 0;
  bool is_source = false;  // Broadcast.

  // Of this member; [0] where it has none.
  TensorShape input_shape;
  TensorShape output_shape;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PARAMS_H_
