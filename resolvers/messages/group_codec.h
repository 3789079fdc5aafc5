#ifndef TUTTI_RESOLVERS_MESSAGES_GROUP_CODEC_H_
#define TUTTI_RESOLVERS_MESSAGES_GROUP_CODEC_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "tutti/cluster_runtime.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Conversions between a leader's decisions and their messages. Every decoder
// checks all that a peer sends before it uses any of it. Errors are
// INVALID_ARGUMENT, and name the field and its value. Pure.

// Encodes the group with all of its members. Consecutive tasks with the same
// devices share a range. REQUIRES: the members are devices of the cluster.
proto::Group EncodeGroup(const CollGroupParams& group);

// Decodes a group that `request` can be in, with new resources and a new
// cancellation. Members have only the attributes name and incarnation.
absl::StatusOr<std::shared_ptr<CollGroupParams>> DecodeGroup(
    const ClusterSpec& cluster, const CollectiveRequest& request,
    const proto::Group& message);

proto::Instance EncodeInstance(const CollInstanceParams& instance);

// Decodes the instance of the member with `request`, and gives it the request's
// own ops. `rank` is the member's.
absl::StatusOr<CollInstanceParams> DecodeInstance(
    const CollectiveRequest& request, const CollGroupParams& group, int rank,
    const proto::Instance& message);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MESSAGES_GROUP_CODEC_H_
