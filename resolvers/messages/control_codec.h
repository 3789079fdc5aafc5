#ifndef TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_
#define TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/control/control_channel.h"
#include "google/protobuf/repeated_field.h"
#include "proto/control.pb.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Between what members ask for and the messages that say so. What a peer sends
// is checked in full before it becomes anything else; errors are
// INVALID_ARGUMENT and name the field and what was found in it. Pure.

// Generations are counted, from 1, and never come near this.
inline constexpr uint64_t kMaxGeneration = uint64_t{1} << 62;

inline constexpr int kMaxDevicesOfTask = 1024;
inline constexpr int kMaxLibrariesOfDevice = 16;

// What a member says when it joins a group.
struct MemberCall {
  DeviceAttributes device;
  std::shared_ptr<const CollectiveRequest> request;

  // Generations of the group, as far as the member knows: the newest one that
  // has ended, and the one that it is in. 0: none.
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;

  CallNumber number;
};

// Errors: INVALID_ARGUMENT for names that cannot be sent.
absl::StatusOr<proto::CompleteParams> EncodeMemberCall(const MemberCall& call);

// The device must be one of the caller's. Custom ops come without their
// functions: applying one is an error.
absl::StatusOr<MemberCall> DecodeMemberCall(
    const ClusterSpec& cluster, const ControlCaller& caller,
    const proto::CompleteParams& message);

void EncodeDevice(const DeviceAttributes& device, proto::Device* message);

// All devices of the task with the given incarnation, each once.
absl::StatusOr<std::vector<DeviceAttributes>> DecodeDevices(
    const ClusterSpec& cluster, const ControlCaller& owner,
    const google::protobuf::RepeatedPtrField<proto::Device>& messages);

// Each of them a task of the cluster.
absl::StatusOr<std::vector<int>> DecodeTasks(
    const ClusterSpec& cluster,
    const google::protobuf::RepeatedField<int32_t>& tasks);

// The cluster of `task`, as it says, has as many tasks as `cluster`. Errors:
// FAILED_PRECONDITION if not; INVALID_ARGUMENT for what is no number of tasks.
absl::Status CheckNumTasks(const ClusterSpec& cluster, int task, int num_tasks);

// `field` has the name of something: a short text without control characters
// or slashes. Empty names are for the caller to refuse.
absl::Status CheckName(absl::string_view field, absl::string_view name);

absl::Status CheckGeneration(absl::string_view field, uint64_t generation);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_
