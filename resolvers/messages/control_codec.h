#ifndef TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_
#define TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/control/control_channel.h"
#include "google/protobuf/repeated_field.h"
#include "proto/control.pb.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Conversions between members' calls and their messages. Every decoder checks
// all that a peer sends before it uses any of it. Errors are INVALID_ARGUMENT,
// and name the field and its value. Pure.

// Bound on generations, which are counted from 1 and never come near it.
inline constexpr uint64_t kMaxGeneration = uint64_t{1} << 62;

inline constexpr int kMaxDevicesOfTask = 1024;
inline constexpr int kMaxDeviceIndex = 65535;
inline constexpr int kMaxLibrariesOfDevice = 16;
inline constexpr int kMaxDims = 255;

// Error of a field that breaks a bound.
template <typename... Args>
absl::Status InvalidMessage(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Call of a member that joins a group.
struct MemberCall {
  DeviceAttributes device;
  std::shared_ptr<const CollectiveRequest> request;

  // Generations of the group, as the member knows them: the newest ended one,
  // and the present one. 0: none.
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;

  std::optional<CallNumber> number;  // None: wants the group alone.
};

// Encodes the call. Errors: INVALID_ARGUMENT for names that cannot be sent.
absl::StatusOr<proto::CompleteParams> EncodeMemberCall(const MemberCall& call);

// Decodes the call. The device must be one of the caller's. Custom ops come
// without their functions: applying one is an error.
absl::StatusOr<MemberCall> DecodeMemberCall(
    const ClusterSpec& cluster, const ControlCaller& caller,
    const proto::CompleteParams& message);

void EncodeDevice(const DeviceAttributes& device, proto::Device* message);

// Decodes all devices of the task with the given incarnation. Each must occur
// once.
absl::StatusOr<std::vector<DeviceAttributes>> DecodeDevices(
    const ClusterSpec& cluster, const ControlCaller& owner,
    const google::protobuf::RepeatedPtrField<proto::Device>& messages);

// Decodes the devices of several processes, one of each task.
absl::StatusOr<std::map<int, std::vector<DeviceAttributes>>>
DecodeDevicesOfTasks(
    const ClusterSpec& cluster,
    const google::protobuf::RepeatedPtrField<proto::Device>& messages);

// Decodes a list of tasks. Errors: INVALID_ARGUMENT if one is no task of the
// cluster.
absl::StatusOr<std::vector<int>> DecodeTasks(
    const ClusterSpec& cluster,
    const google::protobuf::RepeatedField<int32_t>& tasks);

// Checks that `task`'s cluster, of `num_tasks` tasks, is as large as `cluster`.
// Errors: FAILED_PRECONDITION if not; INVALID_ARGUMENT if `num_tasks` is no
// number of tasks.
absl::Status CheckNumTasks(const ClusterSpec& cluster, int task, int num_tasks);

// Checks that `name`, the value of `field`, is a short text without control
// characters or slashes. The caller must refuse an empty name.
absl::Status CheckName(absl::string_view field, absl::string_view name);

absl::Status CheckGeneration(absl::string_view field, uint64_t generation);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MESSAGES_CONTROL_CODEC_H_
