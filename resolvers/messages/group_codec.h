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

// Between what a leader has settled and the messages that say so. What a peer
// sends is checked in full before it becomes anything else; errors are
// INVALID_ARGUMENT and name the field and what was found in it. Pure.

// The group with all of its members. Consecutive tasks with the same devices
// share a range. REQUIRES: the members are devices of the cluster.
proto::Group EncodeGroup(const CollGroupParams& group);

// A group that `request` can be in, with resources and a cancellation of its
// own. Of members' attributes, only name and incarnation are known.
absl::StatusOr<std::shared_ptr<CollGroupParams>> DecodeGroup(
    const ClusterSpec& cluster, const CollectiveRequest& request,
    const proto::Group& message);

proto::Instance EncodeInstance(const CollInstanceParams& instance);

// The instance that the member with `request` is in, with the request's own
// ops. `rank` is the member's.
absl::StatusOr<CollInstanceParams> DecodeInstance(
    const CollectiveRequest& request, const CollGroupParams& group, int rank,
    const proto::Instance& message);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MESSAGES_GROUP_CODEC_H_
