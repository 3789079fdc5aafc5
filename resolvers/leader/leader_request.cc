#include "resolvers/leader/leader_request.h"

#include <utility>

#include "framework/base/status_macros.h"
#include "resolvers/messages/control_codec.h"

namespace tutti {

absl::Status SendToLeader(const LeaderRequest& question,
                          const LeaderAttempt& attempt, ControlChannel& channel,
                          ControlDone done) {
  ASSIGN_OR_RETURN(
      auto message,
      EncodeMemberCall({.device = question.device,
                        .request = question.request,
                        .ended_generation = attempt.ended_generation,
                        .living_generation = attempt.living_generation,
                        .number = question.number}));
  proto::ControlRequest request;
  *request.mutable_complete_params() = std::move(message);
  channel.Call(attempt.leader, std::move(request),
               {.cancellation = question.withdrawn,
                .wait_until_reachable = attempt.wait_until_reachable},
               std::move(done));
  return absl::OkStatus();
}

}  // namespace tutti
