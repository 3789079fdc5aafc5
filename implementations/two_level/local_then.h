#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// An all-reduce of several members in each process, in the three stages of a
// HierarchicalRun:
//
//   process 0     process 1
//   a b c         d e f        one pass over memory in each process:
//   - s -         - t -          s = (a + b) + c
//   S - -  <--->  S - -        the first members of the processes: S = s + t
//   S S S         S S S        one pass: final op, and to all members
//
// Works chunk by chunk if the level between is a schedule. While one chunk is
// between processes, the first stage reduces the next chunk and the third stage
// spreads the chunk before. Members other than the first of a task count as
// launched when they arrive. Tasks in the same process count as separate
// processes.
class LocalThen : public CollectiveImplementationInterface {
 public:
  explicit LocalThen(std::unique_ptr<InterTaskLevel> between)
      : between_(std::move(between)) {}

  // Errors: INVALID_ARGUMENT if members of the task are in several processes;
  // errors of the level between.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  const std::unique_ptr<InterTaskLevel> between_;
  std::once_flag once_;
  absl::Status status_;  // Result of Prepare().
};

// Bytes that the first members of the processes reduce at a time. Chunks of 4
// MiB took up to 1.5 times as long, because there are more messages. Larger
// chunks were no faster. (gRPC among 2 to 4 processes on 2 processors, 23
// November 2026.)
inline constexpr int64_t kLocalThenChunkBytes = int64_t{16} << 20;

// Returns the predicted seconds if implementation `between` of the global
// registry runs between processes, in chunks of `chunk_bytes`. Infinite, and
// therefore never chosen, with several members of one task only, or if
// `between` is not linked, cannot run there (FindInterTaskLevel()) or has no
// price.
double LocalThenSeconds(absl::string_view between, int64_t chunk_bytes,
                        const CostQuery& query);

// `functions` are the stand-in's functions, the price, and check_parts.
std::shared_ptr<const CollectiveFactory> MakeLocalThenFactory(
    std::string between, int64_t chunk_bytes, Algorithm functions);

// Makes a LocalThen with the library `delegate` (CollectiveDelegate::name())
// between processes. Works in one chunk and has no stand-in; `summary` is one
// line for people. Calls end with FAILED_PRECONDITION if another library, or
// none, connects the processes.
std::shared_ptr<const CollectiveFactory> LocalThenDelegateFactory(
    std::string delegate, std::string summary);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_LOCAL_THEN_H_
