#ifndef TUTTI_OUTFEED_OUTFEED_EXPORT_H_
#define TUTTI_OUTFEED_OUTFEED_EXPORT_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "framework/status_callback.h"
#include "outfeed/outfeed_connection.h"
#include "outfeed/outfeed_registry.h"

namespace tutti {

// The sending end of an outfeed between processes: listens to the outfeed of a
// device of this process, in the place of an OutfeedReceiver, and hands its
// items to the RemoteOutfeedDevice that the other process has connected.
//
// Sends wait in the device's channel until a receiver was started there. Then
// no more than a window of kWindowBytes, or one item above it, is on its way
// and not fetched; behind it the channel fills, and senders wait as if the
// receiver were here. Small arrays are copied, many at a time; those above 1
// KiB are lent where they lie, and belong to the stream until they were read.
//
// A receiver that is shut down, an item that is not as registered and a loss of
// the connection end the stream. Senders get the same status as locally, or
// what became of the connection.
//
// Thread-safe; starts no thread and never blocks. Destruction at any time: a
// stream that has not ended ends at both ends with CANCELLED. Another one, with
// another connection, can be made for the device when this one has ended.
class OutfeedExport {
 public:
  // Of payload and what goes with it.
  static constexpr int64_t kWindowBytes = int64_t{1} << 20;

  struct Options {
    OutfeedConnection connection;

    // That of the device's OutfeedSenders.
    std::shared_ptr<const OutfeedRegistry> registry;

    // May be null. Runs once when the stream has ended and every byte that it
    // had lent, or kept of an item half read, is free again, possibly after the
    // destruction: with OK after an orderly end, when all that was sent is at
    // the receiving process; else with the stream's error. Not if Connect()
    // fails.
    StatusCallback ended;
  };
  using ConnectCallback = absl::AnyInvocable<
      void(absl::StatusOr<std::unique_ptr<OutfeedExport>>) &&>;

  // Waits for the other end, and listens from then on. `done` runs on any
  // thread. Errors: INVALID_ARGUMENT for a null part; UNIMPLEMENTED for a
  // device without an outfeed; FAILED_PRECONDITION if somebody listens to it;
  // those of CollectiveExecutor::Prepare().
  static void Connect(Options options, ConnectCallback done);

  ~OutfeedExport();
  OutfeedExport(const OutfeedExport&) = delete;
  OutfeedExport& operator=(const OutfeedExport&) = delete;

 private:
  class Core;
  explicit OutfeedExport(std::shared_ptr<Core> core);

  const std::shared_ptr<Core> core_;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_EXPORT_H_
